package org.apache.spark.sql.streamjoin.joins.order
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.{StreamInput, WatermarkLineage}
import org.apache.spark.sql.streamjoin.base.CallArguments
import org.apache.spark.sql.streamjoin.time.IntervalLength
import org.apache.spark.sql.types.TimestampType

/**
 * `IMPOSE_ORDER(TABLE(t), DESCRIPTOR(ts), INTERVAL 10 SECONDS)`: sets a watermark on the column, as
 * `withWatermark` does.
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
        throw rejected("STREAMJOIN_TABLE_FUNCTION.HAS_WATERMARK", "data", "column" -> known.eventTime.name)
      }
    val column = arguments.texts("timecol")
    val time = stream.resolve(column, SQLConf.get.resolver) match {
      case Some(found: Attribute) => found
      case Some(_) =>
        throw rejected("STREAMJOIN_TABLE_FUNCTION.FIELD", "timecol", "column" -> column.mkString("."))
      case None =>
        throw rejected(
          "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_COLUMN",
          "timecol",
          "column" -> column.mkString("."),
          "columns" -> stream.output.map(_.name).mkString(", ")
        )
    }
    if (time.dataType != TimestampType)
      throw rejected(
        "STREAMJOIN_TABLE_FUNCTION.COLUMN_TYPE",
        "timecol",
        "column" -> time.name,
        "type" -> time.dataType.sql
      )
    IntervalLength.micros(lag) match {
      case Left(reason) => throw rejected("STREAMJOIN_TABLE_FUNCTION.LAG", "lag", "reason" -> reason)
      case Right(micros) if micros < 0 => throw rejected("STREAMJOIN_TABLE_FUNCTION.NEGATIVE_LAG", "lag")
      case Right(micros) => StreamInput.marked(time, micros, stream)
    }
  }
}
