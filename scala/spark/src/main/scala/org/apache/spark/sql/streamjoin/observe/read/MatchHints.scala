package org.apache.spark.sql.streamjoin.observe.read

import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.observe.collect.KeySample
import org.apache.spark.sql.streamjoin.time.DurationText

/**
 * Why rows of both inputs of an interval join arrive but none match, according to samples of their
 * keys.
 *
 * @param now
 *   in milliseconds
 * @param showsKeys
 *   whether they may contain values of keys
 */
final private[read] class MatchHints(now: Long, showsKeys: Boolean) {
  import MatchHints._

  def of(operator: OperatorFigures): Option[String] = Compared
    .of(operator)
    .flatMap(of => of.keysDiffer(showsKeys).orElse(of.timesDiffer(now)).orElse(of.noneInCommon))
}

private[read] object MatchHints {

  /** Whether rows with equal keys are further apart than the condition allows. */
  def areApart(operator: OperatorFigures): Boolean =
    Compared.of(operator).exists(of => !of.differInKeys && of.differInTimes)

  /** Fewer keys do not allow a conclusion. */
  private val Few = 10

  /** The samples of both inputs, and the condition on their times. */
  final private class Compared(
      left: KeySample,
      right: KeySample,
      names: (String, String),
      keys: (Seq[String], Seq[String]),
      columns: (String, String),
      allowed: Allowed
  ) {
    import HintWords._

    private val common = left.common(right)
    private val (same, other) = common.partition { case (here, there) => here.text == there.text }

    // Keys.

    /** Whether the keys are equal except for how they are written. */
    def differInKeys: Boolean = other.size >= Few && other.size > 10 * same.size

    def keysDiffer(showsKeys: Boolean): Option[String] =
      Option.when(differInKeys) {
        val (what, cure) = difference
        val example =
          if (showsKeys) { val (here, there) = other.head; s", as '${here.text}' and '${there.text}'" }
          else ""
        s"No row of ${names._1} has matched a row of ${names._2}: ${counted(other.size)} keys of both differ only in " +
          s"$what$example. Make them equal before the join: write $cure."
      }

    /** How they differ, and what to write. */
    private def difference: (String, String) = {
      def are(equal: String => String) = other.forall { case (here, there) =>
        equal(here.text) == equal(there.text)
      }
      val (column, otherColumn) = (keys._1.head, keys._2.head)
      // An input whose keys already have this form does not change.
      def made(equal: String => String)(function: String => String) = Seq(
        (names._1, column, other.map(_._1.text)),
        (names._2, otherColumn, other.map(_._2.text))
      ).collect {
        case (name, key, texts) if texts.exists(text => equal(text) != text) =>
          s"${function(key)} for $key in $name"
      }.mkString(" and ")
      if (are(_.stripTrailing)) ("trailing blanks", made(_.stripTrailing)(key => s"rtrim($key)"))
      else if (are(_.trim)) ("blanks", made(_.trim)(key => s"trim($key)"))
      else if (are(_.toLowerCase)) ("upper and lower case", made(_.toLowerCase)(key => s"lower($key)"))
      else if (are(_.dropWhile(_ == '0')))
        ("leading zeros", made(_ => "")(key => s"CAST($key AS BIGINT)"))
      else ("blanks, case or leading zeros", made(_ => "")(key => s"lower(replace($key, ' '))"))
    }

    /** Rows should have matched according to their times, but the inputs have no key in common. */
    def noneInCommon: Option[String] = {
      def range(of: KeySample) = (of.keys.map(_.first).min, of.keys.map(_.last).max)
      Option
        .when(common.isEmpty && left.isAll && right.isAll && left.size >= Few && right.size >= Few) {
          val (from, to) = range(left)
          // A left row with such a time has arrived, if there is one.
          right.keys.count { key =>
            val early = allowed.highest.fold(from)(highest => key.first - highest * 1000)
            val late = allowed.lowest.fold(to)(lowest => key.first - lowest * 1000)
            early >= from && late <= to
          }
        }
        .filter(_ >= Few)
        .map { keys =>
          s"No row of ${names._1} has matched a row of ${names._2}: they have no key in common, although " +
            s"${counted(keys)} keys of ${names._2} have times at which matching rows should exist. Check that the join " +
            "compares the right columns, and compare some of their values."
        }
    }

    // Times.

    /** By key, the time of the right row minus that of the left one, in ms; 0 if they overlap. */
    private lazy val distances = same.map { case (here, there) =>
      val micros =
        if (there.first > here.last) there.first - here.last
        else if (there.last < here.first) there.last - here.first
        else 0L
      micros / 1000
    }.sorted

    /** Whether keys match but times do not. */
    def differInTimes: Boolean =
      distances.size >= Few && distances.count(allowed.includes) * 10 <= distances.size

    def timesDiffer(now: Long): Option[String] =
      Option.when(differInTimes) {
        val at = distances(distances.size / 2)
        val found =
          s"No row of ${names._1} has matched a row of ${names._2}: ${counted(distances.size)} keys occur on " +
            s"both sides, but ${columns._2} is ${apart(at)} ${columns._1}, and the condition allows $allowedInWords. "
        found + (readInOtherUnit orElse reversed getOrElse shifted(at, now))
      }

    private def apart(distance: Long): String =
      if (distance == 0) "at the same time as"
      else s"about ${words(math.abs(distance))} ${if (distance > 0) "later" else "earlier"} than"

    private def allowedInWords: String = {
      def limit(millis: Long) =
        if (millis < 0) s"-${words(-millis)}" else if (millis == 0) "0" else words(millis)
      (allowed.lowest, allowed.highest) match {
        case (Some(lowest), Some(highest)) => s"${limit(lowest)} to ${limit(highest)}"
        case (Some(lowest), None) => s"${limit(lowest)} or more"
        case (None, highest) => s"${highest.fold("anything")(limit)} or less"
      }
    }

    private def median(of: Seq[Long]): Double = of.sorted.apply(of.size / 2).toDouble

    /** Milliseconds were read as seconds, or vice versa. */
    private def readInOtherUnit: Option[String] = {
      val (ofLeft, ofRight) = (median(same.map(_._1.first)), median(same.map(_._2.first)))
      def isThousandfold(large: Double, small: Double) =
        small > 0 && large / small > 900 && large / small < 1100
      // The one in this century is right.
      def wrong(large: Double, small: Double, ofLarge: String, ofSmall: String) =
        Option.when(isThousandfold(large, small))(
          if (small > Century) secondsOf(ofLarge) else millisOf(ofSmall)
        )
      wrong(ofRight, ofLeft, columns._2, columns._1).orElse(wrong(ofLeft, ofRight, columns._1, columns._2))
    }

    private def secondsOf(column: String) =
      s"$column looks like milliseconds that were read as seconds: write timestamp_millis(…) instead " +
        s"of timestamp_seconds(…), and $restart"

    private def restart = "start with a new checkpoint: in this one the watermark cannot go back."

    private def millisOf(column: String) =
      s"$column looks like seconds that were read as milliseconds: write timestamp_seconds(…) instead of " +
        "timestamp_millis(…)."

    /** The bound has the wrong direction. */
    private def reversed: Option[String] = {
      val turned = Allowed(allowed.highest.map(-_), allowed.lowest.map(-_))
      Option.when(distances.count(turned.includes) * 10 >= distances.size * 9) {
        def limit(millis: Long) =
          if (millis == 0) columns._1
          else s"${columns._1} ${if (millis < 0) "-" else "+"} INTERVAL '${math.abs(millis) / 1000}' SECOND"
        val bound = (turned.lowest.map(at => s"${columns._2} >= ${limit(at)}") ++
          turned.highest.map(at => s"${columns._2} <= ${limit(at)}")).mkString(" AND ")
        def length(millis: Option[Long]) = millis.fold("None")(at => s"\"${DurationText.of(at * 1000)}\"")
        s"The bound is reversed: write $bound, or in sj.join " +
          s"within=(${length(turned.lowest)}, ${length(turned.highest)})."
      }
    }

    private def shifted(distance: Long, now: Long): String = {
      val size = math.abs(distance)
      val future = Seq(columns._1 -> left, columns._2 -> right).collectFirst {
        case (column, sample) if sample.keys.map(_.last / 1000).max - Hour / 2 > now => column
      }
      val isOfZone = size > Hour / 2 && size <= 15 * Hour
      def local(which: String) =
        s"$which is a local time that was read as UTC, write to_utc_timestamp(<column>, '<zone>') before " +
          s"withWatermark, or set its time zone in the reader, and $restart"
      val (operator, limit) = if (distance > 0) ("<=", "+") else (">=", "-")
      val furthest = math.max(math.abs(distances.head), math.abs(distances.last))
      def wider =
        s"If the rows really are that far apart, widen the bound: ${columns._2} $operator ${columns._1} $limit INTERVAL " +
          s"'${math.ceil(furthest / 1000.0).toLong}' SECOND."
      future match {
        case Some(column) if isOfZone => s"$column is in the future. ${local("If it")}"
        case Some(column) => s"$column is in the future: check how it is computed, and $restart"
        case None if isOfZone => s"${local("If one of them")} $wider"
        case None => wider
      }
    }
  }

  private val Hour = 3600000L

  /** 2000-01-01, in microseconds. */
  private val Century = 946684800e6

  private object Compared {
    def of(operator: OperatorFigures): Option[Compared] = for {
      (left, right) <- operator.observed.compared if left.size >= Few && right.size >= Few
      allowed <- operator.allowed
      columns <- operator.pairOfColumns
      Seq(first, second) <- Some(operator.outline.inputs)
    } yield {
      def keys(of: InputOutline) = of.keys.map(of.stored(_).name)
      new Compared(left, right, (first.name, second.name), (keys(first), keys(second)), columns, allowed)
    }
  }
}
