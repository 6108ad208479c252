package org.apache.spark.sql.streamjoin.batch

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.analysis.OptimizedQuery
import org.apache.spark.sql.streamjoin.checkpoint.{
  Description,
  Generation,
  OperatorLog,
  SparksJoin,
  TakeOver,
  TakenOver
}

/**
 * Our operators that have taken over a join of Spark's, in a run.
 *
 * @param operators
 *   by ordinal: the id of Spark's operator
 * @param begun
 *   by ordinal: the join that is taken over, if the run begins with Spark's state
 * @param described
 *   by ordinal: the operators of the query that takes over
 */
final private[batch] case class TakenOverJoins(
    operators: Map[Int, Long],
    begun: Map[Int, SparksJoin] = Map.empty,
    takeOver: Option[TakeOver] = None,
    described: Map[Int, Description] = Map.empty
) {

  /** Whether the batch is the first that our operators run. */
  def begins: Boolean = begun.nonEmpty

  /** The id of an operator, by which its state is found. */
  def id(ordinal: Int): Long = operators.getOrElse(ordinal, OperatorLog.FirstId + ordinal)

  /** What a failed attempt of the same query at the batch has written. */
  def attempted(ordinal: Int, batch: Long): Seq[Generation] =
    takeOver.toSeq.flatMap(_.attempted(ordinal, batch, described.get(ordinal)))

  def taken(ordinal: Int): TakenOver = {
    val operator = operators(ordinal)
    TakenOver(operator, takeOver.flatMap(_.joins.newestVersion(operator)).getOrElse(0L))
  }

  /** In the batches after the first. */
  def later: TakenOverJoins = TakenOverJoins(operators)
}

private[batch] object TakenOverJoins {
  def recorded(log: OperatorLog): TakenOverJoins = TakenOverJoins(
    log.all
      .map(_.takenOver)
      .zipWithIndex
      .collect { case (Some(taken), ordinal) =>
        ordinal -> taken.operator
      }
      .toMap
  )

  def begin(takeOver: TakeOver, optimized: LogicalPlan): TakenOverJoins = {
    val joins = takeOver.sources(optimized)
    TakenOverJoins(
      joins.map { case (ordinal, join) => ordinal -> join.operator },
      joins,
      Some(takeOver),
      OptimizedQuery.nodesIn(optimized).map(node => node.ordinal -> OperatorLog.describe(node)).toMap
    )
  }
}
