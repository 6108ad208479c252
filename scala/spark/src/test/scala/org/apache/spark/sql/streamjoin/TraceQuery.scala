package org.apache.spark.sql.streamjoin

import java.net.URI
import java.nio.file.{Files, Path}
import java.sql.Timestamp

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.scalatest.Assertions.intercept

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{
  MemoryStream,
  MicroBatchExecution,
  StreamingQueryWrapper
}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{
  DataStreamWriter,
  StateOperatorProgress,
  StreamingQuery,
  StreamingQueryException
}
import org.apache.spark.sql.streamjoin.joins.interval.IntervalJoinKind
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalKind
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Encoders, Row}

import streamjoin.core.{Conjunct, JoinWindows, Side, Term, Trace, TraceMatch, TraceRow}

/** What one batch did: its output as the lines of a trace, rows dropped as late, rows in state. */
final case class BatchSeen(
    id: Long,
    hasData: Boolean,
    output: Seq[String],
    late: Long,
    state: Map[Side, Long]
)

/**
 * The join of a trace as a streaming query over two streams in memory. Its rows lie so far behind
 * that they never move a watermark. Punctuation rows do, which a filter after `withWatermark`
 * removes.
 *
 * @param first
 *   the trace, until it is changed
 * @param firstDelay
 *   seconds that the watermark stays behind the newest time, until it is changed
 * @param keyed
 *   whether all rows get the same key, and reach one task, if the trace has no equality
 * @param origin
 *   the time 0 of the trace, in seconds since 1970
 * @param files
 *   folder of a file sink, instead of `foreachBatch`
 * @param keepsLabels
 *   whether all types keep the same columns, whatever the condition is
 * @param firstColumns
 *   the columns of its inputs, until they are changed
 */
final class TraceQuery(
    spark: SparkSession,
    first: Trace,
    checkpoint: String,
    firstDelay: Long = TraceQuery.Far,
    keyed: Boolean = true,
    origin: Long = TraceQuery.Origin,
    files: Option[String] = None,
    keepsLabels: Boolean = false,
    firstColumns: TraceQuery.Columns = TraceQuery.Columns()
) {
  import TraceQuery._

  private var trace = first
  private var delay = firstDelay
  private var columns = firstColumns

  private val needsKey = keyed && !hasEquality(trace)

  private val schema: Map[Side, StructType] = Side.both.map { side =>
    val columns = trace.columns(side).map { name =>
      val time = trace.isTime(streamjoin.core.Column(side, name))
      StructField(name, if (time) TimestampType else LongType)
    }
    side -> StructType(
      StructField("label", StringType) +: StructField("punct", BooleanType) +: StructField(
        "k",
        LongType
      ) +: columns
    )
  }.toMap

  private val streams: Map[Side, MemoryStream[Row]] =
    schema.transform((_, fields) => MemoryStream[Row](Encoders.row(fields), spark))

  private val outputs = mutable.Map.empty[Long, Seq[String]]
  private var query: Option[StreamingQuery] = None
  private var lastSeen = -1L

  trace.closest.flatMap(_.remembers).foreach { seconds =>
    spark.conf.set("spark.streamjoin.temporal.deletedKeysMaxAge", s"${seconds}s")
  }

  private def useLifetime(): Unit = if (trace.carried.nonEmpty) {
    val beyond = if (trace.lifetime.cuts) "cut" else if (trace.lifetime.max.isDefined) "fail" else "keep"
    spark.conf.set("spark.streamjoin.beyondMaxLifetime", beyond)
    trace.lifetime.max.foreach(seconds => spark.conf.set("spark.streamjoin.maxLifetime", s"${seconds}s"))
  }

  useLifetime()

  /** Starts a new run over the same checkpoint and streams. */
  def start(): Unit = {
    assert(query.isEmpty, "it is already running")
    lastSeen = outputs.keys.maxOption.getOrElse(-1L)
    query = Some(writer.option("checkpointLocation", checkpoint).start())
  }

  private def writer: DataStreamWriter[Row] = files.fold {
    val fails = this.fails
    joined.writeStream.foreachBatch { (batch: DataFrame, id: Long) =>
      val rows = batch.collect().map(_.getString(0)).toSeq
      if (fails) throw new IllegalStateException(TraceQuery.SinkFailed)
      outputs.synchronized { outputs(id) = rows }
    }
  }(joined.toDF("line").writeStream.format("text").option("path", _))

  private var fails = false

  /** A run whose sink fails with these rows. Their batch is planned, and its state is written. */
  def failing(rows: Seq[TraceRow]): Unit = {
    fails = true
    try {
      start()
      val error = intercept[StreamingQueryException](feed(rows.groupMap(_.side)(dataRow)))
      assert(SparkTest.messages(error).exists(_.contains(TraceQuery.SinkFailed)), error)
    } finally {
      fails = false
      stop()
    }
  }

  /** The next run is of another query over the same streams. */
  def change(to: Trace, newDelay: Long, newColumns: TraceQuery.Columns = TraceQuery.Columns()): Unit = {
    assert(query.isEmpty, "it is running")
    trace = to
    delay = newDelay
    columns = newColumns
    useLifetime()
  }

  /** The batches that run without more rows. */
  def more(): Seq[BatchSeen] = feed(Map.empty)

  private def readFiles(folder: String): Unit = {
    val log = Path.of(folder, "_spark_metadata")
    SparkTest.numbers(log).filterNot(outputs.contains).foreach { id =>
      val lines = Files.readString(log.resolve(id.toString)).linesIterator.toSeq
      val written =
        lines.flatMap(TraceQuery.Written.findFirstMatchIn(_)).map(found => Path.of(new URI(found.group(1))))
      outputs(id) = written.flatMap(Files.readAllLines(_).asScala)
    }
  }

  def stop(): Unit = {
    query.foreach(_.stop())
    query = None
  }

  /** Feeds the rows as one batch. */
  def rows(rows: Seq[TraceRow]): Seq[BatchSeen] = feed(rows.groupMap(_.side)(dataRow))

  /** Moves a watermark; it counts for eviction and for late rows when this returns. */
  def watermark(column: streamjoin.core.Column, value: Long): Seq[BatchSeen] = {
    val punctuation = Map(column.side -> Seq(punctuationRow(column, value)))
    val first = feed(punctuation)
    // Batch N sees the watermarks of the batches before it, and judges late rows by those of N - 1.
    if (first.size > 1) first else first ++ feed(punctuation)
  }

  private def feed(rows: Map[Side, Seq[Row]]): Seq[BatchSeen] = {
    execution.withProgressLocked {
      rows.foreach { case (side, some) => streams(side).addData(some) }
    }
    query.get.processAllAvailable()
    files.foreach(readFiles)
    val seen = query.get.recentProgress.toSeq
      .filter(progress => progress.batchId > lastSeen && outputs.contains(progress.batchId))
      // An idle trigger reports the batch it is waiting for, which then reports once more.
      .groupMapReduce(_.batchId)(identity)((_, later) => later)
      .values
      .toSeq
      .sortBy(_.batchId)
      .map { progress =>
        val state = progress.stateOperators.find(operator => operators.contains(operator.operatorName))
        val late = state.fold(0L)(_.numRowsDroppedByWatermark)
        BatchSeen(progress.batchId, progress.numInputRows > 0, outputs(progress.batchId), late, counts(state))
      }
    lastSeen = seen.lastOption.fold(lastSeen)(_.id)
    seen
  }

  private def counts(state: Option[StateOperatorProgress]): Map[Side, Long] = Side.both.map { side =>
    side -> state.flatMap(s => Option(s.customMetrics.get(s"${side.name}RowsInState"))).fold(-1L)(_.longValue)
  }.toMap

  private def execution: MicroBatchExecution = query
    .getOrElse(throw new IllegalStateException("the query is stopped"))
    .asInstanceOf[StreamingQueryWrapper]
    .streamingQuery
    .asInstanceOf[MicroBatchExecution]

  private def timestamp(time: Long): Timestamp = new Timestamp((origin + time) * 1000)

  private def dataRow(row: TraceRow): Row = cells(row.side) {
    case "label" => row.label
    case "punct" => false
    case "k" => 1L
    case name =>
      val value = row.values.getOrElse(name, None)
      (if (trace.isTime(streamjoin.core.Column(row.side, name))) value.map(timestamp) else value).orNull
  }

  private def punctuationRow(column: streamjoin.core.Column, value: Long): Row = cells(column.side) {
    case "punct" => true
    case column.name => timestamp(value + delay)
    case _ => null
  }

  private def cells(side: Side)(value: String => Any): Row =
    Row.fromSeq(schema(side).fieldNames.toSeq.map(value))

  def joined: DataFrame = {
    val added = Option.when(needsKey)("l.k = r.k") ++
      Option.when(keepsLabels)(s"${kept(Side.Left, "l")} <> ${kept(Side.Right, "r")}")
    val condition = (trace.on.map(sql) ++ added).mkString(" AND ")
    val join = input(Side.Left)
      .as("l")
      .join(
        input(Side.Right).as("r"),
        if (condition.isEmpty) lit(true) else expr(condition),
        trace.joinType.name
      )
    val made = (trace.windows, trace.closest) match {
      case (Some(windows), _) => Frames.windows(join, inMicros(windows))
      case (_, Some(closest)) => matched(join, closest)
      case _ => join
    }
    made.select(label)
  }

  /** A text that differs between the sides, of all columns that another query may need. */
  private def kept(side: Side, alias: String): String = {
    val carried = trace.carried.filter(_.side == side).map(column => s"CAST($alias.${column.name} AS STRING)")
    if (carried.isEmpty) s"$alias.label" else s"concat_ws(' ', $alias.label, ${carried.mkString(", ")})"
  }

  private def matched(join: DataFrame, closest: TraceMatch): DataFrame = {
    val (left, right) = (trace.times(Side.Left).head, trace.times(Side.Right).head)
    def seconds(number: Long) = s"$number seconds"
    val rule = closest.rule
    if (closest.delete.isDefined || rule.history > 0) {
      val keys = if (needsKey) Seq("k") else trace.equalities.map(_._2)
      val history = Option.when(rule.history > 0)(seconds(rule.history))
      Frames.temporal(join, keys, right, closest.delete.map(_ => "op"), left, history)
    } else {
      val (direction, tolerance) = (rule.direction.toString.toLowerCase, rule.tolerance.map(seconds))
      Frames.closest(join, left, right, direction, rule.allowsExact, tolerance)
    }
  }

  private def inMicros(windows: JoinWindows): JoinWindows =
    JoinWindows(windows.windows.transform((_, window) => window.copy(length = window.length * 1000000)))

  private def input(side: Side): DataFrame = {
    val stream = columns.of(side, streams(side).toDF())
    val marked =
      trace
        .times(side)
        .foldLeft(stream)(_.withWatermark(_, s"$delay seconds"))
        .where("not punct")
        .drop("punct")
    trace.closest.flatMap(_.delete).filter(_ => side == Side.Right).fold(marked) { gone =>
      // A delete without a time fails the query; a version without one is left out.
      val isDelete = col(gone) === 1 && col(trace.times(Side.Right).head).isNotNull
      marked.withColumn("op", when(isDelete, "delete").otherwise("insert"))
    }
  }

  private def label: Column = {
    def of(side: Side) = columns.label(side, if (side == Side.Left) "l" else "r")
    def or(side: Side) = coalesce(of(side), lit("-"))
    if (trace.joinType.filtered.isDefined) concat(lit("expect "), of(Side.Left))
    else concat(lit("expect "), or(Side.Left), lit("+"), or(Side.Right))
  }

  private def sql(conjunct: Conjunct): String = {
    val unit: Long => String =
      if (conjunct.columns.exists(trace.isTime)) n => s"INTERVAL $n SECONDS" else _.toString
    def of(term: Term): String = term.column.fold(term.offset.toString) { column =>
      val name = s"${if (column.side == Side.Left) "l" else "r"}.${column.name}"
      if (term.offset == 0) name
      else if (term.offset > 0) s"$name + ${unit(term.offset)}"
      else s"$name - ${unit(-term.offset)}"
    }
    s"${of(conjunct.left)} ${conjunct.operator} ${of(conjunct.right)}"
  }
}

object TraceQuery {

  /**
   * Columns of the inputs in addition to those of the trace.
   *
   * @param more
   *   the sides that have another column, which repeats the label of the row, or is null
   * @param narrow
   *   whether the numbers of the condition have the narrower type
   */
  final case class Columns(more: Set[Side] = Set.empty, narrow: Boolean = false) {
    private[TraceQuery] def of(side: Side, stream: DataFrame): DataFrame = {
      val wider = if (more(side)) stream.withColumn("more", col("label")) else stream
      if (narrow && stream.columns.contains("v")) wider.withColumn("v", col("v").cast("int")) else wider
    }

    private[TraceQuery] def label(side: Side, alias: String): Column = {
      val label = col(s"$alias.label")
      if (more(side)) when(col(s"$alias.more") =!= label, "wrong").otherwise(label) else label
    }

    override def toString: String =
      s"${more.map(_.name).mkString("more on the ", " and ", ", ")}${if (narrow) "narrow" else "wide"}"
  }

  def hasEquality(trace: Trace): Boolean = trace.equalities.nonEmpty

  private val operators = Set(IntervalJoinKind.progressName, TemporalKind.progressName)

  private val SinkFailed = "the sink has failed"
  private val Written = """"path":"([^"]+)"""".r

  /** In seconds, more than any bound. */
  val Far = 1000000L

  val Origin: Long = 3 * Far
}
