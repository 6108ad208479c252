package org.apache.spark.sql.streamjoin.upsert

import java.util.{Locale, Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.sources.{DataSourceRegister, StreamSinkProvider}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.streamjoin.arrangement.storage.BatchOffsets
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinErrors}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row, SQLContext, SparkSession}
import org.apache.spark.storage.StorageLevel

/** `writeStream.format("streamjoin-upsert")`: upserts changes into a target. */
final class UpsertProvider extends StreamSinkProvider with DataSourceRegister {
  override def shortName(): String = "streamjoin-upsert"

  override def createSink(
      context: SQLContext,
      parameters: Map[String, String],
      partitionColumns: Seq[String],
      mode: OutputMode
  ): Sink = {
    if (partitionColumns.nonEmpty)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_UPSERT.PARTITION_BY",
        "columns" -> partitionColumns.mkString(", ")
      )
    if (mode == InternalOutputModes.Complete)
      throw StreamJoinErrors.analysis("STREAMJOIN_UPSERT.COMPLETE_MODE")
    val options = UpsertOptions(parameters)
    val session = context.sparkSession
    new UpsertSink(options, UpsertSink.target(session, options))
  }
}

/**
 * Applies each batch to the target once.
 *
 * The rows of the batch are computed once and kept on the executors until they are written, because
 * several jobs read them: the changes may come from stateful operators, and keys are checked before
 * the first row is written.
 */
final private[streamjoin] class UpsertSink(options: UpsertOptions, target: UpsertTarget)
    extends Sink
    with ReportsSinkMetrics {
  @volatile private var last: Map[String, Long] = Map.empty

  /** The checkpoint's record of the target, and whether it still has to be written. */
  @volatile private var record = Option.empty[TargetRecord]
  @volatile private var isWritten = false

  /** Checks at `start()` whether the query, and this checkpoint, are valid. */
  def check(session: SparkSession, schema: StructType, checkpoint: String): Unit = {
    val none = noChanges(session, schema)
    target.check(none, checkpoint)
    record = Some(UpsertCheckpoint.of(session, new Path(checkpoint)).recordFor(target, none))
  }

  private def noChanges(session: SparkSession, schema: StructType): NetChanges =
    NetChanges.of(session.createDataFrame(java.util.List.of[Row](), schema), options)

  /** The first batch of a run records its target before it writes. */
  private def begin(session: SparkSession, schema: StructType): TargetRecord = {
    val root = checkpointOf(session)
    // A session without the extension does not call check.
    val known =
      record.getOrElse(UpsertCheckpoint.of(session, root).recordFor(target, noChanges(session, schema)))
    record = Some(known)
    if (!isWritten) {
      val log = new TargetLog(session, root)
      if (!log.get(0).contains(known)) log.write(known)
      isWritten = true
    }
    known
  }

  override def addBatch(number: Long, data: DataFrame): Unit = {
    val session = data.sparkSession.asInstanceOf[ClassicSession]
    val batch = batchOf(session, number)
    val micros = begin(session, data.schema).micros
    val rows = data.asInstanceOf[ClassicDataset[Row]].queryExecution.toRdd
    if (target.has(batch)) {
      // The operators below must still be bound to the batch: Spark commits their state and
      // watermarks.
      rows.foreachPartition((each: Iterator[InternalRow]) => each.foreach(_ => ()))
      last = Map("replayed" -> 1L)
    } else {
      // As for foreachBatch: the plan of a streaming query cannot be planned a second time.
      val plan = LogicalRDD.fromDataset(rows, data.asInstanceOf[ClassicDataset[Row]], isStreaming = false)
      val net = NetChanges.of(ClassicDataset.ofRows(session, plan), options)
      val kept = net.copy(rows = net.rows.persist(StorageLevel.MEMORY_AND_DISK), micros = micros)
      try write(kept, batch)
      finally kept.rows.unpersist()
    }
  }

  private def write(changes: NetChanges, batch: UpsertBatch): Unit = {
    val counts = changes.counts
    val names = changes.keyNames.mkString(", ")
    if (counts.hasNullDiff)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_UPSERT.DIFF_NULL",
        "batch" -> batch.number,
        "diff" -> options.diff
      )
    counts.double.foreach { key =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_UPSERT.TWO_ROWS",
        "batch" -> batch.number,
        "key" -> key,
        "columns" -> names
      )
    }
    target.write(changes, counts, batch)
    last = Map("upserts" -> counts.upserts, "deletes" -> counts.deletes, "replayed" -> 0L)
  }

  private def checkpointOf(session: SparkSession): Path = {
    val query = RunningQuery.current(session)
    assert(query.isDefined, "addBatch is called in the thread of a query")
    new Path(query.get.resolvedCheckpointRoot)
  }

  private def batchOf(session: SparkSession, number: Long): UpsertBatch = {
    val query = RunningQuery.current(session).map(_.id)
    assert(query.isDefined, "addBatch is called in the thread of a query")
    val planned = query.flatMap(BatchOffsets.of(session, _, number)).map(_.timeMs)
    assert(planned.isDefined, s"the offset log has batch $number before it runs")
    UpsertBatch(query.get, number, planned.get)
  }

  override def metrics(): JMap[String, String] =
    last.map { case (name, value) => name -> value.toString }.asJava

  override def toString: String = s"streamjoin-upsert ${UpsertSink.words(options)}"
}

private[streamjoin] object UpsertSink {
  def target(session: SparkSession, options: UpsertOptions): UpsertTarget = options.target match {
    case TargetKind.Table(name) => new CatalogTableTarget(session, name)
    case TargetKind.Jdbc(its) => new JdbcTarget(its)
    case TargetKind.Kafka(its) => new KafkaTarget(its)
  }

  /** The target of the rows, without options that may be secret. */
  private def words(options: UpsertOptions): String = {
    def of(its: Map[String, String], name: String) =
      its.collectFirst { case (key, value) if key.toLowerCase(Locale.ROOT) == name => value }.getOrElse("")
    val where = options.target match {
      case TargetKind.Table(name) => name
      case TargetKind.Jdbc(its) => s"jdbc ${of(its, "dbtable")}"
      case TargetKind.Kafka(its) => s"kafka ${of(its, "topic")}"
    }
    s"$where by ${options.keys.mkString("(", ", ", ")")}"
  }
}
