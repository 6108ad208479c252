package org.apache.spark.sql.streamjoin.analysis

import java.util.UUID

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.time.{DurationText, EventTime}
import org.apache.spark.sql.streamjoin.watermark.{DropPunctuation, IdleAfter}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

/**
 * What a query declares about one of its streams: its event time, its bounds, that it may be idle.
 * Pure: analyzed plans in, analyzed plans out.
 *
 * @param call
 *   API call or clause that the user wrote, for errors
 * @param inSql
 *   whether it is a clause of SQL
 */
final private[streamjoin] class StreamInput(call: String, inSql: Boolean = false) {

  /** Adds a watermark that trails the newest time of a column by `lag`. */
  def imposeOrder(stream: LogicalPlan, time: String, lag: String): LogicalPlan = {
    checkIsStream(stream)
    val column = timestamp(stream, time)
    WatermarkLineage.markBelow(stream).foreach { known =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_TWO_WATERMARKS",
        "first" -> known.eventTime.name,
        "second" -> column.name
      )
    }
    val micros = length("lag", lag)
    if (micros < 0) throw duration("lag", lag, "it is negative, and no row comes before its time")
    StreamInput.marked(column, micros, stream)
  }

  /**
   * Drops the rows that are bounds, which move the watermark of `time`. With `per`, it is the
   * lowest of the partitions' watermarks.
   */
  def withBounds(
      stream: LogicalPlan,
      time: String,
      isBound: String,
      lag: Option[String],
      per: Option[String]
  ): LogicalPlan = {
    checkIsStream(stream)
    checkIsInput(stream)
    val bound = column(stream, isBound)
    if (bound.dataType != BooleanType)
      throw wrong(
        bound.name,
        s"is_bound is a boolean column, and this is ${bound.dataType.sql}",
        s"""Make one first: df.withColumn("is_bound", F.expr("<condition of a bound>"))."""
      )
    val marked = lag.fold(stream)(imposeOrder(stream, time, _))
    if (lag.isEmpty) checkMarked(stream, time)
    val rows = DropPunctuation(
      bound,
      timestamp(marked, time),
      per.map(partition(marked, _)),
      per.map(_ => onlyMark(marked, time)),
      marked
    )
    Project(marked.output.filterNot(_.exprId == bound.exprId), rows)
  }

  private def partition(stream: LogicalPlan, name: String): Attribute = {
    val found = column(stream, name)
    found.dataType match {
      case _: StringType | _: IntegralType => found
      case other =>
        throw wrong(
          found.name,
          s"per is a column of numbers or text, and this is ${other.sql}",
          "Name the column that says from which partition a row is."
        )
    }
  }

  /** The stream's only mark, on this very column: partition times are recorded for it. */
  private def onlyMark(stream: LogicalPlan, time: String): UUID =
    stream.collect { case mark: EventTimeWatermark => mark } match {
      case Seq(mark) if mark.eventTime.exprId == timestamp(stream, time).exprId => mark.nodeId
      case _ =>
        throw refused(
          "per needs one stream, whose event time is the column as it was marked",
          """Call it on the stream itself, with lag="0 seconds" and before any union."""
        )
    }

  /** Keeps the stream from holding others back once it has had no row for a time. */
  def idleAfter(stream: LogicalPlan, timeout: String): LogicalPlan = {
    checkIsStream(stream)
    checkIsInput(stream)
    if (!stream.exists(_.isInstanceOf[EventTimeWatermark]))
      throw refused(
        "it has no watermark, so it holds no other input back",
        """Mark its event time first: df.withWatermark("<column>", "10 seconds")."""
      )
    val micros = length("after", timeout)
    if (micros < MICROS_PER_MILLIS) throw duration("after", timeout, "it is not a millisecond or longer")
    IdleAfter(micros / MICROS_PER_MILLIS, stream)
  }

  private def checkIsStream(stream: LogicalPlan): Unit =
    if (!stream.isStreaming)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NOT_A_STREAM",
        "call" -> call,
        "wanted" -> "a streaming DataFrame (spark.readStream)",
        "found" -> "this one is a batch, which has no watermark",
        "advice" -> "Leave the call out for a batch."
      )

  /** A stateful operator decides when to emit its rows; that says nothing about its sources. */
  private def checkIsInput(stream: LogicalPlan): Unit =
    stream
      .find(operator => WatermarkLineage.isStateful(operator) || operator.isInstanceOf[StatefulNode])
      .foreach { operator =>
        throw refused(
          s"it is the output of an operator that keeps state (${operator.nodeName})",
          "Call it on the streams that are the input of that operator."
        )
      }

  private def checkMarked(stream: LogicalPlan, time: String): Unit = {
    val marked = timestamp(stream, time)
    if (!EventTime.isMarked(marked))
      throw wrong(
        marked.name,
        stream.output.filter(EventTime.isMarked).map(_.name) match {
          case Seq() => "it has no watermark"
          case others => s"it has no watermark; ${others.mkString(", ")} has one"
        },
        """Name the column with the watermark, or give this one its own: lag="0 seconds"."""
      )
  }

  private[streamjoin] def timestamp(stream: LogicalPlan, name: String): Attribute =
    timestamp(column(stream, name))

  private[streamjoin] def timestamp(found: Attribute): Attribute = {
    val name = quoteIfNeeded(found.name)
    def converted(inApi: String, sql: String): String =
      if (inSql) s"Convert it in a subquery: SELECT *, $sql AS time FROM ..."
      else s"""Convert it first: df.withColumn("${found.name}", $inApi)."""
    found.dataType match {
      case TimestampType => found
      case other =>
        throw wrong(
          found.name,
          s"an event time is a TIMESTAMP column, and this is ${other.sql}",
          other match {
            case _: StringType => converted(s"""F.to_timestamp("${found.name}")""", s"to_timestamp($name)")
            case TimestampNTZType | DateType =>
              converted(s"""F.col("${found.name}").cast("timestamp")""", s"CAST($name AS TIMESTAMP)")
            case _: IntegralType =>
              converted(s"""F.timestamp_millis("${found.name}")""", s"timestamp_millis($name)")
            case _ => "Name a column that says when a row happened."
          }
        )
    }
  }

  private[streamjoin] def column(stream: LogicalPlan, name: String): Attribute =
    columnOrField(stream, name) match {
      case attribute: Attribute => attribute
      case _ =>
        throw wrong(
          name,
          "it is a field of a column, and an event time is a column",
          s"""Make it one first: df.withColumn("time", F.col("$name"))."""
        )
    }

  /** A column, or a field of one. */
  private[streamjoin] def columnOrField(stream: LogicalPlan, name: String): Expression = {
    def columns = stream.output.map(_.name).mkString(", ")
    val found =
      try stream.resolve(UnresolvedAttribute.parseAttributeName(name), SQLConf.get.resolver)
      catch {
        case ambiguous: AnalysisException =>
          throw wrong(
            name,
            s"it does not name one column (${ambiguous.getCondition})",
            s"Its columns are $columns."
          )
      }
    found match {
      case Some(alias: Alias) => alias.child
      case Some(attribute) => attribute
      case None => throw wrong(name, "there is no such column", s"Its columns are $columns.")
    }
  }

  /** Parses a duration; the result is in microseconds. */
  def length(argument: String, text: String): Long = DurationText.length(call, argument, text)

  def duration(argument: String, text: String, reason: String): AnalysisException =
    DurationText.refused(call, argument, text, reason)

  private[streamjoin] def wrong(column: String, reason: String, advice: String) = StreamJoinErrors.analysis(
    "STREAMJOIN_COLUMN",
    "call" -> call,
    "column" -> column,
    "reason" -> reason,
    "advice" -> advice
  )

  private def refused(reason: String, advice: String) =
    StreamJoinErrors.analysis("STREAMJOIN_INPUT", "call" -> call, "reason" -> reason, "advice" -> advice)
}

private[streamjoin] object StreamInput {

  /**
   * Marks a column as the event time.
   *
   * @param lag
   *   delay of the watermark, in microseconds
   */
  def marked(column: Attribute, lag: Long, stream: LogicalPlan): EventTimeWatermark = {
    // A delay has whole milliseconds. Rounding it down would make a row within the lag late.
    val whole = -Math.floorDiv(-lag, MICROS_PER_MILLIS) * MICROS_PER_MILLIS
    EventTimeWatermark(UUID.randomUUID(), column, new CalendarInterval(0, 0, whole), stream)
  }
}
