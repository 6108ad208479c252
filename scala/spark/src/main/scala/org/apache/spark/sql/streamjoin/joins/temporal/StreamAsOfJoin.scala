package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, Filter, LogicalPlan, Project}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.PendingOperator

import streamjoin.core.AsOf

/**
 * A temporal or as-of join, as written in a query: joins each left row with the right row of its
 * key that was valid at its time, or closest to it. The operator that replaces it,
 * [[StreamTemporalJoin]], buffers rows until the match is known.
 *
 * @param leftTime
 *   event-time column of the left input
 * @param leftKeys
 *   key expressions, each equal to the one of `rightKeys` at its position; at least one
 * @param nullSafe
 *   for each of them, whether null equals null
 * @param operation
 *   column of the right input that says whether a row is a version or deletes its key; none if all
 *   rows are versions
 * @param ties
 *   columns of the right input that order rows with the same key and time: the row that is greater
 *   in the first column that differs is later; in `operation`, a delete is the earlier one. They
 *   may include the position of a row in its log, which is computed for the join ([[position]]).
 *   They are expressions of the node, so that the columns a query selects do not change which rows
 *   match.
 * @param condition
 *   further condition that a pair has to satisfy for the left row to have a match
 * @param isLeftOuter
 *   whether a left row without a match is emitted, padded with nulls
 * @param ordered
 *   whether a batch emits its rows in the order of the left time
 * @param terms
 *   the parts of the user's query that the other fields do not show
 * @param keyInWords
 *   the key of the versions and the reason for it, for EXPLAIN
 * @param unavailable
 *   stands for a value that was not sent, if there is one
 */
final private[streamjoin] case class StreamAsOfJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    rule: AsOf,
    leftTime: Attribute,
    rightTime: Attribute,
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    nullSafe: Seq[Boolean],
    operation: Option[Attribute],
    ties: Seq[Attribute],
    condition: Option[Expression],
    isLeftOuter: Boolean,
    ordered: Boolean,
    terms: AsOfTerms,
    keyInWords: Option[String] = None,
    unavailable: Option[String] = None
) extends BinaryNode
    with PendingOperator {
  override def output: Seq[Attribute] = StreamTemporalJoin.output(left.output, right.output, isLeftOuter)

  /**
   * The columns of the right input with the position of a row in its log, if versions are ordered
   * by it.
   */
  def position: Seq[Attribute] = ties.filterNot(StreamTemporalJoin.isShown)

  /** The join without that position, as in earlier builds. */
  def withoutPosition: StreamAsOfJoin = {
    val rows = right.output.filter(StreamTemporalJoin.isShown)
    copy(
      right = Project(rows, right),
      ties = AsOfJoins.ties(terms.order.map(_ => ties.head), Nil, operation, rows)
    )
  }

  override protected def withNewChildrenInternal(
      newLeft: LogicalPlan,
      newRight: LogicalPlan
  ): StreamAsOfJoin =
    copy(left = newLeft, right = newRight)

  override def disabled: AnalysisException =
    StreamJoinErrors.analysis("STREAMJOIN_TEMPORAL_DISABLED", "column" -> leftTime.name)

  /** A filter on versions would make a fact match another version. */
  override def passes(conjunct: Expression): Boolean =
    conjunct.deterministic && conjunct.references.nonEmpty && conjunct.references.subsetOf(left.outputSet)

  override def withFilter(condition: Expression): LogicalPlan = copy(left = Filter(condition, left))
}

/**
 * Terms of an as-of join that neither its rule nor its columns show, as text that is stable across
 * runs. They decide which right rows are kept in state, and which of them match.
 *
 * @param join
 *   `temporal` or `as-of`
 * @param order
 *   column that orders versions of one key and time
 * @param rightCondition
 *   condition on right rows that decides which are candidates
 * @param unavailable
 *   stands for a value that was not sent: a version in state takes the value of the one before it
 */
final private[streamjoin] case class AsOfTerms(
    join: String,
    order: Option[String] = None,
    rightCondition: Option[String] = None,
    unavailable: Option[String] = None
) {
  def description: Map[String, String] = Map(
    "join" -> join,
    "order" -> order.getOrElse("none"),
    "right_condition" -> rightCondition.getOrElse("true"),
    "unavailable" -> unavailable.getOrElse("none")
  )
}

/**
 * The columns of a temporal join.
 *
 * @param asOf
 *   event-time column of the left input
 * @param key
 *   columns that identify a row of the table, or fields of a column
 * @param time
 *   column with the time from which a version is valid
 * @param op
 *   column that says whether a row is a version or deletes its key; without it, all are versions
 * @param order
 *   column that breaks ties: among rows with the same key and time, the one with the greater value
 *   is later
 * @param unavailable
 *   stands for a value that was not sent, if there is one
 * @tparam C
 *   a column name, or the column it resolves to
 * @tparam K
 *   a column, or a field of one, in the same form
 */
final private[streamjoin] case class TemporalColumns[+C, +K](
    asOf: C,
    key: Seq[K],
    time: C,
    op: Option[C],
    order: Option[C] = None,
    unavailable: Option[String] = None
)
