package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, Wording}
import org.apache.spark.sql.streamjoin.plans.{AsOfTime, Clause}
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.types.TimestampType

import streamjoin.core.Side

/** The event-time column of an input, for a SQL clause or an API call that does not name it. */
private[streamjoin] object EventTimeOfInput {

  /**
   * The user's call, and its wording.
   *
   * @param ofBatch
   *   the error condition if an input is not a stream
   * @param choosing
   *   returns the text that selects one of several columns, given its name
   * @param where
   *   position in a SQL text
   */
  final case class Words(
      call: String,
      ofBatch: String,
      choosing: Option[String => String] = None,
      where: Option[String] = None,
      inSql: Boolean = false
  )

  def of(join: Join, side: Side, clause: Clause): Attribute = {
    val ofBatch = clause match {
      case _: AsOfTime => "STREAMJOIN_NOT_A_STREAM.VERSIONS"
      case _ => "STREAMJOIN_NOT_A_STREAM.BOUND"
    }
    val words = Words(clause.name, ofBatch, where = Some(clause.where), inSql = true)
    if (!input(join, side).isStreaming) throw noStream(side, words)
    of(join, side, words)
  }

  private def input(join: Join, side: Side): LogicalPlan =
    if (side == Side.Left) join.left else join.right

  def of(join: Join, side: Side, words: Words): Attribute = of(input(join, side), side, words)

  /** A batch DataFrame also has one if it uses `withWatermark`. */
  def of(input: LogicalPlan, side: Side, words: Words): Attribute =
    EventTime.of(input.output).distinctBy(_.exprId) match {
      case Seq(one) => one
      case Seq() if !input.isStreaming => throw noStream(side, words)
      case Seq() =>
        val times = input.output.filter(_.dataType == TimestampType).map(_.name)
        throw rejected(
          "STREAMJOIN_EVENT_TIME.NONE",
          side,
          words,
          "timestamps" -> StreamJoinErrors.listed(times),
          "columns" -> input.output.map(_.name).mkString(", "),
          "mark" -> Wording.mark(
            if (words.inSql) "t" else side.name,
            times.headOption.getOrElse("time"),
            words.inSql
          )
        )
      case columns =>
        val known =
          Seq("count" -> columns.size.toString, "columns" -> columns.map(_.qualifiedName).mkString(", "))
        val first = columns.head.name
        throw words.choosing.map(_(quoteIfNeeded(first))) match {
          case None =>
            rejected("STREAMJOIN_EVENT_TIME.SEVERAL", side, words, known :+ ("column" -> first): _*)
          case Some(choice) =>
            rejected("STREAMJOIN_EVENT_TIME.CHOICE", side, words, known :+ ("write" -> choice): _*)
        }
    }

  private def noStream(side: Side, words: Words) = rejected(words.ofBatch, side, words)

  private def rejected(condition: String, side: Side, words: Words, parameters: (String, String)*) =
    StreamJoinErrors.analysis(
      condition,
      parameters ++ Seq("call" -> words.call, "side" -> side.name, "where" -> words.where.getOrElse("")): _*
    )
}
