package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Attribute, SessionWindow}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.{RejectedOperator, StatefulNode}
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

/**
 * Tells our operators which columns a stateful Spark operator above them awaits, so that another
 * column with a lower watermark does not delay it.
 */
private[streamjoin] object AwaitedColumns {

  /**
   * A row at the watermark can still arrive. Spark gets one microsecond less, so that it does not
   * drop that row as late.
   */
  val Lag = 1L

  def apply(operator: LogicalPlan, lineage: WatermarkLineage): LogicalPlan = {
    val found = for {
      column <- awaited(operator)
      child <- operator.children
      watermark <- lineage.of(column, child).toSeq
      output <- ColumnWatermark.outputs(watermark)
    } yield (output, if (endsLater(column)) 0L else Lag)
    val lags = found.groupMap(_._1.ordinal) { case (output, lag) => output.key -> lag }
    rejection(operator, found.map(_._1)) match {
      case Some(rejection) =>
        RejectedOperator(operator.nodeName, operator.output, operator.children, rejection)
      case None if lags.isEmpty => operator
      case None => operator.mapChildren(tell(_, lags.transform((_, keys) => largest(keys))))
    }
  }

  private def rejection(
      operator: LogicalPlan,
      awaited: Seq[ColumnWatermark.Output]
  ): Option[AnalysisException] =
    awaited
      .flatMap(UndefinedWatermark.of(_, operator))
      .headOption
      .map(_.rejected(s"The ${operator.nodeName} of Spark's above a join of two streams"))
      .orElse(
        Option.when(awaited.nonEmpty && goesByOneWatermark && operator.exists(emitsOnEviction))(
          StreamJoinErrors.analysis("STREAMJOIN_SINGLE_WATERMARK", "operator" -> operator.nodeName)
        )
      )

  private def goesByOneWatermark: Boolean = !SQLConf.get.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE)

  /** By the time such a row is emitted, Spark's single watermark may have passed it. */
  private def emitsOnEviction(plan: LogicalPlan): Boolean = plan match {
    case node: StatefulNode => node.emitsOnEviction
    case _ => false
  }

  private def largest(lags: Iterable[(Int, Long)]): Map[Int, Long] = lags.groupMapReduce(_._1)(_._2)(math.max)

  /** A window ends after every row in it. A session is extended by a row exactly at its end. */
  private def endsLater(column: Attribute): Boolean =
    EventTime.isWindow(column) && !column.metadata.contains(SessionWindow.marker)

  /** The event-time columns whose watermark an operator awaits. */
  private def awaited(operator: LogicalPlan): Seq[Attribute] =
    (operator match {
      case aggregate: Aggregate => aggregate.groupingExpressions.flatMap(_.references)
      // Deduplication uses any of its columns to find late rows, whatever its keys are.
      case other if isDeduplication(other) || WatermarkLineage.isStateful(other) =>
        other.children.flatMap(_.output)
      case _ => Nil
    }).filter(EventTime.isMarked)

  private def isDeduplication(operator: LogicalPlan): Boolean = operator match {
    case _: Deduplicate | _: DeduplicateWithinWatermark => true
    case _ => false
  }

  /** Notifies the nearest of our operators below. Deduplication emits rows as they arrive. */
  private def tell(plan: LogicalPlan, lags: Map[Int, Map[Int, Long]]): LogicalPlan = plan match {
    case node: StatefulNode => node.awaiting(lags.getOrElse(node.ordinal, Map.empty))
    case stateful if WatermarkLineage.isStateful(stateful) => stateful
    case other => other.mapChildren(tell(_, lags))
  }
}

/**
 * The watermark keys of one of our operators that a stateful Spark operator above awaits. If there
 * are none, Spark gets the watermarks of all emitted columns.
 *
 * @param lags
 *   by key: how far Spark's watermark must stay below ours, in microseconds
 */
final private[streamjoin] case class AwaitedKeys(lags: Map[Int, Long]) {

  /** Adds more keys; of two lags for a key, the larger counts. */
  def and(more: Map[Int, Long]): AwaitedKeys =
    AwaitedKeys((lags.toSeq ++ more).groupMapReduce(_._1)(_._2)(math.max))

  /**
   * Spark's stateful operators receive the smallest of these. A row at the watermark can still
   * arrive, but Spark would drop it as late. So Spark receives a lower value, unless the row is
   * judged by its window, which ends later.
   *
   * @param emitted
   *   watermark keys of the emitted columns
   */
  def forSpark(emitted: Seq[Int], outputWatermark: Int => ColumnWatermark): Seq[ColumnWatermark] = {
    val known = if (lags.isEmpty) emitted.map(_ -> AwaitedColumns.Lag) else lags.toSeq.sorted
    known.map { case (key, lag) => ColumnWatermark.ForSpark(outputWatermark(key), lag) }
  }
}

private[streamjoin] object AwaitedKeys {
  val none: AwaitedKeys = AwaitedKeys(Map.empty)
}
