package org.apache.spark.sql.streamjoin.observe.read

import java.time.Instant

import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.observe.collect.RowPath

/**
 * Why no rows of an input reach an operator, or why their times are useless: where the rows were
 * lost, whether the source had any, and what moved the watermark.
 *
 * @param now
 *   in milliseconds
 */
final private[read] class InputHints(query: QueryFigures, now: Long) {
  import HintWords._
  import InputHints._

  def of(operator: OperatorFigures, input: InputOutline, at: Int): Seq[String] =
    new OfInput(operator, input, at).all

  final private class OfInput(operator: OperatorFigures, input: InputOutline, at: Int) {
    private val name = input.name
    private val inflow = operator.observed.inflow(at)

    /**
     * A hint about a stream appears at the join that reads it, and is not repeated by the joins
     * above.
     */
    private val isSource = operator.below.lift(at).forall(_.isEmpty) && !operator.isRepeated(at)

    def all: Seq[String] = {
      val nulls = nullTimes ++ nullKeys
      val lost = if (nulls.isEmpty && isSource) removed ++ inReader else Nil
      val silent = if (nulls.isEmpty && lost.isEmpty && isSource) this.silent else Nil
      val early = ahead
      (nulls ++ lost ++ silent ++ early ++ (if (early.isEmpty) late else Nil) ++ deferred).toSeq
    }

    /** Rows without an event time never match. */
    private def nullTimes: Iterable[String] = if (!isSource) Nil
    else
      operator.observed.marked(at).filter(of => of.nulls >= Few && of.nulls * 2 >= of.rows).map { of =>
        s"${share(of.nulls, of.rows, s"rows of $name").capitalize} have a null ${of.column}, and a row without it never matches: " +
          "check the format of the times. Read them as text and write " +
          s"to_timestamp(${of.column}, '<pattern>') before withWatermark, or set the reader's timestampFormat."
      }

    /** Rows that reach the join with a null key. Others have been removed earlier. */
    private def nullKeys: Iterable[String] = {
      val (rows, nulls) = operator.observed.rowsWithoutKey(at)
      Option.when(isSource && nulls >= Few && nulls == rows)(keysAreNull(nulls, keys))
    }

    private def keys: Seq[String] = input.keys.map(input.stored(_).name)

    private def keysAreNull(rows: Long, columns: Seq[String]): String =
      s"All ${counted(rows)} rows of $name have a null ${columns.mkString(" or ")}, and a row without it never " +
        "matches: check that the reader's schema has the field's name and type in the data. To see them, use spark.read " +
        "without that schema, and printSchema()."

    /** The source returned rows, but none reached the operator. */
    private def removed: Iterable[String] =
      inflow.removed.toSeq.maxByOption(_._2).filter(_ => inflow.read >= Few && !inflow.isDeferred).map {
        case (RowPath.NullFilter(columns), rows) if columns.forall(keys.contains) && rows == inflow.read =>
          keysAreNull(rows, columns)
        case (RowPath.NullFilter(columns), rows) =>
          s"${share(rows, inflow.read, s"rows of $name").capitalize} have a null ${columns.mkString(" or ")}, which the join needs, " +
            "and no row is left: check the name, the type and the format of the field."
        case (RowPath.Condition(condition), rows) =>
          s"The filter $condition removed ${share(rows, inflow.read, s"rows of $name")}, and none is left " +
            s"for the join: compare it with the actual values: their case, their blanks and their nulls. $look"
        case (RowPath.Operator(operator), rows) =>
          s"$operator removed ${share(rows, inflow.read, s"rows of $name")}, and none is left for the join: " +
            "compare its condition with the actual values."
      }

    /** The file reader skips an unknown number of rows. */
    private def inReader: Iterable[String] =
      Option.when(inflow.read == 0 && inflow.files > 0 && inflow.inReader.nonEmpty) {
        val condition = inflow.inReader.mkString(" AND ")
        s"Files of $name were read (${counted(inflow.files)}), but they gave no row: the reader itself skips rows " +
          s"without $condition, and does not count them. Compare it with the actual values: their case, their blanks " +
          s"and their nulls. $look"
      }

    private def look: String =
      "To see them, read the source with spark.read, and write .groupBy(<column>).count().show()."

    /** The source had no rows. Only in this case may the other inputs stop waiting for it. */
    private def silent: Iterable[String] = {
      val waiting = query.waitingFor(name)
      val since = operator.lastRow(input).getOrElse(Instant.parse(query.recent.head.timestamp).toEpochMilli)
      val silence = now - since
      val isLong = silence >= Silence || (!inflow.hadRows && inflow.batches >= Batches)
      Option.when(inflow.read == 0 && inflow.batches > 0 && isLong && !operator.mayBeIdle(input)) {
        val had = s"The source of $name has had no row " +
          (if (inflow.hadRows) s"for ${words(silence)}" else "since the query was started")
        if (waiting == 0)
          s"$had, while others had rows in ${counted(inflow.batches)} batches. No row waits for it. Check that " +
            "something writes to the source, and that the query reads from the same place."
        else
          s"$had, and $waiting rows wait for its watermark. Check that something writes to it. Only if its pauses " +
            "may be longer than rows can wait, " +
            s"write sj.idle_after($name, \"${ample(math.max(silence, Silence))}\") before the join: a row that arrives " +
            "after a longer pause may be too late for its matches, which have been emitted without it."
      }
    }

    // Times.

    /** A row from the future moves the watermark, and later rows are late. */
    private def ahead: Option[String] = for {
      key <- operator.columns(input).headOption if isSource && !MatchHints.areApart(operator)
      newest <- operator.newest(key).map(_ / 1000)
      early = newest - now
      late = lateRows
      if early > Future || (early > Clock && late > 0)
    } yield {
      val column = operator.outline.columns(key)
      val start =
        s"The newest $column is ${Instant.ofEpochMilli(newest)}, ${words(early)} ahead of the clock: "
      if (early > Future)
        s"${start}it has moved the watermark, so rows with the current time are late. Before withWatermark, write " +
          s".where(\"${plain(column)} < current_timestamp() + INTERVAL 1 HOUR\"), and start with a new checkpoint: " +
          "in this one the watermark cannot go back."
      else
        s"${start}the clock of a machine that writes $name is ahead. It has moved the watermark, so " +
          s"${counted(late)} rows with the current time were late. Set that clock. To be safe, also write, before " +
          s"withWatermark, .where(\"${plain(column)} < current_timestamp() + INTERVAL 1 MINUTE\"), and start with a " +
          "new checkpoint: in this one, rows stay late until the correct clocks have reached that time."
    }

    private def lateRows: Long =
      input.side.fold(operator.late(query.recent))(side => operator.sum(query.recent, s"${side}LateRows"))

    /** Rows arrive later than the delay allows. */
    private def late: Option[String] = for {
      key <- operator.columns(input).headOption if isSource
      rows = lateRows
      all = math.max(operator.rowsIn(query.recent, input), rows)
      if rows >= Few && rows * 100 > all
      column = operator.outline.columns(key)
      lateness = operator.observed.lateness(at)
      needed <- lateness.quantile(Kept)
      most <- lateness.quantile(1)
    } yield operator.observed.leap(at) match {
      case Some(leap) =>
        s"${counted(rows)} of the last ${counted(all)} rows of $name were late: a row whose $column is more than " +
          s"${words(leap)} ahead of all others has moved the watermark. Before withWatermark, filter such rows with a " +
          s"time that the row does not contain, such as ${plain(column)} < timestamp + INTERVAL 1 HOUR with Kafka's " +
          "timestamp, and start with a new checkpoint: in this one the watermark cannot go back."
      case None =>
        s"${counted(rows)} of the last ${counted(all)} rows of $name were late, up to ${words(most)} behind the newest " +
          s"one: the delay is ${words(operator.delay(input).getOrElse(0L))}. ${roundedUp(needed)} would have kept 99 %: " +
          s"write withWatermark(\"${plain(column)}\", \"${roundedUp(needed)}\"); rows of the other inputs then wait " +
          "longer by as much. If older files or offsets were read after newer ones, correct that order instead."
    }

    /** Unmatched rows wait because the delay of the other input is far longer than the bound. */
    private def deferred: Option[String] = for {
      awaited <- operator.awaited(input) if input.recordsMatches && !operator.carriesEnds(input)
      (other, of) <- operator.outline.inputs.zipWithIndex.find { case (other, of) =>
        of != at && other.timeColumns.exists(operator.outline.columns(_) == awaited.column)
      }
      delay <- operator.delay(other) if operator.observed.inflow(of).read == 0
      oldest <- operator.oldest(input)
      bound = (awaited.after - oldest) / 1000
      if delay >= LongDelay && delay >= 10 * math.abs(bound) && operator.sum(query.recent, "paddedRows") == 0
    } yield s"Rows of $name without a match are emitted ${words(delay + bound)} after their time: the condition allows " +
      s"${words(bound)}, and the delay of ${awaited.column} is ${words(delay)}. A shorter delay in withWatermark emits " +
      "them sooner, and drops rows that arrive later than the delay."
  }
}

private object InputHints {
  private val Silence = 60000L
  private val Future = 3600000L

  /** Delays from this length on are worth a hint, in milliseconds. */
  private val LongDelay = 86400000L

  /** A row that is ahead by more than this has a wrong clock, in milliseconds. */
  private val Clock = 300000L

  /** Fewer rows do not allow a conclusion. */
  private val Few = 10L

  /** The number of batches with rows of other inputs only since the query was started. */
  private val Batches = 10L

  /** The share of rows that a recommended delay keeps. */
  private val Kept = 0.99
}
