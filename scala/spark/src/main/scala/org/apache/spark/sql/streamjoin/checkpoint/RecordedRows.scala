package org.apache.spark.sql.streamjoin.checkpoint

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, EvalMode, Expression, Literal}
import org.apache.spark.sql.streamjoin.state.RowLayout
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * The rows of an input in state, as data: a property of the operator's description, from which a
 * changed query learns how to read them.
 *
 * @param stored
 *   fields of a stored row: the columns of the input, then fields computed for the operator
 * @param shown
 *   how many of them are columns of the input
 * @param keys
 *   ordinals of the fields that make up the key
 * @param times
 *   ordinals of the event-time fields
 * @param expiring
 *   positions in `times` of those that expire a row
 * @param used
 *   names of the columns that decide what a row matches and when it leaves
 */
final private[streamjoin] case class RecordedRows(
    stored: StructType,
    shown: Int,
    keys: Seq[Int],
    times: Seq[Int],
    expiring: Seq[Int],
    used: Seq[String]
) {
  import RecordedRows._

  def layout: RowLayout =
    new RowLayout(stored.map(_.dataType), keys.toArray, times.toArray, expiring.toArray)

  /** The columns of the input. */
  def columns: StructType = StructType(stored.take(shown))

  /** The columns of a changed input, read from a stored row by name; null where it lacks one. */
  def columnsFor(now: RecordedRows): Seq[Expression] = now.columns.map { column =>
    columns.indexWhere(_.name == column.name) match {
      case -1 => Literal(null, column.dataType)
      case at =>
        val field = BoundReference(at, columns(at).dataType, nullable = true)
        if (DataType.equalsIgnoreNullability(field.dataType, column.dataType)) field
        else Cast(field, column.dataType, Some("UTC"), EvalMode.LEGACY)
    }
  }

  def json: String = {
    val root = JsonProperty.newObject().put(Stored, stored.json).put(Shown, shown)
    JsonProperty.putNumbers(root, Keys, keys)
    JsonProperty.putNumbers(root, Times, times)
    JsonProperty.putNumbers(root, Expiring, expiring)
    JsonProperty.putTexts(root, Used, used)
    root.toString
  }
}

private[streamjoin] object RecordedRows {
  private val Stored = "stored"
  private val Shown = "shown"
  private val Keys = "keys"
  private val Times = "times"
  private val Expiring = "expiring"
  private val Used = "used"

  /** The property with the rows of a side, or of the only input. */
  def property(side: Option[String]): String = side.fold("rows")(name => s"${name}_rows")

  /** None if an older version has recorded the operator. */
  def of(properties: Map[String, String], side: Option[String]): Option[RecordedRows] = Try {
    val root = JsonProperty.read(properties(property(side)))
    def elements(name: String) = JsonProperty.elements(root.path(name))
    def numbers(name: String): Seq[Int] = elements(name).map(_.asInt)
    RecordedRows(
      DataType.fromJson(root.path(Stored).asText).asInstanceOf[StructType],
      root.path(Shown).asInt,
      numbers(Keys),
      numbers(Times),
      numbers(Expiring),
      elements(Used).map(_.asText)
    )
  }.toOption
}
