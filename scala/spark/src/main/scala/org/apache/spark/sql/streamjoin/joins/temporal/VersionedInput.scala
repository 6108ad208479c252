package org.apache.spark.sql.streamjoin.joins.temporal

import scala.util.Try

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, GetStructField}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.EventTimeOfInput
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.changes.{Changelog, Unavailable}
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.types.StringType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.Side

/**
 * The user's description of a stream as the history of a table; [[Changelog]] reads it.
 *
 * @param input
 *   the stream, with a watermark
 * @param key
 *   columns that identify a row of the table
 * @param time
 *   column with the time from which a version is valid; without it, the one with a watermark
 * @param op
 *   column that says whether a row is a version or deletes its key; `op` in an envelope
 * @param order
 *   column that breaks ties
 * @param unavailable
 *   stands for a value that was not sent
 * @param words
 *   the wording of errors: for Python or for SQL
 */
final case class VersionedInput(
    input: DataFrame,
    key: Seq[String] = Nil,
    time: Option[String] = None,
    op: Option[String] = None,
    order: Option[String] = None,
    unavailable: Option[String] = Some(Unavailable.Default),
    private[temporal] val words: EventTimeOfInput.Words = VersionedInput.OfApi
) {
  import VersionedInput._
  import words.call

  private def plan: LogicalPlan = input.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed

  private lazy val givenTime: String = time match {
    case Some(name) => markedFrom(name).fold(name)(column => quoteIfNeeded(column.name))
    case None => quoteIfNeeded(EventTimeOfInput.of(plan, Side.Right, words).name)
  }

  /**
   * Spark converts a field with a watermark to a column: `WATERMARK payload.since DELAY OF ...`.
   */
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

  /** The input with the operation of an envelope. */
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
      throw rejected(name, "STREAMJOIN_COLUMN.KEY_OF_ENVELOPE", "name" -> own)
    }
    if (log.isTimeOfTable)
      throw rejected(givenTime, "STREAMJOIN_COLUMN.TIME_OF_TABLE")
    log.operationOfEnvelope.filterNot(_.dataType.isInstanceOf[StringType]).foreach { column =>
      throw rejected(column.name, "STREAMJOIN_COLUMN.OPERATION_TYPE", "type" -> column.dataType.sql)
    }
  }

  private def rejected(column: String, condition: String, parameters: (String, String)*) =
    StreamJoinErrors.analysis(condition, parameters ++ Seq("call" -> call, "column" -> column): _*)

  /** The changes of the table, each with its time, operation and order. */
  lazy val rows: DataFrame = {
    check()
    log.frame
  }
}

object VersionedInput {
  private val Op = "op"

  private[temporal] val OfApi =
    EventTimeOfInput.Words(
      "sj.versions",
      "STREAMJOIN_NOT_A_STREAM.VERSIONS",
      Some(first => s"time=\"$first\"")
    )

  private[temporal] val OfSql = EventTimeOfInput.Words(
    "VERSIONS",
    "STREAMJOIN_NOT_A_STREAM.VERSIONS",
    Some(first => s"TIME($first)"),
    inSql = true
  )
}
