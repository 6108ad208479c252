package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, GenericRowWithSchema, Literal, NamedExpression}
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.streamjoin.arrangement.source.ReaderFigures
import org.apache.spark.sql.streamjoin.base.OwnExec

/**
 * Reports the metrics of a look-up in the query progress, as observed metrics: Spark asks only
 * sources and stateful operators for their own metrics, and a look-up is neither. The rows pass
 * through unchanged.
 */
final private[streamjoin] class LookUpProgressExec(
    name: String,
    columns: Seq[NamedExpression],
    child: SparkPlan
)(
    figures: () => Seq[Long]
) extends CollectMetricsExec(name, columns, child)
    with OwnExec {

  override def collectedMetrics: Row = new GenericRowWithSchema(figures().toArray, metricsSchema)

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  override protected def otherCopyArgs: Seq[AnyRef] = figures :: Nil

  override protected def withNewChildInternal(newChild: SparkPlan): LookUpProgressExec =
    new LookUpProgressExec(name, columns, newChild)(figures)

  override def resetMetrics(): Unit = children.foreach(_.resetMetrics())

  override def simpleString(maxFields: Int): String = s"LookUpProgress $name"
}

private[streamjoin] object LookUpProgressExec {
  def of(name: String, lookUp: TableLookUpExec): LookUpProgressExec = {
    val figures = lookUp.figures
    val version = lookUp.access.at.version
    val loads = lookUp.access.figures
    def all = ReaderFigures.inProgress(Seq(loads)).view.mapValues(_.toLong).toSeq
    def read = Seq("version" -> version) ++ figures.view.mapValues(_.value) ++ all
    val columns = read.map { case (column, _) => Alias(Literal(0L), column)() }
    new LookUpProgressExec(name, columns, lookUp)(() => read.map(_._2))
  }
}
