package org.apache.spark.sql.streamjoin.changes

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Values that a message lacks because the database did not send them: Debezium sends a placeholder
 * in place of a large value that an update did not change (PostgreSQL's TOAST). The placeholder is
 * a string, its bytes (in Base64 if bytes are read as text), or an array that contains nothing
 * else.
 *
 * @param placeholder
 *   the text
 */
final private[streamjoin] class Unavailable(placeholder: String, schema: StructType) extends Serializable {
  private val bytes = placeholder.getBytes(UTF_8)
  private val texts = Seq(placeholder, Base64.getEncoder.encodeToString(bytes)).map(UTF8String.fromString)

  /** Ordinals of the columns that may contain the placeholder. */
  val columns: Array[Int] =
    schema.indices.filter(at => Unavailable.canBe(schema(at).dataType)).toArray

  def is(row: InternalRow, at: Int): Boolean = !row.isNullAt(at) && isPlaceholder(row, at)

  private def isPlaceholder(row: InternalRow, at: Int): Boolean = schema(at).dataType match {
    case _: StringType => texts.contains(row.getUTF8String(at))
    case BinaryType => java.util.Arrays.equals(row.getBinary(at), bytes)
    case ArrayType(element, _) =>
      val list = row.getArray(at)
      list.numElements() == 1 && !list.isNullAt(0) && (element match {
        case BinaryType => java.util.Arrays.equals(list.getBinary(0), bytes)
        case _ => texts.contains(list.getUTF8String(0))
      })
    case _ => false
  }

  def isIn(row: InternalRow): Boolean = columns.exists(is(row, _))

  /**
   * The row, with values that were not sent filled in from another row, if that has them.
   *
   * @param keepsNulls
   *   whether a null in the other row counts as a value
   */
  def filled(row: InternalRow, from: InternalRow, keepsNulls: Boolean = false): InternalRow =
    if (!isIn(row)) row
    else
      InternalRow.fromSeq(schema.indices.map { at =>
        val isKnown = is(row, at) && !is(from, at) && (keepsNulls || !from.isNullAt(at))
        valueOf(if (isKnown) from else row, at)
      })

  private def valueOf(row: InternalRow, at: Int): Any =
    if (row.isNullAt(at)) null else row.get(at, schema(at).dataType)
}

private[streamjoin] object Unavailable {
  val Default = "__debezium_unavailable_value"

  def canBe(dataType: DataType): Boolean = dataType match {
    case _: StringType | BinaryType => true
    case ArrayType(_: StringType | BinaryType, _) => true
    case _ => false
  }
}
