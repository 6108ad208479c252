package org.apache.spark.sql.streamjoin.changes

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Base64, UUID}

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Values that a message lacks because the database did not send them: Debezium sends a placeholder
 * in place of a large value that an update did not change (PostgreSQL's TOAST). It depends on the
 * type of the column (`UnchangedToastedPlaceholder`):
 *
 * {{{
 *   text, json                    the text
 *   bytea                         its bytes, in Base64 if bytes are read as text
 *   text[], bytea[]               an array that contains nothing else
 *   integer[], bigint[], date[]   an array of its bytes, each as a number
 *   uuid[]                        an array that contains the UUID made of its bytes
 *   hstore                        a map, or an object in JSON, from the text to the text
 * }}}
 *
 * @param placeholder
 *   the text
 */
final private[streamjoin] class Unavailable(placeholder: String, schema: StructType) extends Serializable {
  private val bytes = placeholder.getBytes(UTF_8)

  private val texts = {
    val quoted = new ObjectMapper().writeValueAsString(placeholder)
    Seq(placeholder, Base64.getEncoder.encodeToString(bytes), s"{$quoted:$quoted}").map(UTF8String.fromString)
  }

  private val elements = texts :+ UTF8String.fromString(UUID.nameUUIDFromBytes(bytes).toString)

  /** Ordinals of the columns that may contain the placeholder. */
  val columns: Array[Int] =
    schema.indices.filter(at => Unavailable.canBe(schema(at).dataType)).toArray

  def is(row: InternalRow, at: Int): Boolean = !row.isNullAt(at) && isPlaceholder(row, at)

  private def isPlaceholder(row: InternalRow, at: Int): Boolean = schema(at).dataType match {
    case _: StringType => texts.contains(row.getUTF8String(at))
    case BinaryType => java.util.Arrays.equals(row.getBinary(at), bytes)
    case ArrayType(element, _) => isPlaceholder(row.getArray(at), element)
    case _: MapType =>
      val map = row.getMap(at)
      map.numElements() == 1 && Seq(map.keyArray(), map.valueArray()).forall { list =>
        !list.isNullAt(0) && list.getUTF8String(0) == texts.head
      }
    case _ => false
  }

  private def isPlaceholder(list: ArrayData, element: DataType): Boolean = {
    def isOne = list.numElements() == 1 && !list.isNullAt(0)
    def isOfBytes(value: Int => Long) = bytes.nonEmpty && list.numElements() == bytes.length &&
      bytes.indices.forall(i => !list.isNullAt(i) && value(i) == bytes(i))
    element match {
      case IntegerType | DateType => isOfBytes(list.getInt(_).toLong)
      case LongType => isOfBytes(list.getLong)
      case BinaryType => isOne && java.util.Arrays.equals(list.getBinary(0), bytes)
      case _ => isOne && elements.contains(list.getUTF8String(0))
    }
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
    case ArrayType(_: StringType | BinaryType | IntegerType | LongType | DateType, _) => true
    case MapType(_: StringType, _: StringType, _) => true
    case _ => false
  }
}
