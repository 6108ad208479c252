package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.watermark.Gap

import streamjoin.core.{Side, TimeBound, Watermark}

/**
 * Compares the time bounds of an interval join, which decide how long its rows are kept, and by
 * which times.
 *
 * {{{
 *   change                                   results
 *   a narrower bound, one more bound         exact
 *   a wider bound on the same columns        lack matches of rows that had left by that time
 *   no more bound on a column, by which      lack matches of any row from before: which of them
 *     rows had left                            have left does not follow from other columns
 *   no more bound on a column at all         the same: rows with a null there were not kept
 * }}}
 *
 * A column is the same if it has the same name in the rows of the input, whatever its key is. A
 * value that rows carry is the same if it has the same text over the same columns.
 */
final private[evolve] class BoundRules(of: Comparison, was: RecordedInterval, is: RecordedInterval) {
  import BoundRules._

  // The same times, by their keys in both queries.

  private val columnsBefore: Seq[Option[Int]] = TimeNames.before(was.names, is.names)

  private def columnNow(before: Int): Option[Int] =
    Some(columnsBefore.indexOf(Some(before))).filter(_ >= 0)

  private def isSameValue(before: RecordedValue, now: RecordedValue): Boolean =
    of.isSame(was.times(before.key), is.times(now.key)) && before.columns == now.columns &&
      before.zone == now.zone

  /** Whether the longest lifetime counts from the same event time. */
  private def counts(before: RecordedValue, now: RecordedValue): Boolean =
    now.time.flatMap(columnsBefore(_)) == before.time

  private def isLonger(before: RecordedValue, now: RecordedValue): Boolean =
    now.isLongerThan(before, counts(before, now))

  /**
   * The key in the old query of an expiring time of the new one. None if no row had left by it, or
   * if it is a value that may be later than it was.
   */
  def keyBefore(now: Int): Option[Int] = {
    val same =
      if (now < is.columns) columnsBefore(now)
      else
        for {
          value <- is.values.find(_.key == now)
          before <- was.value(is.sides(now)) if isSameValue(before, value) && !isLonger(before, value)
        } yield before.key
    same.filter(key => was.expiring(was.sides(key)).contains(key))
  }

  private def keyNow(before: Int): Option[Int] =
    is.expiring(was.sides(before)).find(keyBefore(_).contains(before))

  /** By side: for each expiring time, its position among the old ones. */
  def places: Seq[Seq[Option[Int]]] = Side.both.map { side =>
    is.expiring(side).map(key => keyBefore(key).map(was.expiring(side).indexOf(_)))
  }

  /** By key of the new query: the times below which rows have left, by key of the old one. */
  def evictedNow(before: Seq[Long]): Seq[Long] =
    is.times.indices.map(keyBefore(_).flatMap(before.lift).getOrElse(Watermark.Undefined))

  /**
   * What a gap of the old query is in the new one. None if the gaps that this change adds cover it.
   */
  def gapNow(gap: Gap): Option[Gap] = keyNow(gap.key).map { key =>
    val isFurther = is.reach(key) > was.reach(gap.key)
    val from = Watermark.postponed(gap.below, -is.reach(key))
    gap.copy(
      key = key,
      completeFrom = if (isFurther) math.max(gap.completeFrom, from) else gap.completeFrom
    )
  }

  // What is stored.

  /**
   * Whether the rows in state lack what the changed query stores, or some of them can match
   * nothing.
   */
  val isRewritten: Boolean = Side.both.exists { side =>
    val isStored =
      for (before <- was.value(side); now <- is.value(side)) yield now.isStoredBy(before, counts(before, now))
    is.expiring(side).map(keyBefore) != was.expiring(side).map(Some(_)) || isStored.contains(false)
  } || columnsBefore.indices.exists(key => is.compares(key) && !columnsBefore(key).exists(was.compares)) ||
    windows(was) != windows(is)

  /** What is stored for a window is computed, if a bound needs it. */
  private def windows(of: RecordedInterval): Seq[String] = of.windows.filter(of.compares).map(of.names)

  // Rows that are missing.

  /**
   * Rows of a side from before the change are missed, whatever their times are.
   *
   * @param pairs
   *   whether their matches are, or they are not padded
   */
  def anyOf(side: Side, pairs: Boolean = true): Effect = is.expiringColumn(side) match {
    case Some(key) =>
      columnsBefore(key).fold[Effect](Effect.Rejected(unknown(is.times(key)))) { before =>
        of.any(before, key, if (pairs) is.reach(key) else 0)
      }
    case None => of.none((0 until was.columns).filter(was.sides(_) == side), withoutLimit(side))
  }

  /**
   * Rows of a side that count as matched leave. As long as a gap of an earlier change is open, some
   * of them may not have matched.
   */
  def countedAsMatched(side: Side): Effect = Effect.Unchanged(for {
    gap <- of.gaps if was.sides(gap.key) == side
    key <- keyNow(gap.key)
  } yield Missing(key, gap.below, Watermark.postponed(gap.below, -is.reach(key))))

  /** Rows that have left by a time which still expires rows. */
  private def leftBy(before: Int, now: Int): Effect = of.evicted(before, now, is.reach(now))

  /** Rows with a null in a column were not kept, which is in no bound any longer. */
  private def nulls(before: TimeBound): Seq[Effect] = Seq(before.out, before.in)
    .filter(key => key < was.columns && !columnNow(key).exists(is.compares))
    .map(key => anyOf(was.sides(key)))

  // The changes.

  def changes: Seq[Change] = ofColumns ++ Side.both.flatMap(ofValue)

  private def change(before: Option[String], now: Option[String], effects: Seq[Effect]): Change = {
    val effect = Effect.all(effects)
    Change(
      "bound",
      before.getOrElse("none"),
      now.getOrElse("none"),
      if (isRewritten) Effect.rewritten(effect) else effect
    )
  }

  /** Bounds between event-time columns, by their names. */
  private def columnBounds(of: RecordedInterval): Seq[((String, String), TimeBound)] =
    of.bounds.filter(_.out < of.columns).map(bound => (of.names(bound.out), of.names(bound.in)) -> bound)

  /** Those of the longest lifetime are part of another bound. */
  private def ofColumns: Seq[Change] = {
    val (before, now) = (columnBounds(was), columnBounds(is))
    for {
      columns <- (before ++ now).map(_._1).distinct
      (one, other) = (before.toMap.get(columns), now.toMap.get(columns))
      if one.map(_.postpone) != other.map(_.postpone)
      if !(one.forall(was.isLifetime) && other.forall(is.isLifetime))
    } yield change(one.map(was.inWords), other.map(is.inWords), effects(one, other))
  }

  private def effects(before: Option[TimeBound], now: Option[TimeBound]): Seq[Effect] =
    (before, now) match {
      case (Some(bound), Some(wider)) if wider.postpone > bound.postpone => Seq(leftBy(bound.out, wider.out))
      case (Some(bound), None) => removed(bound) +: nulls(bound)
      case _ => Nil
    }

  private def removed(bound: TimeBound): Effect =
    keyNow(bound.out).fold(anyOf(was.sides(bound.out)))(leftBy(bound.out, _))

  /** The bound by a value that the rows of a side carry. */
  private def ofValue(side: Side): Option[Change] = {
    val (before, now) = (was.value(side), is.value(side))
    val (text, textNow) = (before.map(was.inWords), now.map(is.inWords))
    val isSame = (for (value <- before; valueNow <- now) yield isSameValue(value, valueNow)).contains(true)
    val effects =
      if (isSame) stays(before.get, now.get) ++ nulls(was.boundOf(before.get))
      else before.toSeq.flatMap(value => anyOf(side) +: nulls(was.boundOf(value)))
    Option.when(text != textNow || before.isDefined && !isSame)(change(text, textNow, effects))
  }

  private def stays(before: RecordedValue, now: RecordedValue): Seq[Effect] = {
    val side = is.sides(now.key)
    val (bound, boundNow) = (was.boundOf(before), is.boundOf(now))
    val isNarrower = columnsBefore(boundNow.in).contains(bound.in) && boundNow.postpone <= bound.postpone
    val isCovered = of.gaps.filter(gap => was.sides(gap.key) == side).forall(gap => keyNow(gap.key).isDefined)
    if (isLonger(before, now) || !isCovered) Seq(anyOf(side))
    else if (isNarrower) Nil
    else Seq(leftBy(before.key, now.key))
  }
}

private[evolve] object BoundRules {

  /** What to do about rows that are missing for as long as they say. */
  private def withoutLimit(side: Side): String =
    s"Rows of the ${side.name} input are missing, and could match rows of any later time, so results would never be " +
      s"known to be complete: set ${StreamJoinConf.BeyondMaxLifetime.key} to ${StreamJoinConf.Fail} or " +
      s"${StreamJoinConf.Cut}, or start the new query with a new checkpoint location."

  private def unknown(column: String): String =
    s"The join has not kept $column so far, or it was no event time: use columns that the join has kept, or start the " +
      "new query with a new checkpoint location."
}
