package org.apache.spark.sql.streamjoin.base

import java.time.ZoneOffset

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.TimestampFormatter
import org.apache.spark.sql.classic.ExpressionUtils.{column, expression}
import org.apache.spark.sql.types._

/**
 * Event times as text in UTC: `2026-01-01T09:10:00Z`. A row may bring any time, for instance the
 * year 58874 where milliseconds were read as seconds, and a client may have no value for it:
 * Python's `datetime` ends with the year 9999.
 */
private[streamjoin] object EventTimeText {

  def of(micros: Long): String = {
    val text = TimestampFormatter.getFractionFormatter(ZoneOffset.UTC).format(micros)
    s"${text.replace(' ', 'T')}Z"
  }

  def of(time: Column): Column = column(utc(expression(time)))

  /** The type of a value whose times and dates have become text, also those within it. */
  def typeWithin(dataType: DataType): DataType = dataType match {
    case TimestampType | TimestampNTZType | DateType => StringType
    case row: StructType =>
      StructType(row.map(field => field.copy(dataType = typeWithin(field.dataType))))
    case array: ArrayType => array.copy(elementType = typeWithin(array.elementType))
    case map: MapType => map.copy(keyType = typeWithin(map.keyType), valueType = typeWithin(map.valueType))
    case other => other
  }

  /**
   * @param value
   *   resolved
   * @return
   *   the value with its times and dates as text
   */
  def within(value: Expression): Expression = value.dataType match {
    case same if typeWithin(same) == same => value
    case TimestampType => utc(value)
    case TimestampNTZType => iso(value)
    case DateType => Cast(value, StringType, Some("UTC"))
    case row: StructType =>
      val fields = row.zipWithIndex.flatMap { case (field, at) =>
        Seq(Literal(field.name), within(GetStructField(value, at, Some(field.name))))
      }
      If(IsNull(value), Literal(null, typeWithin(row)), CreateNamedStruct(fields))
    case array: ArrayType =>
      val element = NamedLambdaVariable("element", array.elementType, array.containsNull)
      ArrayTransform(value, LambdaFunction(within(element), Seq(element)))
    case map: MapType =>
      val (key, each) = (
        NamedLambdaVariable("key", map.keyType, nullable = false),
        NamedLambdaVariable("value", map.valueType, map.valueContainsNull)
      )
      val keys = TransformKeys(value, LambdaFunction(within(key), Seq(key, each)))
      val text = key.copy(dataType = typeWithin(map.keyType))
      TransformValues(keys, LambdaFunction(within(each), Seq(text, each)))
    case _ => value
  }

  private def utc(time: Expression): Expression = Concat(Seq(iso(time), Literal("Z")))

  private def iso(time: Expression): Expression =
    StringReplace(Cast(time, StringType, Some("UTC")), Literal(" "), Literal("T"))
}
