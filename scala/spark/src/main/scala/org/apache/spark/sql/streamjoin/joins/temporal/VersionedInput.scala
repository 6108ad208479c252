package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.EventTimeOfInput
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.changes.{Changelog, Unavailable}
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
 */
final case class VersionedInput(
    input: DataFrame,
    key: Seq[String] = Nil,
    time: Option[String] = None,
    op: Option[String] = None,
    order: Option[String] = None,
    unavailable: Option[String] = Some(Unavailable.Default)
) {
  import VersionedInput._

  private lazy val givenTime: String = time.getOrElse {
    val plan = input.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed
    quoteIfNeeded(EventTimeOfInput.of(plan, Side.Right, Call, Advice).name)
  }

  private lazy val log: Changelog = {
    val named = op.orElse(input.columns.find(SQLConf.get.resolver(_, Op)))
    val envelope = Changelog(input, key, named, Some(givenTime), order, unavailable, Call)
    if (envelope.isEnvelope || op == named) envelope else envelope.copy(op = op)
  }

  private def nameIn(name: Option[String], unknown: Option[String]): Option[String] =
    name.map(quoteIfNeeded).orElse(unknown)

  def timeName: String = nameIn(log.timeName, Some(givenTime)).get

  def opName: Option[String] = nameIn(log.opName, log.op)

  def orderName: Option[String] = nameIn(log.orderName, order)

  /** @throws org.apache.spark.sql.AnalysisException if it has no event time, or several */
  def check(): Unit =
    if (log.isTimeOfTable)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_COLUMN",
        "call" -> Call,
        "column" -> givenTime,
        "reason" -> "it is a column of the table, and a delete has no new row to take it from",
        "advice" -> TimeOfChange
      )

  /** The changes of the table, each with its time, operation and order. */
  lazy val rows: DataFrame = {
    check()
    log.frame
  }
}

object VersionedInput {
  private val Call = "sj.versions"
  private val Op = "op"

  /** What to name as the time of a change. */
  private[temporal] val TimeOfChange: String =
    "Name the time of the change: of Debezium's envelope timestamp_millis(ts_ms) or " +
      "timestamp_millis(source.ts_ms), of a flat log a column such as _commit_timestamp."

  private val Advice = EventTimeOfInput.Advice(
    "Read the changes of the table by spark.readStream.",
    call => s"Mark one before: $call.",
    first => s"Name the one that you mean: time=\"$first\"."
  )
}
