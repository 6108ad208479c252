package org.apache.spark.sql.streamjoin.parity

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.annotation.nowarn
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.functions.{col, expr, window}
import org.apache.spark.sql.streaming.{DataStreamWriter, StreamingQuery, Trigger}
import org.apache.spark.sql.{DataFrame, ForeachWriter, Row}

import ParityCase.{Run, Sink, Write, frame, sql, sqls}

/** Sinks, triggers, Spark settings, state stores, restarts. */
private[streamjoin] object ParityRuns {
  import ParityPairs.Both

  private def inner(name: String) =
    frame(name)(in => in.o.join(in.d, expr(Both)).selectExpr("o.id", "o.v", "d.v AS w"))

  private def left(name: String) = frame(s"$name, left outer") { in =>
    in.o.where("t IS NOT NULL").join(in.d, expr(Both), "left_outer").selectExpr("o.id", "o.v", "d.v AS w")
  }.whole

  final private class Files(format: String, partitions: String*) extends Write {
    override def start(writer: DataStreamWriter[Row], sink: Sink): StreamingQuery = {
      val formatted = writer.format(format).option("path", sink.folder.resolve("rows").toString)
      (if (partitions.isEmpty) formatted else formatted.partitionBy(partitions: _*)).start()
    }
    override def finish(sink: Sink): Unit =
      sink.add(0, sink.session.read.format(format).load(sink.folder.resolve("rows").toString).collect().toSeq)
  }

  private object Memory extends Write {
    override def start(writer: DataStreamWriter[Row], sink: Sink): StreamingQuery =
      writer.format("memory").queryName("received").start()
    override def finish(sink: Sink): Unit = sink.add(0, sink.session.table("received").collect().toSeq)
  }

  /** The rows that the writers in tasks received, by the folder of the sink. */
  private val written = new ConcurrentHashMap[String, ConcurrentLinkedQueue[Row]]

  private object EachRow extends Write {
    override def start(writer: DataStreamWriter[Row], sink: Sink): StreamingQuery = {
      val name = sink.folder.toString
      written.put(name, new ConcurrentLinkedQueue[Row])
      writer
        .foreach(new ForeachWriter[Row] {
          override def open(partition: Long, batch: Long): Boolean = true
          override def process(row: Row): Unit = { written.get(name).add(row); () }
          override def close(error: Throwable): Unit = ()
        })
        .start()
    }
    override def finish(sink: Sink): Unit = sink.add(0, written.remove(sink.folder.toString).asScala.toSeq)
  }

  private val twice: Write = (writer, sink) =>
    writer
      .foreachBatch { (batch: DataFrame, id: Long) =>
        batch.persist()
        batch.createOrReplaceTempView("batch")
        val counts = batch.sparkSession.sql("SELECT id, count(*) AS n FROM batch GROUP BY id")
        sink.add(id, batch.join(counts, "id").collect().toSeq)
        batch.unpersist()
        ()
      }
      .start()

  private val unseen: Write = (writer, sink) =>
    writer
      .foreachBatch { (batch: DataFrame, id: Long) =>
        // Counts rows without reading their columns; the first batch runs twice.
        if (id == 0) batch.count()
        sink.add(id, batch.groupBy().count().where("count > 0").collect().toSeq)
      }
      .start()

  private object Table extends Write {
    override def start(writer: DataStreamWriter[Row], sink: Sink): StreamingQuery =
      writer.format("parquet").option("path", sink.folder.resolve("rows").toString).toTable("received")
    override def finish(sink: Sink): Unit = sink.add(0, sink.session.table("received").collect().toSeq)
  }

  /** Fails in its second batch after taking its rows; the next run takes them again. */
  private def failing: Write = {
    val failed = ConcurrentHashMap.newKeySet[String]()
    (writer, sink) =>
      writer
        .foreachBatch { (batch: DataFrame, id: Long) =>
          val rows = batch.collect().toSeq
          if (id == 1 && failed.add(sink.folder.toString)) sys.error("on purpose")
          sink.add(id, rows)
        }
        .start()
  }

  private val sinks = Seq(
    inner("a table as sink").copy(write = Table, byBatch = false),
    inner("the memory sink").copy(write = Memory, byBatch = false),
    left("the parquet sink").copy(write = new Files("parquet")),
    inner("the parquet sink, partitioned").copy(write = new Files("parquet", "id"), byBatch = false),
    inner("foreach").copy(write = EachRow, byBatch = false),
    inner("foreachBatch that joins").copy(write = twice),
    inner("foreachBatch that counts").copy(write = unseen),
    inner("the memory sink in update mode").copy(write = Memory, byBatch = false).update
  )

  @nowarn("cat=deprecation")
  private val triggers = Seq(
    inner("available now").copy(trigger = Some(Trigger.AvailableNow())),
    left("available now").copy(trigger = Some(Trigger.AvailableNow())),
    inner("once").copy(trigger = Some(Trigger.Once())),
    inner("processing time").copy(trigger = Some(Trigger.ProcessingTime(0))),
    inner("available now, in several runs").restarted()().copy(trigger = Some(Trigger.AvailableNow())),
    left("available now, in several runs").restarted()().copy(trigger = Some(Trigger.AvailableNow()))
  )

  private val RocksDb = "spark.sql.streaming.stateStore.providerClass" ->
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  private val Changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"

  private val settings = Seq(
    left("RocksDB").set(RocksDb),
    inner("RocksDB with changelogs").set(RocksDb, Changelog),
    left("RocksDB, restarted").restarted(RocksDb, Changelog)(RocksDb, Changelog),
    inner("RocksDB, second checkpoint format")
      .set(RocksDb, Changelog, "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"),
    inner("join state format 3").set(RocksDb, "spark.sql.streaming.join.stateFormatVersion" -> "3"),
    inner("compressed state").set("spark.sql.streaming.stateStore.compression.codec" -> "zstd"),
    inner("code generation off").set("spark.sql.codegen.factoryMode" -> "NO_CODEGEN"),
    inner("other planner settings").set(
      "spark.sql.adaptive.enabled" -> "true",
      "spark.sql.codegen.wholeStage" -> "true",
      "spark.sql.shuffle.partitions" -> "5",
      "spark.sql.autoBroadcastJoinThreshold" -> "-1",
      "spark.sql.cbo.enabled" -> "true",
      "spark.sql.cbo.joinReorder.enabled" -> "true",
      "spark.sql.crossJoin.enabled" -> "false",
      "spark.sql.datetime.java8API.enabled" -> "true",
      "spark.sql.streaming.unsupportedOperationCheck" -> "false"
    ),
    left("a number of tasks of its own").set("spark.streamjoin.partitions" -> "3"),
    frame("a number of tasks of its own, dropDuplicates above") { in =>
      in.o.join(in.d, expr(Both)).selectExpr("o.id", "o.t").dropDuplicates("id", "t")
    }.set("spark.streamjoin.partitions" -> "3").whole,
    inner("no-data batches switched off").set("spark.sql.streaming.noDataMicroBatches.enabled" -> "false"),
    inner("allowMultiple=false").set("spark.sql.streaming.statefulOperator.allowMultiple" -> "false"),
    frame("allowMultiple=false, dropDuplicates above") { in =>
      in.o.join(in.d, expr(Both)).selectExpr("o.id", "o.t").dropDuplicates("id", "t")
    }.set("spark.sql.streaming.statefulOperator.allowMultiple" -> "false").whole,
    inner("without some optimizer rules").set(
      "spark.sql.optimizer.excludedRules" -> Seq(
        "ColumnPruning",
        "PushPredicateThroughNonJoin",
        "PushPredicateThroughJoin",
        "ConstantFolding"
      )
        .map("org.apache.spark.sql.catalyst.optimizer." + _)
        .mkString(",")
    ),
    sql("legacy intervals")(s"SELECT o.id, o.v, d.v AS w FROM o JOIN d ON $Both")
      .set("spark.sql.legacy.interval.enabled" -> "true"),
    left("enabled=false").set("spark.streamjoin.enabled" -> "false").sparks,
    inner("enabled=false, in update mode").set("spark.streamjoin.enabled" -> "false").sparks.update
  )

  private def changed(name: String)(query: (ParityInputs, DataFrame) => DataFrame) = frame(name) { in =>
    query(in, in.o.join(in.d, expr(Both)).selectExpr("o.id", "o.t", "o.v", "d.v AS w"))
  }.restarted()()

  private val restarts = sqls(
    "stopped in the middle, left semi" -> s"SELECT * FROM o LEFT SEMI JOIN d ON $Both",
    "now() in the condition, stopped in the middle" ->
      s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND greatest(o.t, d.t) < now()",
    "now() in WHERE, stopped in the middle" ->
      s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both WHERE o.t < now() AND greatest(o.t, d.t) < current_timestamp()",
    "current_date() in an equality, stopped in the middle" ->
      s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both WHERE datediff(current_date(), o.t) = datediff(current_date(), d.t)",
    "now() in an equality, stopped in the middle" ->
      s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND datediff(now(), o.t) = datediff(now(), d.t)",
    "current_date() below, stopped in the middle" ->
      s"SELECT o.v, d.v AS w FROM (SELECT *, current_date() AS today FROM o) o JOIN d ON $Both AND o.today > DATE'2020-01-01'",
    "bounds on seconds, stopped in the middle" ->
      "SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id AND CAST(d.t AS BIGINT) BETWEEN CAST(o.t AS BIGINT) - 300 AND CAST(o.t AS BIGINT) + 1200"
  ).map(_.restarted()()) ++ Seq(
    inner("stopped in the middle").restarted()(),
    frame("stopped in the middle, full outer") { in =>
      val (o, d) =
        (in.o.where("id IS NOT NULL AND t IS NOT NULL"), in.d.where("id IS NOT NULL AND t IS NOT NULL"))
      o.join(d, expr(Both), "full_outer").selectExpr("o.id", "o.v", "d.id AS i", "d.v AS w")
    }.whole.restarted()(),
    inner("stopped twice").copy(runs = Seq(Run(1), Run(2), Run())),
    inner("a sink that fails").copy(write = failing, runs = Seq(Run(fails = true), Run())),
    left("a sink that fails").copy(write = failing, runs = Seq(Run(fails = true), Run())),
    left("few batches retained, restarted").restarted("spark.sql.streaming.minBatchesToRetain" -> "1")(
      "spark.sql.streaming.minBatchesToRetain" -> "1"
    ),
    inner("more shuffle partitions after the restart").restarted("spark.sql.shuffle.partitions" -> "2")(
      "spark.sql.shuffle.partitions" -> "3"
    ),
    left("fewer shuffle partitions after the restart").restarted("spark.sql.shuffle.partitions" -> "3")(
      "spark.sql.shuffle.partitions" -> "1"
    ),
    frame("a number of tasks of its own, counts above, stopped in the middle") { in =>
      in.o.join(in.d, expr(Both)).selectExpr("o.t", "d.v").groupBy(window(col("t"), "10 minutes")).count()
    }.whole.restarted("spark.streamjoin.partitions" -> "3")("spark.streamjoin.partitions" -> "1"),
    left("RocksDB only after the restart").restarted()(RocksDb),
    left("RocksDB only before the restart").restarted(RocksDb)(),
    inner("other settings after the restart").restarted()(
      "spark.sql.session.timeZone" -> "America/New_York",
      "spark.sql.ansi.enabled" -> "false",
      "spark.sql.caseSensitive" -> "true",
      "spark.streamjoin.lateRows" -> "keep"
    ),
    inner("policy max after the restart").restarted()("spark.sql.streaming.multipleWatermarkPolicy" -> "max"),
    left("code generation after the restart").restarted()("spark.sql.codegen.wholeStage" -> "true"),
    left("little memory after the restart").restarted()("spark.streamjoin.indexMemory" -> "1k"),
    inner("unbounded=spark after the restart").restarted()("spark.streamjoin.unbounded" -> "spark"),
    inner("unbounded=spark before the restart").restarted("spark.streamjoin.unbounded" -> "spark")(),
    changed("a filter above, added later")((in, pairs) => if (in.run == 0) pairs else pairs.where("w > 1")),
    frame("a filter below, added later")(in =>
      (if (in.run == 0) in.o else in.o.where("v > 1")).join(in.d, expr(Both)).select("o.v", "d.v")
    ).restarted()(),
    changed("a computed column above, added later")((in, pairs) =>
      if (in.run == 0) pairs.selectExpr("id", "t", "v", "w")
      else pairs.selectExpr("id", "t", "v", "w", "v + w AS x")
    ),
    frame("other delays after the restart") { in =>
      val delay = if (in.run == 0) "10 minutes" else "20 minutes"
      in.marked("o", delay).join(in.marked("d", delay), expr(Both)).select("o.v", "d.v")
    }.restarted()(),
    frame("other aliases after the restart") { in =>
      val (o, d) = if (in.run == 0) ("o", "d") else ("orders", "deliveries")
      val condition =
        s"$o.id = $d.id AND $d.t BETWEEN $o.t - INTERVAL 5 MINUTES AND $o.t + INTERVAL 20 MINUTES"
      in.marked("o").as(o).join(in.marked("d").as(d), expr(condition)).select(s"$o.v", s"$d.v")
    }.restarted()(),
    changed("a table above, added later") { (in, pairs) =>
      if (in.run == 0) pairs.selectExpr("*", "'' AS name") else pairs.join(in.names, "id")
    },
    sql("a view joined with itself, stopped in the middle")(
      "CREATE TEMP VIEW clicks AS SELECT id, t, v FROM o",
      "SELECT a.v, b.v AS w FROM clicks a JOIN clicks b ON a.id = b.id AND b.t > a.t AND b.t <= a.t + INTERVAL 10 MINUTES"
    ).restarted()(),
    sql("now() in a left join, stopped in the middle")(
      s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON $Both AND greatest(o.t, d.t) < now() WHERE o.t IS NOT NULL"
    ).whole.restarted()(),
    frame("counts above, stopped in the middle") { in =>
      in.o.join(in.d, expr(Both)).selectExpr("o.t", "d.v").groupBy(window(col("t"), "10 minutes")).count()
    }.whole.restarted()(),
    frame("parquet, stopped in the middle")(in =>
      in.o.join(in.d, expr(Both)).selectExpr("o.id", "o.v", "d.v AS w")
    )
      .copy(write = new Files("parquet"), byBatch = false)
      .restarted()(),
    sql("rejected, stopped in the middle")("SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id")
      .rejected("STREAMJOIN_UNBOUNDED")
      .restarted()(),
    inner("in update mode, stopped in the middle").update.restarted()()
  )

  /** A literal read in the session's time zone is another instant in the next run. */
  private val zones = {
    val zone = "spark.sql.session.timeZone"
    Seq(
      "greatest(o.t, d.t) > TIMESTAMP '2024-06-01 10:10:00'",
      "greatest(o.t, d.t) > '2024-06-01 10:10:00'",
      "greatest(o.t, d.t) > DATE '2024-06-01'",
      "greatest(o.t, d.t) BETWEEN '2024-06-01 06:00:00' AND '2024-06-01 10:20:00'",
      "greatest(o.t, d.t) > TIMESTAMP '2024-06-01 04:00:00' AND greatest(o.t, d.t) < TIMESTAMP '2024-06-01 10:20:00Z'"
    ).map { condition =>
      sql(s"another time zone after the restart, $condition")(
        s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND $condition"
      )
        .restarted(zone -> "UTC")(zone -> "America/New_York")
        .copy(mayBeEmpty = true)
    } :+ sql("another time zone after the restart, left outer")(
      s"SELECT o.v, d.v AS w FROM o LEFT JOIN d ON $Both AND o.t > TIMESTAMP '2024-06-01 06:10:00' WHERE o.t IS NOT NULL"
    ).whole.restarted(zone -> "Europe/Berlin")(zone -> "America/New_York")
  }

  val cases: Seq[ParityCase] = sinks ++ triggers ++ settings ++ restarts ++ zones
}
