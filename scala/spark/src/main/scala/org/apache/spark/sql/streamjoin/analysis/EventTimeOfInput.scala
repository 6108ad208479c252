package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, Wording}
import org.apache.spark.sql.streamjoin.plans.{AsOfTime, Clause}
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.types.TimestampType

import streamjoin.core.Side

/**
 * The event-time column of an input that a clause of SQL or an API call refers to without naming
 * it.
 */
private[streamjoin] object EventTimeOfInput {

  /**
   * What a user can write instead.
   *
   * @param ofBatch
   *   if the input is no stream
   * @param ofNone
   *   if it has no event-time column; takes the call that would mark one
   * @param ofSeveral
   *   if it has several, the first of which has this name
   */
  final case class Advice(ofBatch: String, ofNone: String => String, ofSeveral: String => String)

  def of(join: Join, side: Side, clause: Clause): Attribute = {
    val ofBatch = clause match {
      case _: AsOfTime =>
        "Read the changes of the table by STREAM, or leave the clause out and join it as it is."
      case _ => "Write the bound as a condition in ON or WHERE."
    }
    val time = input(join, side).output.find(_.dataType == TimestampType).fold("time")(_.name)
    val ofNone = s"Mark one, for example ${Wording.mark("t", time, inSql = true)}."
    val ofSeveral =
      "Write the bound as a condition in ON, or leave the other columns out of the input by a subquery."
    def placed(advice: String) = s"$advice\n${clause.where}"
    val advice = Advice(placed(ofBatch), _ => placed(ofNone), _ => placed(ofSeveral))
    if (!input(join, side).isStreaming) throw noStream(side, clause.name, advice)
    of(join, side, clause.name, advice)
  }

  private def input(join: Join, side: Side): LogicalPlan =
    if (side == Side.Left) join.left else join.right

  def of(join: Join, side: Side, call: String, advice: Advice): Attribute =
    of(input(join, side), side, call, advice)

  /** A batch has one, too, if it comes from `withWatermark`. */
  def of(input: LogicalPlan, side: Side, call: String, advice: Advice): Attribute =
    EventTime.of(input.output).distinctBy(_.exprId) match {
      case Seq(one) => one
      case Seq() if !input.isStreaming => throw noStream(side, call, advice)
      case Seq() => throw none(input, side, call, advice)
      case columns =>
        val names = columns.map(_.qualifiedName).mkString(", ")
        throw notOne(side, call, s"${columns.size}: $names", advice.ofSeveral(columns.head.name))
    }

  private def noStream(side: Side, call: String, advice: Advice): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_NOT_A_STREAM",
      "call" -> call,
      "wanted" -> "two streams",
      "found" -> s"the ${side.name} input is a batch",
      "advice" -> advice.ofBatch
    )

  private def none(input: LogicalPlan, side: Side, call: String, advice: Advice): AnalysisException = {
    val times = input.output.filter(_.dataType == TimestampType).map(_.name)
    val (timestamps, all) = (times.mkString(", "), input.output.map(_.name).mkString(", "))
    val example = s"""${side.name}.withWatermark("${times.headOption.getOrElse("time")}", "10 seconds")"""
    val found =
      s"none (its timestamp columns: ${if (times.isEmpty) "none" else timestamps}; all columns: $all)"
    notOne(side, call, found, advice.ofNone(example))
  }

  private def notOne(side: Side, call: String, found: String, advice: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_EVENT_TIME",
      "call" -> call,
      "side" -> side.name,
      "found" -> found,
      "advice" -> advice
    )
}
