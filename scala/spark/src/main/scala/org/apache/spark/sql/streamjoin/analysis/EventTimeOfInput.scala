package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.Join
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.{AsOfTime, Clause}
import org.apache.spark.sql.streamjoin.time.EventTime

import streamjoin.core.Side

/** The event-time column of an input that a clause of SQL refers to without naming it. */
private[streamjoin] object EventTimeOfInput {
  def of(join: Join, side: Side, clause: Clause): Attribute = {
    val input = if (side == Side.Left) join.left else join.right
    if (!input.isStreaming) throw noStream(side, clause)
    EventTime.of(input.output).distinctBy(_.exprId) match {
      case Seq(one) => one
      case columns => throw notOne(side, clause, columns)
    }
  }

  private def noStream(side: Side, clause: Clause): AnalysisException = {
    val advice = clause match {
      case _: AsOfTime =>
        "Read the changes of the table by STREAM, or leave the clause out and join it as it is."
      case _ => "Write the bound as a condition in ON or WHERE."
    }
    StreamJoinErrors.analysis(
      "STREAMJOIN_NOT_A_STREAM",
      "call" -> clause.name,
      "wanted" -> "two streams",
      "found" -> s"the ${side.name} input is none",
      "advice" -> s"$advice\n${clause.where}"
    )
  }

  private def notOne(side: Side, clause: Clause, columns: Seq[Attribute]): AnalysisException = {
    val found =
      if (columns.isEmpty) "none" else s"${columns.size}: ${columns.map(_.qualifiedName).mkString(", ")}"
    val advice =
      if (columns.isEmpty)
        "Mark one by withWatermark, or in SQL by `WATERMARK t DELAY OF INTERVAL 10 SECONDS` after the table's name."
      else "Write the bound as a condition in ON, or leave the other columns out of the input by a subquery."
    StreamJoinErrors.analysis(
      "STREAMJOIN_EVENT_TIME",
      "call" -> clause.name,
      "side" -> side.name,
      "found" -> found,
      "advice" -> s"$advice\n${clause.where}"
    )
  }
}
