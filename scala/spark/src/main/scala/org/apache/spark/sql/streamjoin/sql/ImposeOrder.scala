package org.apache.spark.sql.streamjoin.sql

import java.util.UUID

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  UnresolvedAttribute,
  UnresolvedFunction,
  UnresolvedTableValuedFunction
}
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  Expression,
  FunctionTableSubqueryArgumentExpression,
  Literal
}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.WithOrigin
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types.{StringType, TimestampType}
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

/**
 * `IMPOSE_ORDER(TABLE(t), DESCRIPTOR(ts), INTERVAL 10 SECONDS)`: a watermark on the column, as
 * `withWatermark` has it.
 *
 * @param column
 *   its name
 * @param lag
 *   resolved by Spark
 */
final private[sql] case class ImposeOrder(column: Seq[String], lag: Expression, child: LogicalPlan)
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): ImposeOrder = copy(child = newChild)

  def watermark: EventTimeWatermark = {
    val time = child.resolve(column, conf.resolver) match {
      case Some(found: Attribute) => found
      case Some(_) =>
        throw ImposeOrder.refused(s"takes a column, and ${column.mkString(".")} is a field of one", this)
      case None =>
        val columns = child.output.map(_.name).mkString(", ")
        throw ImposeOrder.refused(s"finds no column ${column.mkString(".")} among $columns", this)
    }
    if (time.dataType != TimestampType)
      throw ImposeOrder.refused(
        s"takes a column of type TIMESTAMP, and ${time.name} is ${time.dataType.sql}; cast it in a subquery",
        this
      )
    Duration.micros(lag) match {
      case Left(reason) => throw ImposeOrder.refused(s"takes a constant lag, and of this one $reason", lag)
      case Right(micros) if micros < 0 => throw ImposeOrder.refused("takes a lag that is not negative", lag)
      case Right(micros) =>
        EventTimeWatermark(UUID.randomUUID(), time, new CalendarInterval(0, 0, micros), child)
    }
  }
}

private[sql] object ImposeOrder {
  val Name = "impose_order"

  def of(call: UnresolvedTableValuedFunction): ImposeOrder = call.functionArgs match {
    case Seq(table, column, lag) =>
      val child = table match {
        case argument: FunctionTableSubqueryArgumentExpression
            if !argument.hasRepartitioning && argument.orderByExpressions.isEmpty =>
          argument.plan
        case _: FunctionTableSubqueryArgumentExpression =>
          throw refused("takes a table as it is, neither partitioned nor ordered", table)
        case other => throw refused(s"takes a table first, and not ${other.sql}", other)
      }
      ImposeOrder(name(column), lag, child)
    case arguments => throw refused(s"takes three arguments, and not ${arguments.size}", call)
  }

  private def name(column: Expression): Seq[String] = column match {
    case UnresolvedFunction(Seq(descriptor), Seq(name: UnresolvedAttribute), _, _, _, _, _)
        if descriptor.equalsIgnoreCase("descriptor") =>
      name.nameParts
    case Literal(name: UTF8String, _: StringType) => Seq(name.toString)
    case other => throw refused(s"takes a column as DESCRIPTOR(ts) or 'ts', and not ${other.sql}", other)
  }

  def refused(problem: String, at: WithOrigin): AnalysisException = StreamJoinErrors.analysis(
    "STREAMJOIN_IMPOSE_ORDER",
    "problem" -> problem,
    "where" -> at.origin.getQueryContext.map(_.summary).mkString
  )
}

/** The call of the function, before Spark looks it up. */
final private[streamjoin] case class ReadImposeOrder(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case call @ UnresolvedTableValuedFunction(Seq(name), _, _)
        if name.equalsIgnoreCase(ImposeOrder.Name) && !isUsers(name) =>
      ImposeOrder.of(call)
  }

  /** A function that the user has made goes first. */
  private def isUsers(name: String): Boolean =
    session.asInstanceOf[ClassicSession].sessionState.catalog.functionExists(FunctionIdentifier(name))
}

private[streamjoin] object ResolveImposeOrder extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case order: ImposeOrder if order.childrenResolved && order.lag.resolved => order.watermark
  }
}
