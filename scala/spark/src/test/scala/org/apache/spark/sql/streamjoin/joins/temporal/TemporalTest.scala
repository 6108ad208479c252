package org.apache.spark.sql.streamjoin.joins.temporal

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{CheckpointTest, Frames, JoinTest}

/**
 * Facts `o` and versions `d`, both `(id STRING, t TIMESTAMP, v INT)`. A version with a negative `v`
 * deletes its key.
 */
private[streamjoin] trait TemporalTest extends CheckpointTest { this: AnyFunSuite =>
  import JoinTest._

  protected val Operation = "CASE WHEN v < 0 THEN 'delete' ELSE 'insert' END"

  protected def versions(input: DataFrame, operation: String = Operation): DataFrame =
    input.withColumn("op", expr(operation)).as("d")

  protected def temporal(
      how: String = "left_outer",
      on: String = "o.id = d.id",
      history: Option[String] = None,
      operation: String = Operation,
      facts: Streams => DataFrame = _.marked("o"),
      changes: Streams => DataFrame = _.marked("d"),
      ordered: Boolean = true
  ): Streams => DataFrame = streams =>
    Frames.temporal(
      facts(streams).join(versions(changes(streams), operation), expr(on), how),
      op = Some("op"),
      history = history,
      ordered = ordered
    )

  protected def asof(
      how: String = "left_outer",
      on: String = "o.id = d.id",
      condition: String = "o.t >= d.t",
      tolerance: Option[String] = None
  ): Streams => DataFrame = streams =>
    Frames.asof(streams.marked("o").join(streams.marked("d"), expr(on), how), expr(condition), tolerance)

  protected def values(query: Streams => DataFrame): Streams => DataFrame =
    query(_).selectExpr("o.v AS a", "d.v AS b")

  /** A row past all others on each side, each under a key of its own. */
  protected def end(time: String): Seq[(String, org.apache.spark.sql.Row)] =
    Seq(o("end", time, 999), d("past", time, 999))

  /** Output without the rows of [[end]]. */
  protected def withoutEnd(rows: Iterable[String]): Seq[String] = withoutClosingRows(rows, "999")

  /** All output, sorted, once both watermarks are past all rows so far. */
  protected def ended(job: Job, times: String*): Seq[String] = {
    (if (times.isEmpty) Seq("11:00", "11:01") else times).foreach(time => job.feed(end(time): _*))
    withoutEnd(job.seen.flatMap(_.rows)).sorted
  }
}
