package org.apache.spark.sql.streamjoin

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.time.{Instant, LocalDate, LocalTime, ZoneOffset}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.api.python.PythonEvalType
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.streaming.runtime.{
  MemoryStream,
  MicroBatchExecution,
  StreamingQueryWrapper
}
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQuery, StreamingQueryProgress, Trigger}
import org.apache.spark.sql.streamjoin.analysis.{OptimizedQuery, PreparedQuery}
import org.apache.spark.sql.streamjoin.joins.interval.{IntervalJoinExec, IntervalJoinKind, StreamIntervalJoin}
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalKind
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.{AnalysisException, DataFrame, Dataset, Encoders, Row}
import org.apache.spark.util.{Clock, SystemClock}

/** Queries over streams in memory that wait until a test feeds them. */
private[streamjoin] trait JoinTest extends SparkTest { this: AnyFunSuite =>
  import JoinTest._

  protected val Hourly: String = "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"

  /** Lets queries name `python_function`. No worker runs it. */
  protected def createPythonFunction(of: DataType): Unit =
    spark.sessionState.functionRegistry.createOrReplaceTempFunction(
      "python_function",
      inputs => PythonUDF("f", null, of, inputs, PythonEvalType.SQL_BATCHED_UDF, udfDeterministic = true),
      "python_udf"
    )

  /**
   * Orders `o` and deliveries `d`, both `(id STRING, t TIMESTAMP, v INT)`, each with a watermark.
   */
  protected def hourly(how: String = "inner", condition: String = Hourly): Streams => DataFrame =
    streams => streams.marked("o").join(streams.marked("d"), expr(condition), how)

  /** The values of both sides. */
  protected def picked(how: String = "left_outer", condition: String = Hourly): Streams => DataFrame =
    hourly(how, condition)(_).selectExpr("o.v AS a", "d.v AS b")

  /** Three streams in two joins, the second within an hour of a time of the first. */
  protected def ofThree(how: String = "inner", time: String = "o.t"): Streams => DataFrame = streams =>
    hourly(how)(streams)
      .join(streams.marked("e"), expr(s"o.id = e.id AND e.t BETWEEN $time AND $time + INTERVAL 1 HOUR"))
      .selectExpr("o.v")

  /** One stream as `o` and as `d`, with aliases as the only difference. */
  protected val selves: Seq[Streams => (DataFrame, DataFrame)] = Seq(
    streams => {
      val events = streams.marked("o")
      (events, events.toDF("id", "t", "v").as("d"))
    },
    streams => (streams.marked("o"), streams.marked("o").selectExpr("id AS id", "t", "v + 0 AS v").as("d")),
    streams => {
      streams.marked("o").createOrReplaceTempView("events")
      spark.sql("CREATE OR REPLACE TEMP VIEW clicks AS SELECT id, t, v FROM events")
      (spark.table("clicks").as("o"), spark.table("clicks").where("v > 1").as("d"))
    }
  )

  /** A stream that may be idle for 30 seconds, with its name as alias. */
  protected def mayBeIdle(streams: Streams, name: String): DataFrame =
    Frames.idleAfter(streams.raw(name).withWatermark("t", "0 seconds"), "30 seconds").as(name)

  /** A query whose driver has this clock. */
  protected def clocked(clock: Clock)(query: Streams => DataFrame): Job = {
    val made = job(query)
    made.clock = clock
    made
  }

  protected def job(
      query: Streams => DataFrame = hourly(),
      schema: String = Events,
      checkpoint: String = newFolder(),
      mode: String = "append"
  ): Job = new Job(spark, checkpoint, mode, schema, query)

  /** Runs a job and stops it whatever happens. */
  protected def running[T](job: Job)(body: Job => T): T =
    try {
      job.start()
      body(job)
    } finally job.stop()

  /** `start()` throws before anything is written; returns the error. */
  protected def rejection(frame: DataFrame, mode: String = "append"): AnalysisException = {
    val checkpoint = newFolder()
    val before = spark.streams.active.length
    val rejected = intercept[AnalysisException] {
      frame.writeStream.outputMode(mode).option("checkpointLocation", checkpoint).format("noop").start()
    }
    assert(spark.streams.active.length == before)
    assert(Files.list(Path.of(checkpoint)).iterator().asScala.isEmpty, "start() wrote into the checkpoint")
    rejected
  }

  /** The joins of a query that streamjoin would run, not Spark. */
  protected def joins(frame: DataFrame): Seq[StreamIntervalJoin] = OptimizedQuery
    .nodes(
      PreparedQuery.of(frame.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed),
      spark
    )
    .collect { case join: StreamIntervalJoin => join }

  /** The streams of a job, each created on first use. */
  protected def newStreams(schema: String = Events): Streams = new Streams(spark, schema)
}

private[streamjoin] object JoinTest {
  private val Operators = Set(IntervalJoinKind.progressName, TemporalKind.progressName)

  val Events = "id STRING, t TIMESTAMP, v INT"

  private val Day = LocalDate.parse("2024-06-01")

  /** `10:05`, `10:05:00.000001`, or with a date `2024-10-27T10:05`; in UTC. */
  def at(time: String): Timestamp = {
    val local =
      if (time.contains("T")) java.time.LocalDateTime.parse(time) else LocalTime.parse(time).atDate(Day)
    Timestamp.from(local.toInstant(ZoneOffset.UTC))
  }

  def row(id: String, time: String, v: Int = 0): Row = Row(id, if (time == null) null else at(time), v)

  def o(id: String, time: String, v: Int = 0): (String, Row) = "o" -> row(id, time, v)
  def d(id: String, time: String, v: Int = 0): (String, Row) = "d" -> row(id, time, v)

  private def text(value: Any): String = value match {
    case null => "-"
    case time: Timestamp =>
      val local = time.toInstant.atZone(ZoneOffset.UTC).toLocalDateTime
      if (local.toLocalDate == Day) local.toLocalTime.toString else local.toString
    case row: Row => row.toSeq.map(text).mkString("(", " ", ")")
    case other => other.toString
  }

  /** Columns side by side, `-` for null, times of the day in UTC. */
  def text(row: Row): String = row.toSeq.map(text(_: Any)).mkString(" ")

  /**
   * Output without the closing rows, which are fed only to advance the watermarks. Each has one of
   * `marks` in a column.
   */
  def withoutClosingRows(rows: Iterable[String], marks: String*): Seq[String] =
    rows.filterNot(_.split(' ').exists(marks.contains)).toSeq

  /** Streams by name, all with one schema. */
  final class Streams(spark: org.apache.spark.sql.classic.SparkSession, schema: String) {
    private val fields = StructType.fromDDL(schema)
    private val byName = mutable.LinkedHashMap.empty[String, MemoryStream[Row]]

    def stream(name: String): MemoryStream[Row] =
      byName.getOrElseUpdate(name, MemoryStream[Row](Encoders.row(fields), spark))

    /** Without a watermark. */
    def raw(name: String): DataFrame = stream(name).toDF()

    /** With a watermark on `t` and its name as alias. */
    def marked(name: String, delay: String = "0 seconds"): DataFrame =
      raw(name).withWatermark("t", delay).as(name)
  }

  final case class Batch(id: Long, rows: Seq[String])

  /**
   * A streaming query that can be stopped and started. Each start creates new streams with all rows
   * fed so far, so that any batch can be replayed.
   */
  final class Job(
      spark: org.apache.spark.sql.classic.SparkSession,
      val checkpoint: String,
      mode: String,
      schema: String,
      query: Streams => DataFrame
  ) {
    private val fed = mutable.ArrayBuffer.empty[(String, Seq[Row])]
    private var streams: Streams = _
    private var running: Option[StreamingQuery] = None

    /** Every batch that the sink received, replayed ones too. */
    val seen: mutable.ArrayBuffer[Batch] = mutable.ArrayBuffer.empty[Batch]

    /** The order in which rows that were fed together are fed again after a restart. */
    var order: Seq[Row] => Seq[Row] = identity

    /** The clock of the driver; by default that of the machine. */
    var clock: Clock = new SystemClock

    /** How the sink reads a batch. */
    var sink: DataFrame => Seq[String] = _.collect().map(text(_: Row)).toSeq

    /** Batches that the sink has and skips, as Spark's file sink does. */
    var skipped: Set[Long] = Set.empty

    private var trigger: Trigger = Trigger.ProcessingTime(0)

    /** An availableNow run with these rows and whatever was left; returns the output. */
    def runOnce(rows: (String, Row)*): Seq[String] = {
      val before = seen.size
      rows.groupMap(_._1)(_._2).foreach { case (name, some) => fed += name -> some }
      trigger = Trigger.AvailableNow()
      try start().streaming.awaitTermination()
      finally stop()
      seen.drop(before).flatMap(_.rows).toSeq.sorted
    }

    /** Another query with the same rows and checkpoint. */
    def successor(query: Streams => DataFrame): Job = {
      val next = new Job(spark, checkpoint, mode, schema, query)
      next.fed ++= fed
      next
    }

    def start(): Job = {
      assert(running.isEmpty, "it is already running")
      streams = new Streams(spark, schema)
      fed.foreach { case (name, rows) => streams.stream(name).addData(order(rows)) }
      val frame = query(streams)
      val write = (batch: Dataset[Row], id: Long) => {
        val rows = sink(batch)
        seen.synchronized(seen += Batch(id, rows)): Unit
      }
      running = Some(
        // What writeStream.foreachBatch(...).start() does, with a clock.
        spark.streams.startQuery(
          None,
          userSpecifiedCheckpointLocation = Some(checkpoint),
          df = frame.asInstanceOf[ClassicDataset[Row]],
          extraOptions = Map.empty,
          sink = skipping(new ForeachBatchSink[Row](write, ExpressionEncoder(frame.schema))),
          outputMode = InternalOutputModes(mode),
          trigger = trigger,
          triggerClock = clock
        )
      )
      this
    }

    private def skipping(sink: Sink): Sink =
      if (skipped.isEmpty) sink
      else (batch: Long, rows: DataFrame) => if (!skipped(batch)) sink.addBatch(batch, rows)

    def stop(): Job = {
      running.foreach(_.stop())
      running = None
      this
    }

    def restart(): Job = stop().start()

    /** Runs the last batch again, as if it had not been committed; returns its number. */
    def redoLast(): Long = {
      val last = uncommit()
      start()
      settle()
      last
    }

    /** Stops, and deletes the commit of the last batch; returns its number. */
    def uncommit(): Long = {
      stop()
      SparkTest.forgetCommit(checkpoint)
    }

    def streaming: StreamingQuery = running.get

    def execution: MicroBatchExecution =
      streaming.asInstanceOf[StreamingQueryWrapper].streamingQuery.asInstanceOf[MicroBatchExecution]

    /** Feeds rows as one batch; returns the sorted output until the query waits for more. */
    def feed(rows: (String, Row)*): Seq[String] = batches(rows: _*).flatMap(_.rows).sorted

    /** The same, batch by batch. */
    def batches(rows: (String, Row)*): Seq[Batch] = {
      val before = seen.size
      execution.withProgressLocked {
        rows.groupMap(_._1)(_._2).foreach { case (name, some) =>
          fed += name -> some
          streams.stream(name).addData(some)
        }
      }
      streaming.processAllAvailable()
      seen.drop(before).toSeq
    }

    /** Waits until the query has nothing left to do; returns the output meanwhile. */
    def settle(): Seq[String] = feed()

    def plan: SparkPlan = execution.lastExecution.executedPlan

    def joins: Seq[IntervalJoinExec] = plan.collect { case join: IntervalJoinExec => join }

    /** The progress of the last batch. */
    def progress: StreamingQueryProgress =
      streaming.recentProgress.filter(_.batchId == seen.last.id).last

    def operator: StateOperatorProgress =
      progress.stateOperators.find(operator => Operators(operator.operatorName)).get

    def metric(name: String): Long = operator.customMetrics.asScala.get(name).fold(-1L)(_.longValue)

    /** Late rows of all batches. */
    def dropped: Long =
      streaming.recentProgress.flatMap(_.stateOperators).map(_.numRowsDroppedByWatermark).sum

    /** Rows in state, left and right. */
    def state: (Long, Long) = (metric("leftRowsInState"), metric("rightRowsInState"))

    /** The watermark that the last batch evicted by, `14:00` or `none`. */
    def watermark(side: String, column: String = "t"): String =
      operator.customMetrics.asScala
        .get(s"watermarkMs.$side.$column")
        .fold("none")(ms => text(Timestamp.from(Instant.ofEpochMilli(ms)): Any))
  }
}
