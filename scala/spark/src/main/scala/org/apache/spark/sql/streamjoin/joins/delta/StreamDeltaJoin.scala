package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.lookup.ArrangedRows

/**
 * One input of a delta join: the changes of an arrangement.
 *
 * @param name
 *   name of the input in the query
 * @param source
 *   distinguishes its stream from others of the same arrangement
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

  /** The input as seen by look-ups: a found row has no version. */
  def arranged: ArrangedRows = ArrangedRows(name, arrangement, rows, diff)
}

/**
 * A join of arrangements that keeps no state: the changes of each input look up the indexes of the
 * others.
 *
 * {{{
 *   changes of a -> look up b before -> look up c before -+
 *   changes of b -> look up a after  -> look up c before -+-> consolidate -> changes of the join
 *   changes of c -> look up a after  -> look up b after  -+
 * }}}
 *
 * The law ([[streamjoin.core.DeltaJoin]]): each pair of rows counts exactly once. Inputs are
 * ordered as the query names them. A change is joined with the state after the batch of the inputs
 * that precede its own, and with the state before the batch of the inputs that follow. So if both
 * rows of a pair change in one batch, the change of the later input sees the other change, and the
 * change of the earlier input does not. If both saw the state after the batch, the pair would count
 * twice; if both saw the state before, never.
 *
 * @param outer
 *   in an outer join of two inputs, the preserved ones
 * @param conditions
 *   conditions of the join
 * @param filters
 *   by input: filters on its rows, which apply before an outer join too
 * @param select
 *   expressions of the result columns
 * @param time
 *   the latest of the inputs' times, if all have one
 * @param output
 *   result columns, then the time, then the number of copies
 */
final private[streamjoin] case class StreamDeltaJoin(
    inputs: Seq[DeltaInput],
    outer: Set[Int],
    conditions: Seq[Expression],
    filters: Seq[Seq[Expression]],
    select: Seq[Expression],
    time: Option[Expression],
    output: Seq[Attribute],
    children: Seq[LogicalPlan]
) extends LogicalPlan {

  /** All conditions on a pair. */
  def ofPairs: Seq[Expression] = conditions ++ filters.flatten

  override lazy val references: AttributeSet = AttributeSet(inputs.flatMap(_.output))

  override def producedAttributes: AttributeSet = AttributeSet(output)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): StreamDeltaJoin =
    copy(children = newChildren)

  override def simpleString(maxFields: Int): String =
    s"DeltaJoin ${inputs.map(_.name).mkString(", ")} on ${ofPairs.map(_.sql).mkString(" AND ")}"
}

private[streamjoin] object StreamDeltaJoin {

  /** The preserved inputs of a join type; none if there is no such delta join. */
  def outer(joinType: JoinType): Option[Set[Int]] = joinType match {
    case Inner | Cross => Some(Set.empty)
    case LeftOuter => Some(Set(0))
    case RightOuter => Some(Set(1))
    case FullOuter => Some(Set(0, 1))
    case _ => None
  }
}
