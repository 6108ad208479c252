package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.streamjoin.arrangement.lookup.{
  FilterProject,
  IndexAccess,
  IndexReaderExec,
  KeyColumns,
  LookUpTask
}
import org.apache.spark.sql.streamjoin.arrangement.source.ReaderFigures
import org.apache.spark.sql.streamjoin.arrangement.storage.Snapshot
import org.apache.spark.sql.streamjoin.base.{Figures, OwnExec, PredicateParts}
import org.apache.spark.sql.streamjoin.operator.RowIterator

/**
 * Joins each row of a stream with the matching rows of a table, or with nulls.
 *
 * @param condition
 *   the remaining condition on a row found by its key
 * @param values
 *   output for a row with a match
 * @param padded
 *   output for a row without one, in an outer join
 */
final private[streamjoin] case class TableLookUpExec(
    access: IndexAccess,
    condition: Option[Expression],
    values: Seq[NamedExpression],
    padded: Option[Seq[Expression]],
    output: Seq[Attribute],
    child: SparkPlan
)(private[table] val figures: Map[String, SQLMetric])
    extends IndexReaderExec {
  override protected def otherCopyArgs: Seq[AnyRef] = figures :: Nil

  override protected def ownMetrics: Map[String, SQLMetric] = figures

  override protected def outputExpressions: Seq[NamedExpression] = values

  override protected def results: (LookUpTask, Iterator[InternalRow]) => Iterator[InternalRow] = {
    val results = LookUpResults(child.output ++ access.found, child.output, condition, values, padded)
    val (lookedUp, withMatch, withNulls) =
      (figures("lookedUpRows"), figures("matchedRows"), figures("paddedRows"))
    (task, rows) => {
      val resultsOf = results.inTask(task)
      rows.flatMap { row =>
        lookedUp += 1
        val matches = resultsOf.matches(row)
        if (matches.hasNext) {
          withMatch += 1
          matches
        } else {
          if (results.padded.isDefined) withNulls += 1
          resultsOf.unmatched(row)
        }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): TableLookUpExec =
    copy(child = newChild)(figures)

  /** The text for EXPLAIN. */
  def words: String = {
    val version = if (access.at.isEmpty) "" else s" at version ${access.at.version}"
    s"${access.words}$version${FilterProject.where(condition)}"
  }

  override def simpleString(maxFields: Int): String = s"LookUp $words, keeps nothing"
}

/**
 * Converts stream rows to output rows.
 *
 * @param matched
 *   output for a row with a match; the filter selects the found rows that satisfy the condition
 * @param copies
 *   ordinal of the number of copies in a found row
 * @param padded
 *   output for a row without one
 */
final private[table] case class LookUpResults(
    matched: FilterProject,
    copies: Int,
    padded: Option[FilterProject]
) {
  def inTask(task: LookUpTask): LookUpResults.InTask = new LookUpResults.InTask(this, task)
}

private[table] object LookUpResults {
  def apply(
      found: Seq[Attribute],
      input: Seq[Attribute],
      condition: Option[Expression],
      values: Seq[NamedExpression],
      padded: Option[Seq[Expression]]
  ): LookUpResults = LookUpResults(
    FilterProject(condition, values, found),
    input.size,
    padded.map(FilterProject(None, _, input))
  )

  /** A row is valid until the next one is read. */
  final class InTask(results: LookUpResults, task: LookUpTask) {
    private val isWanted = results.matched.predicate
    private val matched = results.matched.projection
    private val padded = results.padded.map(_.projection)

    def matches(row: InternalRow): Iterator[InternalRow] = new RowIterator {
      private val found = task.look(row)
      private var out: InternalRow = _
      private var copies = 0L

      override protected def advance(): InternalRow = {
        while (copies <= 0 && found.hasNext) {
          val both = found.next()
          if (isWanted.forall(_.eval(both))) {
            out = matched(both)
            copies = both.getLong(results.copies)
          }
        }
        copies -= 1
        if (copies >= 0) out else null
      }
    }

    def unmatched(row: InternalRow): Iterator[InternalRow] =
      padded.fold(Iterator.empty[InternalRow])(project => Iterator.single(project(row)))
  }
}

private[streamjoin] object TableLookUpExec {

  /**
   * The look-up, without its metrics in the query progress.
   *
   * @param newest
   *   the snapshot of the table that the batch sees ([[TableVersions.beginBatch]])
   */
  def of(join: TableJoin, newest: Option[Snapshot], stream: SparkPlan): TableLookUpExec = {
    val key = KeyColumns.of(join.key.map(_.probe))
    val version = newest.fold(-1L)(_.version - (if (join.table.isPrevious) 1 else 0))
    val access = IndexAccess(
      join.rows,
      join.index,
      key.columns,
      join.key.map(_.nullSafe),
      Snapshot(math.max(version, -1)),
      version,
      newest.flatMap(_.versionId)
    )(ReaderFigures.of(stream.session.sparkContext))
    val fields = AttributeMap(join.fields.map(field => field.toAttribute -> field))
    val values = join.output.map { column =>
      fields.get(column).fold[NamedExpression](column) {
        case alias: Alias => alias
        case attribute => attribute
      }
    }
    val padded = Option.when(join.isOuter)(join.output.map { column =>
      if (fields.contains(column)) Literal(null, column.dataType) else column
    })
    val figures = Figures.metrics(stream.session.sparkContext, "lookUp")
    TableLookUpExec(
      access,
      PredicateParts.all(join.conditions),
      values,
      padded,
      join.output,
      key.over(stream)
    )(figures)
  }
}

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
