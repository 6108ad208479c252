package org.apache.spark.sql.streamjoin.observe.read

import java.time.Instant
import java.util.Locale

import org.apache.spark.sql.streamjoin.base.UnreadMessages
import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.time.DurationText

/**
 * What stands out in the figures of a query, each as a sentence that ends in what to write.
 *
 * @param now
 *   in milliseconds
 * @param showsKeys
 *   whether they may contain values of keys
 */
final private[streamjoin] class Hints(query: QueryFigures, now: Long, showsKeys: Boolean) {
  import HintWords._
  import Hints._

  /** Hints about missing rows come before hints about wasted time and memory. */
  def ofOperator(of: OperatorFigures): Seq[String] = {
    val missing = incomplete(of) ++ matches.of(of) ++ unread(of) ++ aggregated(of)
    (missing ++ spilled(of) ++ skewed(of) ++ slow ++ files(of) ++ wide(of)).toSeq
  }

  def ofInput(of: OperatorFigures, input: InputOutline, at: Int): Seq[String] =
    inputs.of(of, input, at) ++ hot(of, input, at)

  private val inputs = new InputHints(query, now)
  private val matches = new MatchHints(now, showsKeys)

  /** Rows that a changed query needs had left before the change. */
  private def incomplete(of: OperatorFigures): Option[String] = for {
    last <- of.last
    from <- Option(last.customMetrics.get("completeFromMs"))
  } yield s"The query has been changed, and rows that it needs had left the state: results are complete from " +
    s"${Instant.ofEpochMilli(from)} on. Until then, matches may be missing; for those, replay the input with a new " +
    "checkpoint."

  /** Segments that do not fit into the memory budget and stay in the state store. */
  private def spilled(of: OperatorFigures): Option[String] = for {
    last <- of.last
    unloaded <- Option(last.customMetrics.get("segmentsOnDisk")).map(_.longValue) if unloaded > 0
  } yield s"$unloaded of ${last.customMetrics.get("segments")} segments do not fit into memory and are read from the " +
    s"state store when a row probes them: the rows of all tasks have ${of.sum(_.bytes.sum)} bytes. Give the executors " +
    "more memory and raise spark.streamjoin.indexMemory, the limit of each task. Or use more partitions, with a new " +
    "checkpoint."

  /** Most of the tasks' time is spent on the files of the state stores. */
  private def files(of: OperatorFigures): Option[String] = {
    val total = of.sum(_.millis)
    val inFiles = of.phases.collect { case ("commit" | "load", millis) => millis }.sum
    Option.when(
      query.recent.size > WarmUp && of.reports.size > query.cores &&
        total / of.reports.size >= MinTaskMillis && inFiles * 2 > total
    ) {
      s"The tasks spent $inFiles of $total ms on the files of their state stores: with ${of.reports.size} stores " +
        s"on ${query.cores} cores, each task has little work. Use a longer trigger, or fewer partitions for a new query " +
        "(spark.streamjoin.partitions)."
    }
  }

  /** A task with most of the rows. */
  private def skewed(of: OperatorFigures): Option[String] = for {
    (task, most) <- of.reports.toSeq.maxByOption(_._2.rows.sum)
    all = of.sum(_.rows.sum)
    if all >= MinRows && most.rows.sum * 2 > all && most.rows.sum * of.reports.size > all * Skewed
  } yield s"Task $task keeps ${most.rows.sum} of $all rows: one key, or a few, have most of them. To see " +
    "them, read hot_keys of sj.explain_analyze(query, with_skew=True). If such a key means that there is no value, such " +
    "as an empty text, filter it before the join; otherwise add a column to the equality."

  /** A key with a large share of an input's rows. */
  private def hot(of: OperatorFigures, input: InputOutline, at: Int): Option[String] =
    of.observed.hotKeys(at).headOption.filter(_._2 >= Hot).map { case (_, share) =>
      s"One key has ${math.round(share * 100)} % of the rows of ${input.name}, and a single task processes them: " +
        "see hot_keys of sj.explain_analyze(query, with_skew=True). If the key means that there is no value, such as an " +
        "empty text, filter it before the join; otherwise add a column to the equality."
    }

  /** Versions that are all empty. */
  private def unread(of: OperatorFigures): Option[String] = for {
    last <- of.last
    keys <- Option(last.customMetrics.get("keysWithVersion")).map(_.longValue)
    ignored = of.sum(query.recent, "ignoredVersions")
    came = of.sum(query.recent, "rightRowsIn")
    if keys == 0 && ignored == came && ignored >= UnreadMessages.Many
  } yield UnreadMessages.ofVersions(ignored)

  /** A bound that keeps rows for far longer than their matches need. */
  private def wide(of: OperatorFigures): Option[String] = for {
    allowed <- of.allowed
    (left, right) <- of.pairOfColumns
    (pairs, Seq(earliest, latest)) <- Some(of.observed.quantiles(1 - MatchQuantile, MatchQuantile))
    if pairs >= Pairs
    (bound, need, narrower) <- Seq(
      allowed.highest.map((_, latest, s"$right <= $left +")),
      allowed.lowest.map(lowest => (-lowest, -earliest, s"$right >= $left -"))
    ).flatten.find { case (bound, need, _) => isWide(bound, math.max(need, 0L)) }
    if !of.outline.inputs.exists(of.carriesEnds)
  } yield s"${MatchQuantile * 100} % of the matches are within ${words(math.max(need, 1000L))}, and rows are kept for " +
    s"${words(bound)}. If you can do without the other matches, write $narrower INTERVAL '${seconds(need)}' SECOND."

  private def isWide(bound: Long, need: Long): Boolean = bound >= Minute && need * 4 < bound

  private def seconds(millis: Long): Long = math.max(math.ceil(millis / 1000.0).toLong, 1)

  /** Batches that take longer than their trigger. */
  private def slow: Option[String] = {
    // The first batches take longer: code is compiled, state stores are opened.
    val warm = query.ofMinute.diff(query.recent.take(WarmUp))
    val trigger = query.triggerMs
    val times = warm
      .filter(_.durationMs.containsKey("triggerExecution"))
      .map(_.durationMs.get("triggerExecution").longValue)
      .sorted
    for {
      interval <- trigger if times.size >= Batches
      median = times(times.size / 2) if interval > 0 && median > interval
    } yield s"A batch takes $median ms, and the trigger starts one every $interval ms: batches queue. Use a " +
      "longer trigger, or more cores."
  }

  /** An aggregation above that waits for the ends of its windows. */
  private def aggregated(of: OperatorFigures): Option[String] = for {
    (above, rows) <- of.observed.aggregated
    if rows > 0 && above.groups > 0 && above.emitted == 0
  } yield {
    val watermark = above.watermark
      .filter(_ > 0)
      .fold("That watermark is not defined yet")(millis =>
        s"That watermark is ${Instant.ofEpochMilli(millis)}"
      )
    s"The join has emitted ${counted(rows)} rows, and the aggregation above it has emitted none yet. This is " +
      s"expected: it keeps ${counted(above.groups, "group")}, and emits a group once the watermark after the join is later than " +
      s"the end of its window. $watermark${of.holdsAbove.fold("")(input => s", held back by $input")}. The output watermark of " +
      "a join is the time before which it emits no further row; it is behind the watermarks of the inputs by the distance " +
      "that the condition allows. Later rows of all inputs advance it. For earlier results, write a shorter window(…)."
  }
}

private object Hints {
  private val Minute = 60000L

  /** The first batches of a run are not representative of how long a batch takes. */
  private val WarmUp = 5

  /** Fewer batches are not representative of how long a batch takes. */
  private val Batches = 3

  /** Tasks that take less time, in milliseconds, are not worth a hint. */
  private val MinTaskMillis = 200L

  /** With fewer rows, no task has too many. */
  private val MinRows = 10000L

  /** A task with fewer times the average is not worth a hint. */
  private val Skewed = 1.4

  /** A key with at least this share of the rows is worth a hint. */
  private val Hot = 0.3

  /** Fewer matches are not representative of how far apart they are. */
  private val Pairs = 1000L
  private val MatchQuantile = 0.999
}

/** How hints write numbers, durations and columns. */
private[read] object HintWords {
  private val Year = 31557600000L
  private val Units =
    Seq(86400000L -> "days", 3600000L -> "hours", 60000L -> "minutes", 1000L -> "seconds")

  /** A number of milliseconds, in whole units of its size. */
  def words(millis: Long): String =
    if (millis >= 2 * Year) s"${counted(millis / Year)} years" else DurationText.roughly(millis)

  /** A duration of at least this many milliseconds, in the format of withWatermark. */
  def roundedUp(millis: Long): String = {
    val (length, unit) = Units.find { case (length, _) => millis > 2 * length }.getOrElse(1000L -> "seconds")
    s"${math.max((millis + length - 1) / length, 1)} $unit"
  }

  /**
   * A duration of at least twice as many milliseconds, rounded to one of a few values so that the
   * advice is stable.
   */
  def ample(millis: Long): String =
    DurationText.of(Pauses.find(_ >= 2 * millis).getOrElse(Pauses.last) * 1000)

  private val Pauses = Seq(5L, 15L, 60L, 360L, 1440L, 10080L).map(_ * 60000)

  def counted(number: Long): String = String.format(Locale.ROOT, "%,d", number)

  /** `1 group`, `20 groups`. */
  def counted(number: Long, what: String): String = s"${counted(number)} $what${if (number == 1) "" else "s"}"

  /** `all 60 rows of x`, `40 of 60 rows of x`. */
  def share(some: Long, all: Long, of: String): String =
    if (some == all) s"all ${counted(all)} $of" else s"${counted(some)} of ${counted(all)} $of"

  /** A column without the name of its input. */
  def plain(column: String): String = column.split('.').last
}
