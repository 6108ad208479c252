package org.apache.spark.sql.streamjoin.joins.order
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.{StreamInput, WatermarkLineage}
import org.apache.spark.sql.streamjoin.base.CallArguments
import org.apache.spark.sql.streamjoin.time.IntervalLength
import org.apache.spark.sql.types.TimestampType

/**
 * `IMPOSE_ORDER(TABLE(t), DESCRIPTOR(ts), INTERVAL 10 SECONDS)`: a watermark on the column, like
 * that of `withWatermark`.
 */
private[streamjoin] object ImposeOrder {

  /**
   * @param lag
   *   delay of the watermark, resolved
   * @param stream
   *   the table, resolved
   */
  def of(arguments: CallArguments, lag: Expression, stream: LogicalPlan): LogicalPlan = {
    import arguments.rejected
    if (stream.isStreaming)
      WatermarkLineage.markBelow(stream).foreach { known =>
        val has = s"this one has one on ${known.eventTime.name}"
        throw rejected(s"takes a stream without a watermark, and $has", "data")
      }
    val column = arguments.texts("timecol")
    val time = stream.resolve(column, SQLConf.get.resolver) match {
      case Some(found: Attribute) => found
      case Some(_) =>
        throw rejected(s"takes a column, and ${column.mkString(".")} is a field of one", "timecol")
      case None =>
        val columns = stream.output.map(_.name).mkString(", ")
        throw rejected(s"finds no column ${column.mkString(".")} among $columns", "timecol")
    }
    if (time.dataType != TimestampType)
      throw rejected(
        s"takes a column of type TIMESTAMP, and ${time.name} is ${time.dataType.sql}; cast it in a subquery",
        "timecol"
      )
    IntervalLength.micros(lag) match {
      case Left(reason) => throw rejected(s"cannot take this lag: $reason", "lag")
      case Right(micros) if micros < 0 => throw rejected("takes a lag that is not negative", "lag")
      case Right(micros) => StreamInput.marked(time, micros, stream)
    }
  }
}
