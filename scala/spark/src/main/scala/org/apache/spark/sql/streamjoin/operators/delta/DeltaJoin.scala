package org.apache.spark.sql.streamjoin.operators.delta

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementRef, ChangesTable}
import org.apache.spark.sql.streamjoin.operators.ArrangedRows

/**
 * One input of a delta join: the changes of an arrangement.
 *
 * @param name
 *   what the query calls it
 * @param source
 *   tells its stream from others of the same arrangement
 */
final private[streamjoin] case class DeltaInput(
    name: String,
    arrangement: ArrangementRef,
    source: String,
    output: Seq[Attribute]
) {
  def rows: Seq[Attribute] = output.take(arrangement.meta.schema.length)
  def version: Attribute = output(rows.size)
  def diff: Attribute = output(rows.size + 1)

  /** The time of the last change of a row. */
  def time: Option[Attribute] =
    arrangement.meta.time.map(name => rows(arrangement.meta.schema.fieldIndex(name)))

  /** As it is looked up: what is found has no version of its own. */
  def arranged: ArrangedRows = ArrangedRows(name, arrangement, rows, diff)
}

/**
 * A join of arrangements that keeps nothing: what changes in one of them meets
 * the others where they are indexed.
 *
 * {{{
 *   changes of a -> look up b before -> look up c before -+
 *   changes of b -> look up a after  -> look up c before -+-> consolidate -> changes of the join
 *   changes of c -> look up a after  -> look up b after  -+
 * }}}
 *
 * Inputs are in the order in which they are written. The changes of one meet those before it as
 * they are after the batch, and those after it as they were before: so each pair of changes of one
 * batch meets once.
 *
 * @param outer
 *   in an outer join of two inputs, those whose rows without a match are in the result
 * @param conditions
 *   of the join
 * @param filters
 *   by input: which of its rows there are, also in an outer join
 * @param select
 *   what is in the columns of the result
 * @param time
 *   the latest of the inputs' times, where all have one
 * @param output
 *   the columns of the result, the time, and the number of copies
 */
final private[streamjoin] case class DeltaJoin(
    inputs: Seq[DeltaInput],
    outer: Set[Int],
    conditions: Seq[Expression],
    filters: Seq[Seq[Expression]],
    select: Seq[Expression],
    time: Option[Expression],
    output: Seq[Attribute],
    children: Seq[LogicalPlan]
) extends LogicalPlan {

  /** What a pair satisfies. */
  def ofPairs: Seq[Expression] = conditions ++ filters.flatten

  override lazy val references: AttributeSet = AttributeSet(inputs.flatMap(_.output))

  override def producedAttributes: AttributeSet = AttributeSet(output)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): DeltaJoin =
    copy(children = newChildren)

  override def simpleString(maxFields: Int): String =
    s"DeltaJoin ${inputs.map(_.name).mkString(", ")} on ${ofPairs.map(_.sql).mkString(" AND ")}"
}

private[streamjoin] object DeltaJoin {

  /** Of two inputs, those whose rows without a match a type of join keeps; none for other types. */
  def outer(joinType: JoinType): Option[Set[Int]] = joinType match {
    case Inner | Cross => Some(Set.empty)
    case LeftOuter => Some(Set(0))
    case RightOuter => Some(Set(1))
    case FullOuter => Some(Set(0, 1))
    case _ => None
  }

  /** How many copies of a row of the result come, or go where it is negative. */
  val Diff: String = ChangesTable.Diff

  /** The latest of the inputs' times. */
  val Time = "_time"
}
