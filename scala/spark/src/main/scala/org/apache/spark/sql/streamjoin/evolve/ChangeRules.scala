package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.streamjoin.analysis.EquiKeys
import org.apache.spark.sql.streamjoin.checkpoint.{Description, SessionZone}
import org.apache.spark.sql.streamjoin.watermark.{Continuity, Gap, Passed}

import streamjoin.core.{JoinType, Side, Watermark}

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
 *   bound on other columns, or by  rewritten                     lack matches of rows from before
 *     another carried value
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
 *   another equality of an         rewritten                     lack matches of rows whose old key
 *     interval join                                                has a null
 *   fewer columns, wider types     rewritten                     exact
 *   more columns                   null in them                  exact, values from then on
 * }}}
 */
private[streamjoin] object ChangeRules {

  /** The changes if a property differs. */
  private type Rule = Comparison => Seq[Change]

  private val IntervalJoin = "interval_join"

  private val byKind: Map[String, Map[String, Rule]] = Map(
    IntervalJoin -> Map(
      rule("join_type")(new IntervalRules(_).joinType),
      rules("condition")(new IntervalRules(_).condition),
      // Otherwise, it is compared with the condition.
      rules(RecordedInterval.CarriedBounds)(of =>
        if (of.differing.contains("condition")) Nil else new IntervalRules(of).condition
      ),
      rule("equality")(new IntervalRules(_).equality),
      // Keys are computed again.
      rule(EquiKeys.ZoneProperty)(_ => Effect.Rewritten()),
      columns(Side.Left),
      columns(Side.Right)
    ),
    "temporal_join" -> Map(
      rule("join_type")(TemporalRules.joinType),
      rule("condition")(_ => Effect.exact),
      rule("equality")(TemporalRules.equality),
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
    case IntervalJoin => new IntervalRules(of).added
    case "temporal_join" => TemporalRules.added(of)
    // Rows from before are not looked up.
    case "rematch_join" => of.any(0, 0, reach = 0)
    case _ => Effect.exact
  }

  /**
   * @param passed
   *   what the operator has passed with the batch before, if that is recorded
   * @param gaps
   *   rows that are missing since an earlier change
   */
  def changes(
      was: Description,
      is: Description,
      passed: => Option[Passed],
      gaps: => Seq[Gap]
  ): Seq[Change] = {
    val of = new Comparison(was, is, () => passed, () => gaps)
    if (was.kind != is.kind) Seq(Change("kind", was.kind, is.kind, Effect.Rejected()))
    else {
      val rules = byKind.getOrElse(is.kind, Map.empty[String, Rule])
      ColumnRules.checked(
        of,
        of.differing.flatMap(property => rules.getOrElse(property, rejected(property)).apply(of))
      )
    }
  }

  /** What becomes of the times by which rows expire, where it can be another one. */
  def times(was: Description, is: Description): Option[BoundRules] =
    Option(new Comparison(was, is, () => None, () => Nil))
      .filter(_ => was.kind == IntervalJoin && is.kind == IntervalJoin)
      .flatMap(new IntervalRules(_).bounds)
}

private object Comparison {
  private val NotRecorded =
    "How far the rows of an input have come is not recorded: they come from a stateful operator of Spark's, or leave by " +
      "a column that has no watermark. Start the new query with a new checkpoint location."
}

/** An operator before and after a change. */
final private[evolve] class Comparison(
    val was: Description,
    val is: Description,
    readPassed: () => Option[Passed],
    readGaps: () => Seq[Gap]
) {
  import Comparison.NotRecorded

  private lazy val passed = readPassed()

  /** Rows that are missing since an earlier change. */
  lazy val gaps: Seq[Gap] = readGaps()

  /**
   * Only what both of them have, as a record of an older version may lack a property, and what only
   * some joins have.
   */
  lazy val differing: Seq[String] = {
    val optional = Seq(RecordedInterval.CarriedBounds).filter { name =>
      was.properties.contains(name) != is.properties.contains(name)
    }
    val both = is.compared.keys.toSeq.filter { name =>
      was.properties.get(name).exists(!isSame(_, is.properties(name)))
    }
    (both ++ optional).sorted
  }

  /** Whether a recorded text means the same as one of this session. */
  def isSame(before: String, now: String): Boolean = SessionZone.isSame(before, was.zone, now)

  def change(what: String, effect: Effect): Change =
    Change(what, was.properties(what), is.properties(what), effect)

  /** If a duration in microseconds is longer than before, rows that have left are missed. */
  def longer(what: String, key: Int, reach: Long = 0): Effect =
    if (is.properties(what).toLong <= was.properties(what).toLong) Effect.exact
    else evicted(key, key, reach)

  /**
   * The rows that have left are missed.
   *
   * @param before
   *   key of the time by which they have left
   * @param now
   *   key of that time in the changed operator
   * @param reach
   *   how much later than such a row its match may be, in microseconds
   */
  def evicted(before: Int, now: Int, reach: Long): Effect =
    passed.flatMap(_.evicted.lift(before)).fold[Effect](Effect.Unknown) {
      case Watermark.Undefined => Effect.exact
      case below => Effect.Unchanged(Seq(Missing(now, below, Watermark.postponed(below, -reach))))
    }

  /**
   * Rows of any time up to the newest may be missed.
   *
   * @param before
   *   watermark key of their column
   * @param now
   *   its key in the changed operator
   */
  def any(before: Int, now: Int, reach: Long): Effect = passed match {
    case Some(known) =>
      known.newest.lift(before).filter(_ != Watermark.Undefined) match {
        case Some(Long.MaxValue) => Effect.Rejected(NotRecorded)
        case Some(newest) =>
          val after = newest + Continuity.ToMillisecond
          Effect.Unchanged(Seq(Missing(now, after, Watermark.postponed(after, -reach))))
        case None if recordsAll && known.outputs.lift(before).contains(Watermark.Undefined) => Effect.exact
        case None => Effect.Unknown
      }
    case None => Effect.Unknown
  }

  /** Whether all of its rows were its own: Spark's join had others before it. */
  private def recordsAll: Boolean = was.takenOver.isEmpty

  /**
   * The change can be made only as long as no row has come.
   *
   * @param keys
   *   watermark keys of their columns
   * @param advice
   *   what to do once there are rows
   */
  def none(keys: Seq[Int], advice: String): Effect = passed match {
    case Some(known) =>
      def isUndefined(all: Seq[Long]) = keys.forall(all.lift(_).forall(_ == Watermark.Undefined))
      if (recordsAll && isUndefined(known.newest) && isUndefined(known.outputs)) Effect.exact
      else Effect.Rejected(advice)
    case None => Effect.Unknown
  }
}

/** The rules of temporal and as-of joins. Facts have watermark key 0, versions have 1. */
private object TemporalRules {

  /** A version from before may hold for later facts, and without a tolerance for all of them. */
  def added(of: Comparison): Effect = {
    val facts = of.any(0, 0, reach = 0)
    val looksAhead = of.is.properties("direction") == "forward"
    val reach = of.is.properties("tolerance_micros").toLongOption
    val versions = of.any(1, 1, if (looksAhead) 0 else reach.getOrElse(0L))
    versions match {
      case Effect.Unchanged(later, _) if later.nonEmpty && !looksAhead && reach.isEmpty =>
        Effect.Rejected(NoTolerance)
      case _ => Effect.all(Seq(facts, versions))
    }
  }

  private val NoTolerance =
    "It has not seen the versions from before, which hold until the next one of their key: read them from a source " +
      "that the query has not read yet, or start the new query with a new checkpoint location."

  /** Rows get their match when they leave; those without a key wait only in an outer join. */
  def joinType(of: Comparison): Effect =
    if (of.is.properties("join_type") == JoinType.Inner.name) Effect.exact else of.any(0, 0, reach = 0)

  /**
   * Versions leave by their time alone if there is a tolerance. One whose old key had a null was
   * not kept, and without it a row could match a version further away.
   */
  def equality(of: Comparison): Effect = {
    val rejected = Seq(of.was, of.is).exists(_.properties("tolerance_micros").toLongOption.isEmpty)
    if (rejected) Effect.Rejected(NewestOfKey)
    else
      Equalities.of(of.was.properties).fold[Effect](Effect.Unknown) { before =>
        val now = Equalities.of(of.is.properties).getOrElse(Nil)
        val hasAll = before.forall(one => now.exists(of.isSame(one, _)))
        if (hasAll) Effect.Rewritten() else Effect.Rejected(OnlyMore)
      }
  }

  private val NewestOfKey =
    "Without a tolerance, only the newest version of each key is in state, and another equality makes other keys: " +
      "restore the equality, or start the new query with a new checkpoint location."

  private val OnlyMore =
    "Versions with a null in the old key were not kept, so a row could match another version than the closest one: " +
      "keep the old equalities, to which more can be added, or start the new query with a new checkpoint location."

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
