package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.{col, lit, when}
import org.apache.spark.sql.streamjoin.analysis.EventTimeOfInput
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.Side

/**
 * How a stream is the history of a table, as a user describes it. Debezium's envelope is known by
 * its columns `before` and `after`, structs with the columns of the key, and `op`.
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
 */
final case class VersionedInput(
    input: DataFrame,
    key: Seq[String] = Nil,
    time: Option[String] = None,
    op: Option[String] = None,
    order: Option[String] = None
) {
  import VersionedInput._

  private lazy val isEnvelope: Boolean = {
    val types = input.schema.fields.map(field => field.name -> field.dataType).toMap
    types.contains(Op) && Seq(Before, After).flatMap(types.get).count {
      case row: StructType => key.nonEmpty && key.forall(row.names.contains)
      case _ => false
    } == 2
  }

  def timeName: String = time.getOrElse {
    val plan = input.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed
    quoteIfNeeded(EventTimeOfInput.of(plan, Side.Right, Call, Advice).name)
  }

  /** @throws org.apache.spark.sql.AnalysisException if it has no event time, or several */
  def check(): Unit = timeName

  def opName: Option[String] = if (isEnvelope) op.orElse(Some(Op)) else op

  /** The rows of the table, each with its time, operation and order. */
  lazy val rows: DataFrame = if (isEnvelope) ofEnvelope else input

  /**
   * A row is `after`, or `before` where that is null. A tombstone, in which all three are null, has
   * no key: it is left out and counted.
   */
  private def ofEnvelope: DataFrame = {
    val kept = (timeName +: Op +: order.toSeq).distinct
    val columns = input.schema(After).dataType.asInstanceOf[StructType].names.toSeq
    val twice = kept.filter(columns.contains)
    if (twice.nonEmpty)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_WRONG_ARGUMENT",
        "call" -> Call,
        "wanted" -> "names outside before and after that no column of the table has",
        "found" -> twice.mkString("[", ", ", "]")
      )
    val (before, after) = (col(Before), col(After))
    val row =
      columns.map(name => when(after.isNull, before.getField(name)).otherwise(after.getField(name)).as(name))
    val isTombstone = after.isNull && before.isNull && col(Op).isNull
    val operation = when(isTombstone, lit("d")).otherwise(col(Op)).as(Op)
    input.select(row ++ kept.filter(_ != Op).map(col) :+ operation: _*)
  }
}

object VersionedInput {
  private val Call = "sj.versions"
  private val Before = "before"
  private val After = "after"
  private val Op = "op"

  private val Advice = EventTimeOfInput.Advice(
    "Read the changes of the table by spark.readStream.",
    call => s"Mark one before: $call.",
    first => s"Name the one that you mean: time=\"$first\"."
  )
}
