package org.apache.spark.sql.streamjoin.observe.read

import java.time.Instant

import org.apache.spark.sql.streamjoin.base.UnreadMessages
import org.apache.spark.sql.streamjoin.checkpoint.InputOutline

/**
 * What stands out in the figures of a query, each as a sentence that says what to write.
 *
 * @param now
 *   in milliseconds
 */
final private[streamjoin] class Hints(query: QueryFigures, now: Long) {
  import HintWords._
  import Hints._

  /** Rows that are missing come before time and memory that are not needed. */
  def ofOperator(of: OperatorFigures): Seq[String] = {
    val missing = matches.of(of) ++ unread(of) ++ aggregated(of)
    (missing ++ spilled(of) ++ skewed(of) ++ slow ++ files(of) ++ wide(of)).toSeq
  }

  def ofInput(of: OperatorFigures, input: InputOutline, at: Int): Seq[String] =
    inputs.of(of, input, at) ++ hot(of, input, at)

  private val inputs = new InputHints(query, now)
  private val matches = new MatchHints(query, now)

  /** Segments that the budget leaves to the state store. */
  private def spilled(of: OperatorFigures): Option[String] = for {
    last <- of.last
    unloaded <- Option(last.customMetrics.get("segmentsOnDisk")).map(_.longValue) if unloaded > 0
  } yield s"$unloaded of ${last.customMetrics.get("segments")} segments do not fit into memory and are read from the " +
    s"state store when a row looks into them: the rows have ${of.sum(_.bytes.sum)} bytes, of all tasks. Give the executors " +
    "more memory and raise spark.streamjoin.indexMemory, the bytes of a task; or, with a new checkpoint, use more " +
    "partitions."

  /** Most of the tasks' time goes into the state stores' files. */
  private def files(of: OperatorFigures): Option[String] = {
    val total = of.sum(_.millis)
    val inFiles = of.phases.collect { case ("commit" | "load", millis) => millis }.sum
    Option.when(
      query.recent.size > WarmUp && of.reports.size > query.cores &&
        total / of.reports.size >= MinTaskMillis && inFiles * 2 > total
    ) {
      s"$inFiles of $total ms of the tasks went into the files of their state stores: with ${of.reports.size} stores " +
        s"on ${query.cores} cores each has little to do. Fewer partitions for a new query " +
        "(spark.streamjoin.partitions), or a longer trigger."
    }
  }

  /** A task that has most of the rows. */
  private def skewed(of: OperatorFigures): Option[String] = for {
    (task, most) <- of.reports.toSeq.maxByOption(_._2.rows.sum)
    all = of.sum(_.rows.sum)
    if all >= MinRows && most.rows.sum * 2 > all && most.rows.sum * of.reports.size > all * Skewed
  } yield s"Task $task keeps ${most.rows.sum} of $all rows: one key, or a few, have most of them. Which: " +
    "hot_keys of sj.explain_analyze(query, with_skew=True). If such a key stands for no value, such as an empty text, " +
    "filter it before the join; otherwise add a column to the equality."

  /** A key that has a large part of an input's rows. */
  private def hot(of: OperatorFigures, input: InputOutline, at: Int): Option[String] =
    of.observed.hotKeys(at).headOption.filter(_._2 >= Hot).map { case (_, share) =>
      s"One key has ${math.round(share * 100)} % of the rows of ${input.name}, and one task does its work: " +
        "it is in hot_keys of sj.explain_analyze(query, with_skew=True). If it stands for no value, such as an empty " +
        "text, filter it before the join; otherwise add a column to the equality."
    }

  /** Versions of which none says anything. */
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
  } yield s"${MatchQuantile * 100} % of the matches are within ${words(math.max(need, 1000L))}, and rows are kept for " +
    s"${words(bound)}. If the rest may be lost, write $narrower INTERVAL '${seconds(need)}' SECOND."

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
    } yield s"A batch takes $median ms, and the trigger starts one each $interval ms: they queue. Use a longer " +
      "trigger, or more cores."
  }

  /** An aggregation above waits for the ends of its windows. */
  private def aggregated(of: OperatorFigures): Option[String] = for {
    (above, rows) <- of.observed.aggregated
    if rows > 0 && above.groups > 0 && above.emitted == 0
  } yield {
    val watermark = above.watermark
      .filter(_ > 0)
      .fold("There is none yet")(millis => s"It is ${Instant.ofEpochMilli(millis)}")
    s"The join has emitted ${counted(rows)} rows, and the aggregation above it nothing yet. That is no fault: it " +
      s"keeps ${counted(above.groups, "group")}, and emits one once the watermark after the join is later than the end of its " +
      s"window. $watermark${of.holdsAbove.fold("")(input => s", held back by $input")}: a join passes on the time before " +
      "which it emits no more row, which is earlier than the watermarks of its inputs by what the condition allows. " +
      "Later rows of all inputs move it; for results sooner, write a shorter window(…)."
  }
}

private object Hints {
  private val Minute = 60000L

  /** So many batches of a run do not say how long one takes. */
  private val WarmUp = 5

  /** Fewer batches do not say how long one takes. */
  private val Batches = 3

  /** Tasks that take less are not worth a hint, in milliseconds. */
  private val MinTaskMillis = 200L

  /** With fewer rows no task has too many. */
  private val MinRows = 10000L

  /** A task with fewer times the average is not worth a hint. */
  private val Skewed = 1.4

  /** The share of rows from which on a key is worth a hint. */
  private val Hot = 0.3

  /** Fewer matches do not tell how far apart they are. */
  private val Pairs = 1000L
  private val MatchQuantile = 0.999
}
