package org.apache.spark.sql.streamjoin.operator

import java.nio.file.Path

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.checkpoint.{Generation, OperatorLog}
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalTest
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.Side

/** Restarts with another number of partitions, or another state store, change no row. */
class ChangedPartitionsSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  private val rocksDb = "spark.sql.streaming.stateStore.providerClass" ->
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  private val format2 = "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"

  private val stores = Seq[(String, Seq[(String, String)])](
    "default store" -> Nil,
    "RocksDB" -> Seq(rocksDb),
    "RocksDB, format 2" -> Seq(rocksDb, format2)
  )

  private def windows(streams: Streams): DataFrame = Frames
    .windows(
      streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), "left_outer"),
      Map[Side, String](Side.Right -> "1 hour")
    )
    .selectExpr("o.v AS a", "d.v AS b")

  private def chain(streams: Streams): DataFrame = {
    val first = streams.marked("o").join(streams.marked("d"), expr(Hourly), "left_outer")
    first
      .selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b")
      .as("f")
      .join(
        streams.marked("e"),
        expr("f.b = e.v AND e.t BETWEEN f.t AND f.t + INTERVAL 2 HOURS"),
        "left_outer"
      )
      .selectExpr("a", "b", "e.v AS c")
  }

  private val queries = Seq[(String, Streams => DataFrame)](
    "full outer interval join" -> picked("full_outer"),
    "left semi interval join" -> (streams =>
      streams
        .marked("o")
        .join(streams.marked("d"), expr(Hourly), "left_semi")
        .selectExpr("o.v AS a", "o.v AS b")
    ),
    "left anti interval join" -> (streams =>
      streams
        .marked("o")
        .join(streams.marked("d"), expr(Hourly), "left_anti")
        .selectExpr("o.v AS a", "o.v AS b")
    ),
    "join without an equality" ->
      picked("inner", "d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"),
    "join with a carried bound" ->
      picked("left_outer", "o.id = d.id AND d.t >= o.t AND d.t <= o.t + (o.v % 50) * INTERVAL 1 MINUTE"),
    "join of one task" -> picked("full_outer", "d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"),
    "window join" -> windows,
    "temporal join" -> values(temporal(history = Some("1 hour"))),
    "as-of join" -> values(asof(tolerance = Some("30 minutes"))),
    "chain" -> chain
  )

  private val ids = Seq("a", "b", "c", "d", "e")

  /** Each batch is half an hour later than the one before. */
  private val story: Seq[Seq[(String, Row)]] = (0 until 8).map { batch =>
    def time(minute: Int) = {
      val all = 600 + 30 * batch + minute
      f"${all / 60}%02d:${all % 60}%02d"
    }
    ids.zipWithIndex.flatMap { case (id, at) =>
      val v = 10 * batch + at
      Seq(o(id, time(5 * at), v)) ++
        Option.when((batch + at) % 3 != 0)(d(id, time(4 * at), if ((batch + at) % 4 == 0) -v - 1 else v)) ++
        Option.when((batch + at) % 2 == 0)("e" -> row(id, time(3 * at), v))
    }
  } :+ Seq(o("end", "23:00", 999), d("past", "23:00", 999), "e" -> row("over", "23:00", 998))

  private def fed(job: Job, kind: String, rows: Seq[(String, Row)]): Seq[String] =
    job.feed(rows.filter { case (stream, _) => stream != "e" || kind == "chain" }: _*)

  private def operators(job: Job): Seq[StatefulNodeExec] =
    job.plan.collect { case exec: StatefulNodeExec => exec }

  private def partitionsOf(number: Int): (String, String) = StreamJoinConf.Partitions.key -> number.toString

  /** Restarts before each batch, each time with other settings; returns the output by batch. */
  private def restarted(job: Job, kind: String, settings: Seq[Seq[(String, String)]])(
      check: Int => Unit
  ): Seq[Seq[String]] = running(job) { job =>
    story.zip(settings).zipWithIndex.map { case ((rows, set), batch) =>
      withConf(set: _*) {
        job.restart()
        val out = fed(job, kind, rows)
        check(batch)
        out
      }
    }
  }

  private def uninterrupted(kind: String, query: Streams => DataFrame): Seq[Seq[String]] = {
    val rows = running(job(query))(job => story.map(fed(job, kind, _)))
    assert(rows.flatten.size > 4)
    rows
  }

  private val numbers = Seq(3, 4, 1, 5, 5, 2, 6, 3, 1)

  for {
    (name, settings) <- SparkTest.part(stores, every = 3)
    (kind, query) <- SparkTest.part(queries, every = 12, from = 6)
  } test(s"$kind, $name") {
    withConf(settings: _*) {
      val changed = job(query)
      val found = restarted(changed, kind, numbers.map(number => Seq(partitionsOf(number)))) { batch =>
        val wanted = kind match {
          case "join of one task" => 1
          case "join without an equality" => math.min(numbers(batch), 2)
          case _ => numbers(batch)
        }
        // Rows that are sent to all tasks: no more of them than can run at once, unless there were.
        if (kind == "join without an equality") assert(operators(changed).forall(_.numPartitions >= wanted))
        else assert(operators(changed).forall(_.numPartitions == wanted))
      }
      assert(found == uninterrupted(kind, query))
    }
  }

  private def providerOf(store: Int): Seq[(String, String)] = store match {
    case 0 => Seq(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> classOf[HDFSBackedStateStoreProvider].getName)
    case 1 => Seq(rocksDb)
    case 2 => Nil
  }

  for ((kind, query) <- SparkTest.part(queries, every = 10))
    test(s"another state store, $kind") {
      // Without the setting, the store stays. With another number of partitions, and alone.
      val order = Seq(0, 1, 2, 2, 0, 1, 0, 2, 1)
      val changed = job(query)
      val settings = order.zip(Seq(2, 2, 3, 3, 3, 4, 4, 4, 4)).map { case (store, number) =>
        partitionsOf(number) +: providerOf(store)
      }
      val found = restarted(changed, kind, settings) { batch =>
        val isRocksDb = Set(1, 2, 3, 5, 8)(batch)
        val isShown = changed.operator.customMetrics.containsKey("rocksdbPutCount")
        assert(isShown == isRocksDb, s"batch $batch: ${changed.operator.customMetrics}")
      }
      assert(found == uninterrupted(kind, query))
    }

  test("a state store with checkpoint format 2 cannot become the default store") {
    val changed = job(picked("full_outer"))
    running(changed) { job =>
      withConf(rocksDb, format2) {
        job.restart()
        fed(job, "", story.head)
      }
      withConf(format2 +: providerOf(0): _*) {
        job.restart()
        intercept[StreamingQueryException](fed(job, "", story(1)))
      }
      // Nothing is lost.
      withConf(rocksDb, format2) {
        job.restart()
        story.drop(2).foreach(fed(job, "", _))
      }
      val rows = job.seen.groupBy(_.id).values.flatMap(_.head.rows).toSeq.sorted
      assert(rows == uninterrupted("", picked("full_outer")).flatten.sorted)
    }
  }

  for ((name, settings) <- SparkTest.part(stores, every = 3))
    test(s"the batch that rewrites the state runs again, $name") {
      withConf(settings: _*) {
        val query = picked("full_outer")
        def set(number: Int)(body: => Any): Unit = withConf(partitionsOf(number))(body: Unit)
        running(job(query)) { job =>
          story.zipWithIndex.foreach { case (rows, batch) =>
            set(2 + batch % 3)(job.restart())
            fed(job, "", rows)
            // With another number, with the same one, without one.
            batch % 3 match {
              case 0 => set(2 + (batch + 2) % 3)(job.redoLast())
              case 1 => set(2 + batch % 3)(job.redoLast())
              case 2 => job.redoLast(): Unit
            }
          }
          val once = job.seen.groupBy(_.id).toSeq.sortBy(_._1).map(_._2)
          assert(once.forall(_.map(_.rows.sorted).distinct.size == 1))
          assert(once.flatMap(_.head.rows).sorted == uninterrupted("", query).flatten.sorted)
        }
      }
    }

  test("keys that are equal although their bytes differ") {
    // Zeros, not-a-numbers, texts of one collation: `key` is the key of each row.
    val keys = Seq("0.0", "-0.0", "NaN", "1.5")
    val texts = Seq("a", "A", "b", "B")
    def keyed(streams: Streams, name: String): DataFrame = streams
      .marked(name)
      .selectExpr(
        s"element_at(array(${keys.map(key => s"double('$key')").mkString(", ")}), v % 4 + 1) AS key",
        s"collate(element_at(array(${texts.map(text => s"'$text'").mkString(", ")}), v % 4 + 1), 'UTF8_LCASE') AS text",
        "t",
        "v"
      )
      .as(name)
    for (key <- SparkTest.part(Seq("key", "text"), every = 2)) {
      val query = (streams: Streams) =>
        keyed(streams, "o")
          .join(
            keyed(streams, "d"),
            expr(s"o.$key = d.$key AND d.t BETWEEN o.t - INTERVAL 1 HOUR AND o.t + INTERVAL 1 HOUR"),
            "full_outer"
          )
          .selectExpr("o.v AS a", "d.v AS b")
      val rows = story.map(_.collect {
        case (stream, Row(id: String, time, v: Int)) if stream != "e" => stream -> Row(id, time, math.abs(v))
      })
      val expected = running(job(query))(job => rows.map(batch => job.feed(batch: _*)))
      val found = running(job(query)) { job =>
        rows.zip(numbers).map { case (batch, number) =>
          withConf(partitionsOf(number)) {
            job.restart()
            job.feed(batch: _*)
          }
        }
      }
      assert(found == expected, key)
    }
  }

  test("states that no batch can start from any more are deleted") {
    withConf("spark.sql.streaming.minBatchesToRetain" -> "2") {
      val changed = job(picked("full_outer"))
      def rewritten =
        Option(Path.of(changed.checkpoint, Generation.Directory).toFile.list).fold(Seq.empty[String])(_.toSeq)
      restarted(changed, "", numbers.map(number => Seq(partitionsOf(number)))) { batch =>
        assert(rewritten.size <= 3, rewritten)
        val first = Path.of(changed.checkpoint, "state", OperatorLog.FirstId.toString)
        if (batch > 4) assert(SparkTest.numbers(first).isEmpty)
      }
      assert(rewritten.nonEmpty)
    }
  }
}
