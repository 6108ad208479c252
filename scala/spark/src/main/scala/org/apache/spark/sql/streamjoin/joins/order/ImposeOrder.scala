package org.apache.spark.sql.streamjoin.joins.order
import org.apache.spark.sql.catalyst.analysis.{
  UnresolvedAttribute,
  UnresolvedFunction,
  UnresolvedTableValuedFunction
}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.streamjoin.analysis.{StreamInput, WatermarkLineage}
import org.apache.spark.sql.streamjoin.base.TableFunction
import org.apache.spark.sql.streamjoin.time.IntervalLength
import org.apache.spark.sql.types.{StringType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * `IMPOSE_ORDER(TABLE(t), DESCRIPTOR(ts), INTERVAL 10 SECONDS)`: a watermark on the column, like
 * that of `withWatermark`.
 *
 * @param column
 *   name of the event-time column
 * @param lag
 *   delay of the watermark, which Spark resolves
 * @param places
 *   positions for errors
 */
final private[streamjoin] case class ImposeOrder(
    column: Seq[String],
    lag: Expression,
    places: ImposeOrder.Places,
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): ImposeOrder = copy(child = newChild)

  def watermark: EventTimeWatermark = {
    import ImposeOrder.Function.refused
    if (child.isStreaming)
      WatermarkLineage.markBelow(child).foreach { known =>
        val has = s"this one has one on ${known.eventTime.name}"
        throw refused(s"takes a stream without a watermark, and $has", places.table)
      }
    val time = child.resolve(column, conf.resolver) match {
      case Some(found: Attribute) => found
      case Some(_) =>
        throw refused(s"takes a column, and ${column.mkString(".")} is a field of one", places.column)
      case None =>
        val columns = child.output.map(_.name).mkString(", ")
        throw refused(s"finds no column ${column.mkString(".")} among $columns", places.column)
    }
    if (time.dataType != TimestampType)
      throw refused(
        s"takes a column of type TIMESTAMP, and ${time.name} is ${time.dataType.sql}; cast it in a subquery",
        places.column
      )
    IntervalLength.micros(lag) match {
      case Left(reason) => throw refused(s"cannot take this lag: $reason", lag.origin)
      case Right(micros) if micros < 0 => throw refused("takes a lag that is not negative", lag.origin)
      case Right(micros) => StreamInput.marked(time, micros, child)
    }
  }
}

private[streamjoin] object ImposeOrder {
  val Function: TableFunction = TableFunction(
    "IMPOSE_ORDER",
    "IMPOSE_ORDER(TABLE(orders), DESCRIPTOR(order_time), INTERVAL 10 SECONDS)"
  )
  import Function.refused

  /** Positions of the arguments. */
  final case class Places(table: Origin, column: Origin)

  private val Arguments = Seq("data", "timecol", "lag")

  def of(call: UnresolvedTableValuedFunction): ImposeOrder =
    Function.arguments(call, Arguments: _*) match {
      case Seq(table, column, lag) =>
        ImposeOrder(name(column), lag, Places(table.origin, column.origin), Function.table(table))
      case arguments => throw refused(s"takes three arguments, and not ${arguments.size}", call.origin)
    }

  private def name(column: Expression): Seq[String] = column match {
    case UnresolvedFunction(Seq(descriptor), Seq(name: UnresolvedAttribute), _, _, _, _, _)
        if descriptor.equalsIgnoreCase("descriptor") =>
      name.nameParts
    case Literal(name: UTF8String, _: StringType) => Seq(name.toString)
    case other =>
      throw refused(s"takes a column as DESCRIPTOR(ts) or 'ts', and not ${other.sql}", other.origin)
  }
}
