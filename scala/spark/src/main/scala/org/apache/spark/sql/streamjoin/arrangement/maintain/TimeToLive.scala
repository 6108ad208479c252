package org.apache.spark.sql.streamjoin.arrangement.maintain

import org.apache.spark.sql.catalyst.expressions.{Cast, Literal, UnsafeRow}
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.streamjoin.arrangement.index.RowTime
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementMeta
import org.apache.spark.sql.types._

/**
 * The rows that an arrangement no longer keeps: `sj.arrange(..., ttl="30 days")`. The next batch
 * removes a row whose time is longer ago, as if it had been deleted, and ignores one that arrives
 * that late. A row without a time stays.
 *
 * "Ago" refers to the time of the batch, which is in Spark's offset log: a retry of a batch drops
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

  /** Whether a column of this type can decide which rows are dropped. */
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
   *   of the session, for dates and local times
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
