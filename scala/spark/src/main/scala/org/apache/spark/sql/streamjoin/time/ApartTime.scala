package org.apache.spark.sql.streamjoin.time

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DataType, LongType, TimestampType}

/**
 * A time that is a constant apart from another one: the last instant of a window, or an event time.
 * It takes the place of a field of the window while conditions are analyzed, and is never
 * evaluated.
 *
 * @param of
 *   window or event-time column
 * @param least
 *   smallest distance from it in microseconds, which may be negative
 * @param most
 *   largest distance from it
 */
final private[streamjoin] case class ApartTime(of: Attribute, least: Long, most: Long)
    extends LeafExpression
    with Unevaluable {
  override def dataType: DataType = TimestampType
  override def nullable: Boolean = of.nullable
  override def references: AttributeSet = of.references
}

/** The start or the end of a window. */
private[streamjoin] object WindowField {
  private val Start = 0

  /** The window, and whether it is its start. */
  def unapply(expression: Expression): Option[(Attribute, Boolean)] = expression match {
    case GetStructField(window: Attribute, field, _) if EventTime.isWindow(window) =>
      Some((window, field == Start))
    case _ => None
  }
}

/**
 * The time of a window or a session, as Spark's analyzer makes both of it (`TimeWindowing`,
 * `SessionWindowing`): the start is computed from this time alone.
 */
private[streamjoin] object WindowedTime {
  def unapply(made: Expression): Option[Expression] = made match {
    case window: CreateNamedStruct =>
      window.valExprs.headOption.toSeq.flatMap(times).distinctBy(_.canonicalized) match {
        case Seq(one) => Some(one)
        case _ => None
      }
    case _ => None
  }

  private def times(part: Expression): Seq[Expression] = part match {
    case PreciseTimestampConversion(time, _, LongType) => Seq(time)
    case other => other.children.flatMap(times)
  }
}

/** `window(time, length)` as Spark's analyzer resolves it (`TimeWindowing`): a struct. */
private[streamjoin] object FixedWindow {

  /** Its length in microseconds; all of its windows have the same one. */
  def length(made: NamedExpression): Option[Long] =
    if (!made.metadata.contains(TimeWindow.marker)) None
    else
      Try {
        // Whatever the time is, one instant is enough.
        val window = made
          .transform { case column: Attribute => Literal.default(column.dataType) }
          .eval()
          .asInstanceOf[InternalRow]
        window.getLong(1) - window.getLong(0)
      }.toOption
}
