package org.apache.spark.sql.streamjoin.operators.table

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan}
import org.apache.spark.sql.streamjoin.arrangement._
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.operators._

/**
 * Each row of a stream with the rows of a table that match it, or with nulls.
 *
 * @param condition
 *   of a row that is found, besides its key
 * @param values
 *   of the join, of a row with a match
 * @param padded
 *   of a row without one, in an outer join
 */
final private[streamjoin] case class TableLookUpExec(
    access: IndexAccess,
    condition: Option[Expression],
    values: Seq[NamedExpression],
    padded: Option[Seq[Expression]],
    output: Seq[Attribute],
    child: SparkPlan
)(figures: LookUpFigures)
    extends IndexReaderExec {
  override protected def otherCopyArgs: Seq[AnyRef] = figures :: Nil

  override protected def ownMetrics: Map[String, SQLMetric] = figures.metrics

  override protected def outputExpressions: Seq[NamedExpression] = values

  override protected def results: (LookUpTask, Iterator[InternalRow]) => Iterator[InternalRow] = {
    val found = child.output ++ access.found
    val copies = child.output.size
    val matching = FilterProject(condition, found, found)
    val matched = FilterProject(None, values, found)
    val unmatched = padded.map(FilterProject(None, _, child.output))
    val (lookedUp, withMatch, withNulls) = (figures.lookedUp, figures.matched, figures.padded)
    (task, rows) => {
      val matchesOf = matching.inTask
      val joined = matched.inTask
      val alone = unmatched.map(_.inTask)
      rows.flatMap { row =>
        lookedUp += 1
        val matches = matchesOf(task.look(row)).filter(_.getLong(copies) > 0)
        if (matches.hasNext) {
          withMatch += 1
          joined(matches.flatMap(both => Iterator.range(0L, both.getLong(copies)).map(_ => both)))
        } else
          alone.fold(Iterator.empty[InternalRow]) { padding =>
            withNulls += 1
            padding(Iterator.single(row))
          }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): TableLookUpExec =
    copy(child = newChild)(figures)

  override def simpleString(maxFields: Int): String = {
    val version = if (access.at.isEmpty) "" else s" at version ${access.at.version}"
    s"LookUp ${access.words}$version${condition.fold("")(found => s" where ${found.sql}")}, keeps nothing"
  }
}

private[streamjoin] object TableLookUpExec {

  /**
   * @param name
   *   of the look-up in the progress of the query
   */
  def of(join: TableJoin, name: => String, session: SparkSession, stream: SparkPlan): SparkPlan = {
    val key = KeyColumns.of(join.key.map(_.probe))
    val child =
      if (key.computed.isEmpty) stream else ProjectExec(join.stream.output ++ key.computed, stream)
    val newest = PlannedBatch.current(session).map(TableVersions.at(session, _, join.table))
    // Where it is only explained, nothing is looked up.
    val version = newest.fold(-1L)(_.version - (if (join.table.isPrevious) 1 else 0))
    val access = IndexAccess(
      join.rows,
      join.index,
      key.columns,
      join.key.map(_.nullSafe),
      Snapshot(math.max(version, -1)),
      version,
      newest.fold(-1L)(_.version)
    )(ReaderFigures.of(session.sparkContext))
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
    val figures = LookUpFigures.of(session.sparkContext)
    val lookUp =
      TableLookUpExec(access, PredicateParts.all(join.conditions), values, padded, join.output, child)(
        figures
      )
    if (newest.isEmpty) lookUp else LookUpProgressExec.of(name, lookUp, figures)
  }
}
