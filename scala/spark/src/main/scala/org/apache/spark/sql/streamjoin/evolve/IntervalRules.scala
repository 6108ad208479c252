package org.apache.spark.sql.streamjoin.evolve

import streamjoin.core.{JoinType, Side}

/** The rules of interval joins. */
final private[evolve] class IntervalRules(of: Comparison) {
  private val before = RecordedInterval.of(of.was.properties)
  private val now = RecordedInterval.of(of.is.properties)

  /** None if an older version has recorded the join. */
  val bounds: Option[BoundRules] = for (was <- before; is <- now) yield new BoundRules(of, was, is)

  /** If the join is added: rows from before have not met each other, nor later ones. */
  def added: Effect = comparing(rules => Effect.all(Side.both.map(rules.anyOf(_))))

  private def comparing(rule: BoundRules => Effect): Effect = bounds.fold[Effect](Effect.Unknown)(rule)

  def condition: Seq[Change] = bounds match {
    case Some(rules) =>
      val (was, is) = (before.get, now.get)
      val found = rules.changes ++ Side.both.flatMap(only(_, was, is, rules)) ++ pair(was, is)
      if (found.isEmpty && of.differing.contains("condition")) Seq(of.change("condition", Effect.exact))
      else found
    case None => Seq(of.change("condition", Effect.Unknown))
  }

  private def only(
      side: Side,
      was: RecordedInterval,
      is: RecordedInterval,
      bounds: BoundRules
  ): Option[Change] = {
    val (removed, added) = differences(was.only(side), is.only(side))
    Option.when(removed.nonEmpty || added.nonEmpty)(
      Change(
        s"${side.name}_condition",
        all(was.only(side)),
        all(is.only(side)),
        if (added.isEmpty) bounds.anyOf(side)
        // Rows in state are tested again.
        else if (removed.isEmpty) Effect.Rewritten()
        else Effect.rewritten(bounds.anyOf(side))
      )
    )
  }

  private def pair(was: RecordedInterval, is: RecordedInterval): Option[Change] = {
    val (removed, added) = differences(was.pair, is.pair)
    Option.when(removed.nonEmpty || added.nonEmpty)(
      Change("condition", all(was.pair), all(is.pair), Effect.exact)
    )
  }

  private def differences(was: Seq[String], is: Seq[String]): (Seq[String], Seq[String]) =
    (was.filterNot(one => is.exists(of.isSame(one, _))), is.filterNot(one => was.exists(of.isSame(_, one))))

  private def all(conjuncts: Seq[String]): String =
    if (conjuncts.isEmpty) "none" else conjuncts.mkString(" AND ")

  /**
   * Rows with a null in a key were not kept. With more equalities than before, they match nothing
   * either.
   */
  def equality: Effect = comparing { rules =>
    val hasAll = before.get.equalities.forall(one => now.get.equalities.exists(of.isSame(one, _)))
    if (hasAll) Effect.Rewritten() else Effect.rewritten(Effect.all(Side.both.map(rules.anyOf(_))))
  }

  def joinType: Effect = comparing { rules =>
    Seq(of.was, of.is).map(_.properties("join_type")).map(JoinType.named) match {
      case Seq(Some(was), Some(is)) =>
        val effect = IntervalRules.joinType(was, is, rules)
        // Without an equality, the type decides which task has which rows.
        if (before.get.routing != now.get.routing) Effect.rewritten(effect) else effect
      case _ => Effect.Unknown
    }
  }
}

private object IntervalRules {

  private def joinType(was: JoinType, is: JoinType, bounds: BoundRules): Effect = {
    import StateStep._
    val more = is.preserved -- was.preserved
    if (is.filtered.isDefined)
      if (was.filtered.isDefined) Effect.exact
      else if (was.pads(Side.Left))
        Effect.all(Seq(bounds.countedAsMatched(Side.Left)), Seq(RemoveMatched(Side.Left)))
      // Which rows have been emitted with a match is not in the state.
      else Effect.Rejected()
    else if (was.filtered.isDefined) {
      // The left rows that are left have no match; those with one are gone.
      val unpadded = if (is.pads(Side.Right)) Seq(Side.Right) else Nil
      Effect.all((Side.Left +: unpadded).map(bounds.anyOf(_)), unpadded.map(CountAsMatched))
    } else {
      val sides = Side.both.filter(more)
      Effect.all(sides.map(bounds.anyOf(_, pairs = false)), sides.map(CountAsMatched))
    }
  }
}
