package org.apache.spark.sql.streamjoin.base

import java.time.ZoneOffset

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.TimestampFormatter
import org.apache.spark.sql.classic.ExpressionUtils.{column, expression}
import org.apache.spark.sql.types._

/**
 * Event times as text in UTC: `2026-01-01T09:10:00Z`. A row may contain any time, for instance the
 * year 58874 if milliseconds were read as seconds, and a client may be unable to represent it:
 * Python's `datetime` ends with the year 9999.
 */
private[streamjoin] object EventTimeText {

  def of(micros: Long): String = {
    val text = TimestampFormatter.getFractionFormatter(ZoneOffset.UTC).format(micros)
    s"${text.replace(' ', 'T')}Z"
  }

  def of(time: Column): Column = column(utc(expression(time)))

  /** The type of a value whose times and dates are converted to text, including nested ones. */
  def typeWithin(dataType: DataType): DataType = Within.typeOf(dataType)

  /**
   * @param value
   *   resolved
   * @return
   *   the value with its times and dates as text
   */
  def within(value: Expression): Expression = Within.of(value, value.dataType)

  private object Within extends NestedValues(withKeys = true) {
    override protected def replacedType: PartialFunction[DataType, DataType] = {
      case TimestampType | TimestampNTZType | DateType => StringType
    }

    override protected def replaced(value: Expression, dataType: DataType): Expression = dataType match {
      case TimestampType => utc(value)
      case TimestampNTZType => iso(value)
      case _ => Cast(value, StringType, Some("UTC"))
    }
  }

  private def utc(time: Expression): Expression = Concat(Seq(iso(time), Literal("Z")))

  private def iso(time: Expression): Expression =
    StringReplace(Cast(time, StringType, Some("UTC")), Literal(" "), Literal("T"))
}
