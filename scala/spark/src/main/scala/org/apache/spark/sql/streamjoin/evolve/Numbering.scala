package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.streamjoin.checkpoint.{Description, OperatorLog, OperatorPlace}

/**
 * Finds the operators of a query among those that its checkpoint records, by what they are and by
 * the event times that reach them, not by their position: other operators may have been added or
 * removed.
 *
 * {{{
 *   recorded        query
 *   0  a, b         a, b       same kind, same event times: 0
 *   1  a, b, c      d, e       only in the query: added, 2
 *                   (1 was removed)
 * }}}
 */
private[evolve] object Numbering {

  /** A query that cannot be compared with the recorded one, and why. */
  final case class Failure(change: Change)

  /**
   * The number of each operator.
   *
   * @param recorded
   *   by number, in the order of the query that has run
   * @param query
   *   in the order of the query
   * @param next
   *   the first number that is not used yet
   */
  def of(
      recorded: Seq[(Int, Description)],
      query: Seq[Description],
      next: Int
  ): Either[Failure, Seq[Int]] = {
    def failure(effect: Effect) = Left(
      Failure(Change(OperatorLog.Number, recorded.size.toString, query.size.toString, effect))
    )
    val isKnown = (recorded.map(_._2) ++ query).forall(placeOf(_).isDefined)
    if (query.isEmpty || recorded.isEmpty && next > 0) failure(Effect.Rejected())
    else if (recorded.isEmpty) Right(query.indices)
    else if (!isKnown)
      if (recorded.size == query.size) Right(recorded.map(_._1)) else failure(Effect.Unknown)
    else
      found(recorded.toVector, query.zipWithIndex.toVector) match {
        case None => failure(Effect.Rejected(Ambiguous))
        case Some(pairs) =>
          val (before, now) = (
            recorded.map(_._1).filterNot(pairs.values.toSet),
            query.indices.filterNot(pairs.contains)
          )
          // What is in the place of another one is a change of it.
          if (before.size == now.size) Right(numbers(query.size, pairs ++ now.zip(before)))
          else if (before.isEmpty || now.isEmpty)
            Right(numbers(query.size, pairs ++ now.zip(Iterator.from(next))))
          else failure(Effect.Rejected(Several))
      }
  }

  private def numbers(size: Int, pairs: Map[Int, Int]): Seq[Int] = (0 until size).map(pairs)

  private def placeOf(operator: Description): Option[OperatorPlace] = OperatorPlace.of(operator.properties)

  private def identity(operator: Description): Any = (operator.kind, placeOf(operator).map(_.marks))

  /** By position in the query: the number. None if that is not known, as several are equal. */
  private def found(
      recorded: Seq[(Int, Description)],
      query: Seq[(Description, Int)]
  ): Option[Map[Int, Int]] = {
    val before = recorded.groupBy { case (_, operator) => identity(operator) }
    val found = query.groupBy { case (operator, _) => identity(operator) }.map { case (of, operators) =>
      alike(before.getOrElse(of, Nil), operators)
    }
    Option.when(found.forall(_.isDefined))(found.flatten.flatten.toMap)
  }

  /** Of one kind, over the same event times. */
  private def alike(
      recorded: Seq[(Int, Description)],
      query: Seq[(Description, Int)]
  ): Option[Map[Int, Int]] = {
    def equal(before: Description, now: Description) = before.difference(now).isEmpty
    val candidates = query.map { case (operator, at) =>
      at -> recorded.collect { case (number, before) if equal(before, operator) => number }
    }
    val isUnique = candidates.forall(_._2.size <= 1) &&
      candidates.flatMap(_._2).distinct.size == candidates.flatMap(_._2).size
    val same = candidates.collect { case (at, Seq(number)) => at -> number }.toMap
    if (recorded.size != query.size) Option.when(isUnique)(same)
    else if (!isUnique) Some(query.map(_._2).zip(recorded.map(_._1)).toMap)
    else {
      val others = query.map(_._2).filterNot(same.contains)
      Some(same ++ others.zip(recorded.map(_._1).filterNot(same.values.toSet)))
    }
  }

  private val Ambiguous =
    "Several joins have the same condition over the same inputs, so it is not known which of them was added or " +
      "removed: start the new query with a new checkpoint location."

  private val Several =
    "Joins were added or removed, and others were changed: change the joins in one restart, and add or remove joins in " +
      "another one, or start the new query with a new checkpoint location."
}
