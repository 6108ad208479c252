package org.apache.spark.sql.streamjoin.batch

import org.apache.spark.sql.streamjoin.checkpoint.{OperatorLog, SparksJoin, TakeOver, TakenOver}

/**
 * Our operators that have taken over a join of Spark's, in a run.
 *
 * @param operators
 *   by ordinal: the id of Spark's operator
 * @param begun
 *   by ordinal: the join that is taken over, if the run begins with Spark's state
 */
final private[batch] case class TakenOverJoins(
    operators: Map[Int, Long],
    begun: Map[Int, SparksJoin] = Map.empty,
    takeOver: Option[TakeOver] = None
) {

  /** Whether the batch is the first that our operators run. */
  def begins: Boolean = begun.nonEmpty

  /** The id of an operator, by which its state is found. */
  def id(ordinal: Int): Long = operators.getOrElse(ordinal, OperatorLog.FirstId + ordinal)

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

  def begin(takeOver: TakeOver, joins: Map[Int, SparksJoin]): TakenOverJoins =
    TakenOverJoins(joins.map { case (ordinal, join) => ordinal -> join.operator }, joins, Some(takeOver))
}
