package org.apache.spark.sql.streamjoin.arrangement.maintain

import org.apache.spark.sql.catalyst.expressions.{Cast, Literal, UnsafeRow}
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.streamjoin.arrangement.index.RowTime
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementMeta
import org.apache.spark.sql.types._

/**
 * The rows that an arrangement does not keep any more: `sj.arrange(..., ttl="30 days")`. A row
 * whose time is longer ago than that goes with the next batch, as if it were deleted, and one that
 * comes in so late is left out. A row without a time stays.
 *
 * "Ago" is as of the time of the batch, which is in Spark's offset log: a retry of a batch drops
 * the same rows.
 *
 * @param limit
 *   rows before it are dropped; in the unit of the column
 */
final private[streamjoin] case class TimeToLive(column: Int, dataType: DataType, limit: Long)
    extends RowTime {
  override def apply(row: UnsafeRow): Long =
    if (row.isNullAt(column)) RowTime.None
    else if (dataType == DateType) row.getInt(column).toLong
    else row.getLong(column)

  def isOver(row: UnsafeRow): Boolean = apply(row) < limit
}

private[streamjoin] object TimeToLive {

  /** Whether rows can be dropped by a column of a type. */
  def canHave(dataType: DataType): Boolean = dataType match {
    case TimestampType | TimestampNTZType | DateType => true
    case _ => false
  }

  /**
   * @param length
   *   how long rows are kept, in microseconds
   * @param batchTime
   *   in milliseconds since the epoch
   * @param timeZone
   *   of the session, in which dates and local times are
   */
  def of(meta: ArrangementMeta, length: Long, batchTime: Long, timeZone: String): TimeToLive = {
    val column = meta.schema.fieldIndex(meta.time.get)
    val dataType = meta.schema(column).dataType
    val limit = Literal(batchTime * MICROS_PER_MILLIS - length, TimestampType)
    TimeToLive(
      column,
      dataType,
      Cast(limit, dataType, Some(timeZone)).eval().asInstanceOf[Number].longValue
    )
  }
}
