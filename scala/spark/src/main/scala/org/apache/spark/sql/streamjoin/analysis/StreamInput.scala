package org.apache.spark.sql.streamjoin.analysis

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.time.{DurationText, EventTime}
import org.apache.spark.sql.streamjoin.watermark.{DropPunctuation, IdleAfter}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

/**
 * The declarations of a query about one of its streams: its event time, its bounds, whether it may
 * be idle. Pure: analyzed plans in, analyzed plans out.
 *
 * @param call
 *   API call that the user wrote, for errors
 */
final private[streamjoin] class StreamInput(call: String) {
  private val columns = new NamedColumns(call)
  import columns.{column, timestamp, wrong}

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
    val micros = DurationText.length(call, "lag", lag)
    if (micros < 0)
      throw DurationText.rejected(call, "lag", lag, "it is negative, and no row arrives before its time")
    StreamInput.marked(column, micros, stream)
  }

  /**
   * Drops the rows that are bounds after they have moved the watermark of `time`. With `per`, the
   * watermark is the lowest of the partitions' watermarks.
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
      throw wrong(bound.name, "STREAMJOIN_COLUMN.IS_BOUND_TYPE", "type" -> bound.dataType.sql)
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
        throw wrong(found.name, "STREAMJOIN_COLUMN.PARTITION_TYPE", "type" -> other.sql)
    }
  }

  /** The stream's only mark, on this very column: partition times are recorded for it. */
  private def onlyMark(stream: LogicalPlan, time: String): UUID =
    stream.collect { case mark: EventTimeWatermark => mark } match {
      case Seq(mark) if mark.eventTime.exprId == timestamp(stream, time).exprId => mark.nodeId
      case _ =>
        throw rejected("STREAMJOIN_INPUT.PER_NEEDS_ONE_STREAM")
    }

  /** Stops the stream from holding others back once it has had no row for some time. */
  def idleAfter(stream: LogicalPlan, timeout: String): LogicalPlan = {
    checkIsStream(stream)
    checkIsInput(stream)
    if (!stream.exists(_.isInstanceOf[EventTimeWatermark]))
      throw rejected("STREAMJOIN_INPUT.NO_WATERMARK")
    val micros = DurationText.length(call, "after", timeout)
    if (micros < MICROS_PER_MILLIS)
      throw DurationText.rejected(call, "after", timeout, "it is not a millisecond or longer")
    IdleAfter(micros / MICROS_PER_MILLIS, stream)
  }

  private def checkIsStream(stream: LogicalPlan): Unit =
    if (!stream.isStreaming)
      throw rejected("STREAMJOIN_NOT_A_STREAM.STREAM")

  /**
   * A stateful operator decides when to emit its rows, so its output does not show whether its
   * sources are idle.
   */
  private def checkIsInput(stream: LogicalPlan): Unit =
    stream
      .find(operator => WatermarkLineage.isStateful(operator) || operator.isInstanceOf[StatefulNode])
      .foreach { operator =>
        throw rejected("STREAMJOIN_INPUT.OUTPUT_OF_OPERATOR", "operator" -> operator.nodeName)
      }

  private def checkMarked(stream: LogicalPlan, time: String): Unit = {
    val marked = timestamp(stream, time)
    if (!EventTime.isMarked(marked))
      throw wrong(
        marked.name,
        "STREAMJOIN_COLUMN.NO_WATERMARK",
        "marked" -> StreamJoinErrors.listed(stream.output.filter(EventTime.isMarked).map(_.name))
      )
  }

  private def rejected(condition: String, parameters: (String, String)*) =
    StreamJoinErrors.analysis(condition, parameters :+ ("call" -> call): _*)
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
