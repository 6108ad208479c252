package org.apache.spark.sql.streamjoin.arrangement.maintain

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementMeta

/** The position of changes in their log: a column of the rows, or partition and offset in Kafka. */
final private[maintain] class LogPosition(meta: ArrangementMeta, spec: ArrangeSpec) {
  import LogPosition.At

  private val column = meta.order.map(meta.schema.fieldIndex)
  private val ordering = column.map(at => TypeUtils.getInterpretedOrdering(meta.schema(at).dataType))
  private val partition = meta.schema.length + 1
  private val toRow = UnsafeProjection.create(meta.schema)

  def isKnown: Boolean = column.isDefined || spec.traits.hasPosition

  /** @param input the row of the input that a row was made of */
  def of(row: UnsafeRow, input: InternalRow): At =
    if (spec.traits.hasPosition) At(row, input.getInt(partition), input.getLong(partition + 1))
    else At(row, 0, 0)

  def follows(one: At, other: At): Boolean = {
    val byColumn = column.fold(0)(at => compare(one.row, other.row, at))
    if (byColumn != 0) byColumn > 0
    else if (one.partition != other.partition) one.partition > other.partition
    else one.offset > other.offset
  }

  private def compare(one: InternalRow, other: InternalRow, at: Int): Int =
    (one.isNullAt(at), other.isNullAt(at)) match {
      case (false, false) =>
        val dataType = meta.schema(at).dataType
        ordering.get.compare(one.get(at, dataType), other.get(at, dataType))
      case (first, second) => second.compare(first)
    }

  /** A row with the time of another one. */
  def withTime(row: UnsafeRow, time: Int, from: InternalRow, at: Int): UnsafeRow = {
    val values = row.toSeq(meta.schema).toArray
    values(time) = if (from.isNullAt(at)) null else from.get(at, meta.schema(time).dataType)
    toRow(new GenericInternalRow(values)).copy()
  }
}

private[maintain] object LogPosition {

  /** A row of the arrangement, and the position of its change in Kafka. */
  final case class At(row: UnsafeRow, partition: Int, offset: Long)
}
