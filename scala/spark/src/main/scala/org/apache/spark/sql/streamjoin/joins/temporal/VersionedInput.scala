package org.apache.spark.sql.streamjoin.joins.temporal

import scala.util.Try

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, GetStructField}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.EventTimeOfInput
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, Wording}
import org.apache.spark.sql.streamjoin.changes.{Changelog, Unavailable}
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.Side

/**
 * How a stream is the history of a table, as a user describes it; [[Changelog]] says what is read.
 *
 * @param input
 *   the stream, with a watermark
 * @param key
 *   columns that identify a row of the table
 * @param time
 *   column with the time from which a version is valid; without it, the one with a watermark
 * @param op
 *   column that says whether a row is a version or deletes its key; in an envelope `op`
 * @param order
 *   column that breaks ties
 * @param unavailable
 *   stands for a value that was not sent
 * @param words
 *   for errors: Python's, or those of SQL
 */
final case class VersionedInput(
    input: DataFrame,
    key: Seq[String] = Nil,
    time: Option[String] = None,
    op: Option[String] = None,
    order: Option[String] = None,
    unavailable: Option[String] = Some(Unavailable.Default),
    private[temporal] val words: VersionedInput.Words = VersionedInput.OfApi
) {
  import VersionedInput._
  import words.call

  private def plan: LogicalPlan = input.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed

  private lazy val givenTime: String = time match {
    case Some(name) => markedFrom(name).fold(name)(column => quoteIfNeeded(column.name))
    case None => quoteIfNeeded(EventTimeOfInput.of(plan, Side.Right, call, words.advice).name)
  }

  /** Spark makes a column of a field with a watermark: `WATERMARK payload.since DELAY OF ...`. */
  private def markedFrom(name: String): Option[Attribute] = {
    val lineage = new ColumnLineage(plan)
    Try(plan.resolve(UnresolvedAttribute.parseAttributeName(name), SQLConf.get.resolver)).toOption.flatten
      .collect { case Alias(field: GetStructField, _) => lineage.of(field) }
      .flatMap { levels =>
        EventTime.of(plan.output).find { column =>
          lineage.of(column).exists(from => levels.exists(_.semanticEquals(from)))
        }
      }
  }

  /** As it would be with the operation of an envelope. */
  private lazy val envelope: Changelog = {
    val named = op.orElse(input.columns.find(SQLConf.get.resolver(_, Op)))
    Changelog(input, key, named, Some(givenTime), order, unavailable, call)
  }

  private lazy val log: Changelog =
    if (envelope.isEnvelope || op == envelope.op) envelope else envelope.copy(op = op)

  private def nameIn(name: Option[String], unknown: Option[String]): Option[String] =
    name.map(quoteIfNeeded).orElse(unknown)

  def timeName: String = nameIn(log.timeName, Some(givenTime)).get

  def opName: Option[String] = nameIn(log.opName, log.op)

  def orderName: Option[String] = nameIn(log.orderName, order)

  /** @throws org.apache.spark.sql.AnalysisException if it has no event time, or several */
  def check(): Unit = {
    envelope.keyOfFields.foreach { case (name, own) =>
      throw refused(name, "the key of an envelope is one of its table", s"Name it as the table does: $own.")
    }
    if (log.isTimeOfTable)
      throw refused(
        givenTime,
        "it is a column of the table, and a delete has no new row to take it from",
        Operations.TimeOfChange
      )
  }

  private def refused(column: String, reason: String, advice: String) = StreamJoinErrors.analysis(
    "STREAMJOIN_COLUMN",
    "call" -> call,
    "column" -> column,
    "reason" -> reason,
    "advice" -> advice
  )

  /** The changes of the table, each with its time, operation and order. */
  lazy val rows: DataFrame = {
    check()
    log.frame
  }
}

object VersionedInput {
  private val Op = "op"

  /**
   * How the user is told what is wrong.
   *
   * @param call
   *   what the user called
   */
  final private[temporal] case class Words(call: String, advice: EventTimeOfInput.Advice)

  private[temporal] val OfApi = Words(
    "sj.versions",
    EventTimeOfInput.Advice(
      "Read the changes of the table by spark.readStream.",
      call => s"Mark one before: $call.",
      first => s"Name the one that you mean: time=\"$first\"."
    )
  )

  private[temporal] val OfSql = Words(
    "VERSIONS",
    EventTimeOfInput.Advice(
      "Read the changes of the table by STREAM.",
      _ => s"Mark one, for example ${Wording.mark("prices", "since", inSql = true)}.",
      first => s"Name the one that you mean: TIME($first)."
    )
  )
}
