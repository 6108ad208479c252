package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.streamjoin.analysis.EquiKeys
import org.apache.spark.sql.streamjoin.checkpoint.{Description, SessionZone}
import org.apache.spark.sql.streamjoin.watermark.Passed

import streamjoin.core.{JoinType, Side, TimeBound, Watermark}

/**
 * What may change while the state of an operator is in use: by kind, one rule for each property
 * that may. A property without a rule must not change.
 *
 * The law: a pair belongs to the query that runs when its later row arrives, and a row has matched
 * if it was emitted with a match, under whichever condition applied then.
 *
 * {{{
 *   change                         rows in state                 results
 *   narrower bound, shorter        too old ones leave in the     exact
 *     tolerance, history, rematch    first batch
 *   wider bound, longer            unchanged                     lack matches of rows that had left
 *     tolerance, history, rematch
 *   condition over both sides      unchanged                     exact
 *   carried bound added next to    unchanged: the constant       exact
 *     a constant one                 decides alone
 *   condition on one side removed  unchanged                     lack matches of rows that were not
 *                                                                  kept
 *   outer to inner, fewer          unchanged                     exact
 *     preserved sides, semi to
 *     anti and back
 *   one more preserved side        count as matched              earlier rows are not padded
 *   left or full outer to semi     matched ones leave            exact
 *     or anti
 *   semi or anti to another type   unchanged                     lack other matches of matched rows
 *   condition on one side added    those that fail it leave      exact
 *   more equalities                rewritten                     exact
 *   another equality               rewritten                     lack matches of rows whose old key
 *                                                                  has a null
 *   fewer columns, wider types     rewritten                     exact
 *   more columns                   null in them                  exact, values from then on
 * }}}
 */
private[streamjoin] object ChangeRules {

  /** The changes if a property differs. */
  private type Rule = Comparison => Seq[Change]

  private val byKind: Map[String, Map[String, Rule]] = Map(
    "interval_join" -> Map(
      rule("join_type")(IntervalRules.joinType),
      rules("condition")(new IntervalRules(_).condition),
      rule("equality")(new IntervalRules(_).equality),
      // Keys are computed again.
      rule(EquiKeys.ZoneProperty)(_ => Effect.Rewritten()),
      columns(Side.Left),
      columns(Side.Right)
    ),
    "temporal_join" -> Map(
      rule("join_type")(TemporalRules.joinType),
      rule("condition")(_ => Effect.exact),
      rule("tolerance_micros")(TemporalRules.tolerance),
      rule("history_micros")(TemporalRules.history),
      columns(Side.Left),
      columns(Side.Right)
    ),
    "rematch_join" -> Map(
      // Rows that have not left wait as long as the changed query wants.
      rule("rematch_micros")(_.longer("rematch_micros", key = 0))
    ),
    "rowtime_order" -> Map(rules("columns")(ColumnRules(_, "columns", None)))
  )

  /** What must not change in an interval join whose rows carry the times at which they leave. */
  private val fixedByValues = Set("join_type", "condition", "equality", EquiKeys.ZoneProperty)

  private def rejected(property: String): Rule = of => Seq(of.change(property, Effect.Rejected()))

  private def columns(side: Side): (String, Rule) = {
    val property = s"${side.name}_columns"
    rules(property)(ColumnRules(_, property, Some(side.name)))
  }

  private def rules(property: String)(changes: Rule): (String, Rule) = property -> changes

  private def rule(property: String)(effect: Comparison => Effect): (String, Rule) =
    rules(property)(of => Seq(of.change(property, effect(of))))

  /** The effect if an operator is added to a running query. */
  def added(of: Comparison): Effect = of.is.kind match {
    case "interval_join" => IntervalRules.added(of)
    case "temporal_join" => TemporalRules.added(of)
    // Rows from before are not looked up.
    case "rematch_join" => of.any(key = 0, reach = 0)
    case _ => Effect.exact
  }

  /** @param passed what the operator has passed with the batch before, if that is recorded */
  def changes(was: Description, is: Description, passed: => Option[Passed]): Seq[Change] = {
    val of = new Comparison(was, is, () => passed)
    val carried = Seq(was, is).map(_.properties.getOrElse(RecordedInterval.CarriedBounds, "none"))
    if (was.kind != is.kind) Seq(Change("kind", was.kind, is.kind, Effect.Rejected()))
    else if (carried.distinct.size > 1)
      Seq(Change(RecordedInterval.CarriedBounds, carried.head, carried.last, Effect.Rejected()))
    else {
      val ofKind = byKind.getOrElse(is.kind, Map.empty[String, Rule])
      // The times of the rows in state have been computed by the old query.
      val isFixed = carried.head != "none"
      val rules = if (isFixed) ofKind -- fixedByValues else ofKind
      ColumnRules.checked(
        of,
        of.differing.flatMap(property => rules.getOrElse(property, rejected(property)).apply(of))
      )
    }
  }
}

/** An operator before and after a change. */
final private[evolve] class Comparison(
    val was: Description,
    val is: Description,
    read: () => Option[Passed]
) {
  private lazy val passed = read()

  /** Only what both of them have: a record of an older version may lack a property. */
  def differing: Seq[String] = is.compared.keys.toSeq.sorted.filter { name =>
    was.properties.get(name).exists(!isSame(_, is.properties(name)))
  }

  /** Whether a recorded text means the same as one of this session. */
  def isSame(before: String, now: String): Boolean = SessionZone.isSame(before, was.zone, now)

  def change(what: String, effect: Effect): Change =
    Change(what, was.properties(what), is.properties(what), effect)

  /** If a duration in microseconds is longer than before, rows that have left are missed. */
  def longer(what: String, key: Int, reach: Long = 0): Effect =
    if (is.properties(what).toLong <= was.properties(what).toLong) Effect.exact else evicted(key, reach)

  /**
   * The rows that have left are missed.
   *
   * @param key
   *   watermark key of the column by which they have left
   * @param reach
   *   how much later than such a row its match may be, in microseconds
   */
  def evicted(key: Int, reach: Long): Effect =
    passed.flatMap(_.evicted.lift(key)).fold[Effect](Effect.Unknown) {
      case Watermark.Undefined => Effect.exact
      case below => Effect.Unchanged(Seq(Missing(key, below, Watermark.postponed(below, -reach))))
    }

  /**
   * Rows of any time up to the newest may be missed.
   *
   * @param key
   *   watermark key of their column
   */
  def any(key: Int, reach: Long): Effect = passed match {
    case Some(before) =>
      before.newest.lift(key).filter(_ != Watermark.Undefined) match {
        case Some(newest) =>
          // It is known to the millisecond.
          val after = newest + 1000
          Effect.Unchanged(Seq(Missing(key, after, Watermark.postponed(after, -reach))))
        case None if before.outputs.lift(key).contains(Watermark.Undefined) => Effect.exact
        case None => Effect.Unknown
      }
    case None => Effect.Unknown
  }
}

/** The rules of interval joins. */
final private class IntervalRules(of: Comparison) {
  private val before = RecordedInterval.of(of.was.properties)
  private val now = RecordedInterval.of(of.is.properties)

  def condition: Seq[Change] = (before, now) match {
    case (Some(was), Some(is)) if was.times == is.times && was.sides == is.sides =>
      val found = bounds(was, is) ++ Side.both.flatMap(only(_, was, is)) ++ pair(was, is)
      if (found.nonEmpty) found else Seq(of.change("condition", Effect.exact))
    case (Some(was), Some(is)) =>
      val columns = s"The event-time columns of the inputs were ${all(was)}, and are ${all(is)}: restore " +
        "them, or start the new query with a new checkpoint location."
      Seq(of.change("condition", Effect.Rejected(columns)))
    case _ => Seq(of.change("condition", Effect.Unknown))
  }

  private def bounds(was: RecordedInterval, is: RecordedInterval): Seq[Change] = {
    val pairs = (was.bounds ++ is.bounds).map(bound => (bound.out, bound.in)).distinct.sorted
    for {
      (out, in) <- pairs
      (before, after) = (was.bound(out, in), is.bound(out, in))
      if before != after
    } yield Change(
      "bound",
      before.fold("none")(was.inWords),
      after.fold("none")(is.inWords),
      if (was.layout != is.layout) Effect.Rejected(IntervalRules.otherTimes(was, is))
      else if (after.exists(bound => before.forall(_.postpone > bound.postpone))) Effect.exact
      else of.evicted(out, IntervalRules.reach(is.bounds, out))
    )
  }

  private def only(side: Side, was: RecordedInterval, is: RecordedInterval): Option[Change] = {
    val (removed, added) = differences(was.only(side), is.only(side))
    Option.when(removed.nonEmpty || added.nonEmpty)(
      Change(
        s"${side.name}_condition",
        all(was.only(side)),
        all(is.only(side)),
        if (added.isEmpty) IntervalRules.anyOf(side, of, is)
        // Rows in state are tested again.
        else if (removed.isEmpty) Effect.Rewritten()
        else Effect.rewritten(IntervalRules.anyOf(side, of, is))
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

  private def all(of: RecordedInterval): String = of.times.mkString(", ")

  /**
   * Rows with a null in a key were not kept. With more equalities than before, they match nothing
   * either.
   */
  def equality: Effect = (before, now) match {
    case (Some(was), Some(is)) =>
      if (was.equalities.forall(one => is.equalities.exists(of.isSame(one, _)))) Effect.Rewritten()
      else Effect.rewritten(IntervalRules.both(Side.both.map(IntervalRules.anyOf(_, of, is)), Nil))
    case _ => Effect.Unknown
  }
}

private object IntervalRules {

  /** Rows from before have not met each other, nor later ones. */
  def added(of: Comparison): Effect =
    RecordedInterval.of(of.is.properties).fold[Effect](Effect.Unknown) { now =>
      if (now.carried.isEmpty) both(Side.both.map(anyOf(_, of, now)), Nil)
      else Effect.Rejected(Carried)
    }

  private val Carried =
    "How long rows are kept is a value that they carry, so it is not known from when on its results are complete: add " +
      "a bound with a constant, or start the new query with a new checkpoint location."

  def joinType(of: Comparison): Effect = {
    val types = Seq(of.was, of.is).map(_.properties("join_type")).map(JoinType.named)
    (types, Seq(of.was, of.is).map(one => RecordedInterval.of(one.properties))) match {
      case (Seq(Some(was), Some(is)), Seq(Some(before), Some(now))) =>
        val effect = joinType(was, is, of, now)
        // Without an equality, the type decides which task has which rows.
        if (before.routing != now.routing) Effect.rewritten(effect) else effect
      case _ => Effect.Unknown
    }
  }

  private def joinType(was: JoinType, is: JoinType, of: Comparison, now: RecordedInterval): Effect = {
    import StateStep._
    val more = is.preserved -- was.preserved
    if (is.filtered.isDefined)
      if (was.filtered.isDefined) Effect.exact
      else if (was.pads(Side.Left)) Effect.Unchanged(steps = Seq(RemoveMatched(Side.Left)))
      // Which rows have been emitted with a match is not in the state.
      else Effect.Rejected()
    else if (was.filtered.isDefined) {
      // The left rows that are left have no match; those with one are gone.
      val unpadded = if (is.pads(Side.Right)) Seq(Side.Right) else Nil
      both((anyOf(Side.Left, of, now) +: unpadded.map(anyOf(_, of, now))), unpadded.map(CountAsMatched))
    } else {
      val sides = Side.both.filter(more)
      both(sides.map(side => of.any(now.expiring(side).head, reach = 0)), sides.map(CountAsMatched))
    }
  }

  def both(effects: Seq[Effect], steps: Seq[StateStep]): Effect =
    if (effects.contains(Effect.Unknown)) Effect.Unknown
    else Effect.Unchanged(effects.collect { case Effect.Unchanged(later, _) => later }.flatten, steps)

  /** Rows of a side from before the change are missed, whatever their times are. */
  def anyOf(side: Side, of: Comparison, now: RecordedInterval): Effect = {
    val key = now.expiring(side).head
    of.any(key, reach(now.bounds, key))
  }

  /** What to do about a bound by which other times expire the rows. */
  def otherTimes(was: RecordedInterval, is: RecordedInterval): String = {
    val changed = Side.both.find(side => was.expiring(side) != is.expiring(side)).getOrElse(Side.Left)
    def columns(of: RecordedInterval) = of.expiring(changed).map(of.times).mkString(", ")
    s"Rows of the ${changed.name} input leave by ${columns(was)}, and would leave by ${columns(is)}: keep a bound on " +
      "the same columns, or start the new query with a new checkpoint location."
  }

  /** How much later than a row its last match can be, in microseconds. */
  def reach(bounds: Seq[TimeBound], out: Int): Long = bounds.filter(_.out == out).map(_.postpone).max
}

/** The rules of temporal and as-of joins. Facts have watermark key 0, versions have 1. */
private object TemporalRules {

  /** A version from before may hold for later facts, and without a tolerance for all of them. */
  def added(of: Comparison): Effect = {
    val facts = of.any(0, reach = 0)
    val looksAhead = of.is.properties("direction") == "forward"
    val reach = of.is.properties("tolerance_micros").toLongOption
    val versions = if (looksAhead) of.any(1, reach = 0) else of.any(1, reach.getOrElse(0L))
    versions match {
      case Effect.Unchanged(later, _) if later.nonEmpty && !looksAhead && reach.isEmpty =>
        Effect.Rejected(NoTolerance)
      case _ => IntervalRules.both(Seq(facts, versions), Nil)
    }
  }

  private val NoTolerance =
    "It has not seen the versions from before, which hold until the next one of their key: read them from a source " +
      "that the query has not read yet, or start the new query with a new checkpoint location."

  /** Rows get their match when they leave; those without a key wait only in an outer join. */
  def joinType(of: Comparison): Effect =
    if (of.is.properties("join_type") == JoinType.Inner.name) Effect.exact else of.any(0, reach = 0)

  def history(of: Comparison): Effect = of.longer("history_micros", key = 1)

  def tolerance(of: Comparison): Effect = {
    val values = Seq(of.was, of.is).map(_.properties("tolerance_micros").toLongOption)
    (values, of.is.properties("direction")) match {
      case (Seq(Some(_), Some(_)), "forward") => Effect.exact // A waiting row keeps all that follow it.
      case (Seq(Some(_), Some(now)), _) => of.longer("tolerance_micros", key = 1, reach = now)
      // Without a tolerance, the newest version of each key stays.
      case _ => Effect.Rejected()
    }
  }
}
