package org.apache.spark.sql.streamjoin.changes

import java.util.concurrent.ConcurrentLinkedQueue

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.{Configurator, Property}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.{Level, LogManager}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, expr, from_json}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.streamjoin.JoinTest.{at, text}
import org.apache.spark.sql.streamjoin.joins.temporal.StreamAsOfJoin
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.StreamJoin

/** What becomes of messages in a join with versions, other than the rows of [[ChangeCases]]. */
class ChangesInVersionsSuite extends AnyFunSuite with ArrangementTest {
  import ChangeCases.NotSent

  private val Position = "partition INT, offset LONG"
  private val Envelope =
    "before STRUCT<id: INT, v: STRING NOT NULL>, after STRUCT<id: INT, v: STRING NOT NULL>, " +
      "op STRING, at TIMESTAMP"

  private def ofTopic(df: DataFrame): DataFrame = ChangeCases.ofKafka(df).drop("partition", "offset")

  /** A stream of facts, a changelog, and the output of their join. */
  final private class Joined(schema: String, on: String = "fact = id") {
    private val facts = memory("fact INT, t TIMESTAMP")
    private val changes: MemoryStream[Row] = memory(schema)
    private val checkpoint = newFolder()
    private val seen = mutable.ArrayBuffer.empty[String]
    private var query: StreamingQuery = _

    def during[T](log: DataFrame => DataFrame)(body: StreamingQuery => T): T = {
      val table = log(changes.toDF()).withWatermark("at", "0 seconds")
      query = StreamJoin
        .temporal(
          facts.toDF().withWatermark("t", "0 seconds"),
          StreamJoin.versions(table).key("id").time("at").op("op")
        )
        .on(expr(on))
        .joinType("left")
        .toDF()
        .select("fact", "v")
        .writeStream
        .foreachBatch((df: DataFrame, _: Long) => seen.synchronized(seen ++= df.collect().map(text)): Unit)
        .option("checkpointLocation", checkpoint)
        .start()
      try body(query)
      finally query.stop()
    }

    def change(rows: Row*): Unit = {
      changes.addData(rows)
      query.processAllAvailable()
    }

    /** What a fact finds, once changes of a later time, too, have come. */
    def find(id: Int, time: String, later: Row*): Seq[String] = {
      facts.addData(Row(id, at(time)))
      later.foreach { row =>
        facts.addData(Row(-1, row.getTimestamp(row.size - 1)))
        change(row)
      }
      seen.synchronized(seen.filterNot(_.startsWith("-1"))).toSeq
    }
  }

  testLong("versions whose checkpoint does not have their position in Kafka continue without it") {
    def message(offset: Long, id: Int, v: String, time: String) = Row(0, offset, id, v, "u", at(time))
    val later = Seq(message(8, 9, "", "11:00"), message(9, 9, "", "11:01"))
    def run(first: DataFrame => DataFrame): Seq[String] = {
      val it = new Joined(s"$Position, id INT, v STRING, op STRING, at TIMESTAMP")
      it.during(first)(_ => it.change(message(1, 1, "z", "10:00"), message(2, 1, "y", "10:00")))
      it.during(ofTopic)(_ => it.change(message(3, 1, "a", "10:00")))
      it.during(ofTopic)(_ => it.find(1, "10:05", later: _*))
    }
    // By their values, as builds did that had no position.
    assert(run(_.drop("partition", "offset")) == Seq("1 z"))
    assert(run(ofTopic) == Seq("1 a"))
  }

  test("the position of a topic is found below views, common tables and subqueries") {
    val facts = memory("fact INT, t TIMESTAMP")
    val topic = memory(s"value STRING, $Position")
    val fields = StructType.fromDDL("id INT, v STRING, op STRING, at TIMESTAMP")
    val log = ChangeCases
      .ofKafka(topic.toDF())
      .select(from_json(col("value"), fields).as("m"))
      .select("m.*")
      .withWatermark("at", "0 seconds")
    log.createOrReplaceTempView("topic_log")
    facts.toDF().withWatermark("t", "0 seconds").createOrReplaceTempView("topic_facts")
    spark.sql(
      "CREATE OR REPLACE TEMPORARY VIEW topic_view AS SELECT id, v AS w, op AS _change_type, at FROM topic_log WHERE id > 0"
    )
    def join(versions: String, before: String = "", on: String = "ON f.fact = c.id") =
      s"$before SELECT * FROM topic_facts f JOIN $versions FOR SYSTEM_TIME AS OF f.t AS c $on"
    val declared = "VERSIONS(TABLE(topic_log), KEY(id), OP(op))"
    for (
      (query, isFound) <- Seq(
        join("topic_view") -> true,
        join(declared) -> true,
        join("(SELECT id AS fact, at, op FROM " + declared + ")", on = "USING (fact)") -> true,
        join(
          "c",
          "WITH c AS (SELECT id, at, op AS _change_type FROM topic_view_of)"
            .replace("topic_view_of", "topic_log")
        ) -> true,
        join(
          "d",
          s"WITH c AS (SELECT * FROM topic_log), d AS (SELECT * FROM ${declared.replace("topic_log", "c")})"
        ) -> true,
        join("(SELECT DISTINCT id, at, op FROM topic_log)") -> false,
        join("(SELECT id, at FROM topic_log UNION ALL SELECT id, at FROM topic_view)") -> false
      )
    ) {
      val df = spark.sql(query)
      assert(!df.columns.exists(_.startsWith("_streamjoin")), query)
      val plan = df.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed
      val positions = plan.collectWithSubqueries { case join: StreamAsOfJoin => join.position.map(_.name) }
      assert(positions == Seq(if (isFound) KafkaPosition.Columns else Nil), query)
      if (isFound) {
        val running =
          df.writeStream.format("noop").option("checkpointLocation", newFolder()).start()
        try {
          facts.addData(Row(1, at("10:00")))
          topic.addData(Row("{\"id\": 1, \"op\": \"c\", \"at\": \"2024-06-01T10:00:00Z\"}", 0, 1L))
          running.processAllAvailable()
        } finally running.stop()
      }
    }
  }

  private def c(v: String, id: Any, time: String) = Row(null, Row(id, v), "c", at(time))
  private def u(v: String, id: Any, time: String) = Row(null, Row(id, v), "u", at(time))
  private val later = Seq(c("", 9, "11:00"), c("", 9, "11:01"))

  test("a value that was not sent, of a column that cannot be null, fails naming it") {
    val it = new Joined(Envelope)
    it.during(identity) { _ =>
      it.change(c("a", 1, "10:00"), u(NotSent, 1, "10:10"), u(NotSent, 2, "10:10"))
      assert(it.find(1, "10:15", later: _*) == Seq("1 a"))
      it.change(u(NotSent, 3, "11:10"))
      val end = Seq(c("", 9, "11:30"), c("", 9, "11:31"))
      val message = rejected("STREAMJOIN_UNAVAILABLE_VALUE")(it.find(3, "11:20", end: _*))
      assert(message.contains(" v,"), message)
    }
  }

  test("a message of a flat log that was not read fails the query, a tombstone does not") {
    val it = new Joined("id INT, v STRING, op STRING, _corrupt_record STRING, at TIMESTAMP")
    def message(id: Any, corrupt: String, time: String) =
      Row(id, null, if (id == null) null else "c", corrupt, at(time))
    it.during(identity) { _ =>
      it.change(message(1, null, "10:00"), message(null, null, "10:00"))
      assert(it.find(1, "10:05", Seq("11:00", "11:01").map(message(9, null, _)): _*) == Seq("1 -"))
      val error = rejected("STREAMJOIN_UNREADABLE_CHANGE")(it.change(message(null, "{", "11:10")))
      assert(error.contains("_corrupt_record"), error)
    }
  }

  test("a tombstone says nothing if null keys match, too") {
    def flat(id: Any, v: String, op: String, time: String) =
      Row(id, v, op, if (time == null) null else at(time))
    val it = new Joined("id INT, v STRING, op STRING, at TIMESTAMP", on = "fact <=> id")
    it.during(identity) { _ =>
      it.change(flat(1, "a", "c", "10:00"), flat(null, "b", "c", "10:00"), flat(null, null, null, null))
      assert(it.find(1, "10:05", Seq("11:00", "11:01").map(flat(9, "", "c", _)): _*) == Seq("1 a"))
    }
  }

  test("a truncation in an envelope, which has no key, fails the query") {
    val truncation = Row(null, null, "t", at("10:10"))
    val it = new Joined(Envelope)
    it.during(identity) { _ =>
      it.change(c("a", 1, "10:00"))
      assert(rejected("STREAMJOIN_OPERATION")(it.change(truncation)).contains("\"t\""))
    }
    val table = maintainer(Envelope, Seq(Seq("id")), op = Some("op"), time = Some("at"))
    during(table) {
      table.feed(c("a", 1, "10:00"))
      assert(rejected("STREAMJOIN_OPERATION")(table.feed(truncation)).contains("\"t\""))
    }
  }

  test("an operation in an envelope that is no string is rejected") {
    val log = memory(Envelope.replace("op STRING", "op INT")).toDF().withWatermark("at", "0 seconds")
    val message =
      rejected("STREAMJOIN_COLUMN.OPERATION_TYPE")(StreamJoin.versions(log).key("id").time("at").changes)
    assert(message.contains("INT"), message)
  }

  test("a change of an envelope without its primary key is kept with the late rows") {
    def placed(row: Row, offset: Long) = Row.fromSeq(Seq[Any](0, offset) ++ row.toSeq)
    withConf("spark.streamjoin.lateRows" -> "keep") {
      val it = new Joined(s"$Position, $Envelope")
      it.during(ofTopic) { query =>
        it.change(placed(c("x", null, "10:00"), 1), placed(c("a", 1, "10:00"), 2))
        it.change(placed(Row(Row(null, "x"), Row(2, "y"), "u", at("10:10")), 3))
        assert(it.find(2, "10:15", later.map(placed(_, 4)): _*) == Seq("2 y"))
        val rows = StreamJoin.lateRows(query).select("join", "side", "column", "row")
        assert(
          rows.collect().map(text).sorted.toSeq == Seq(
            "1 right - {\"id\":null,\"v\":\"x\",\"at\":\"2024-06-01T10:00:00.000000Z\",\"op\":\"c\"}",
            "1 right - {\"id\":null,\"v\":\"x\",\"at\":\"2024-06-01T10:10:00.000000Z\",\"op\":\"update_preimage\"}"
          )
        )
      }
    }
  }

  test("hundreds of messages that say nothing, and no other, are a hint and a warning") {
    val nothing = Row(null, null, null, null)
    val it = new Joined(Envelope)
    def hints(query: StreamingQuery) =
      StreamJoin
        .explainAnalyze(query)
        .selectExpr("explode(hints)")
        .collect()
        .map(_.getString(0))
        .filter(_.contains("payload"))
    val warned = warnings(it.during(identity) { query =>
      it.change(Seq.fill(199)(nothing): _*)
      assert(hints(query).isEmpty)
      it.change(nothing)
      assert(hints(query).exists(_.startsWith("200 versions")))
      it.change(nothing)
      it.change(c("a", 1, "10:00"))
      assert(hints(query).isEmpty)
    })
    assert(warned.filter(_.contains("payload")).map(_.contains("200 versions")) == Seq(true), warned)
    val table = maintainer(Envelope, Seq(Seq("id")), op = Some("op"), time = Some("at"))
    val ofTable = warnings(during(table) {
      table.feed(Seq.fill(200)(nothing): _*)
      table.feed(nothing)
    })
    assert(ofTable.count(_.contains("200 messages were empty")) == 1, ofTable)
  }

  /** What the log warns of meanwhile. */
  private def warnings(body: => Unit): Seq[String] = {
    val seen = new ConcurrentLinkedQueue[String]
    val appender = new AbstractAppender("warnings", null, null, true, Array.empty[Property]) {
      override def append(event: LogEvent): Unit =
        if (event.getLevel == Level.WARN) seen.add(event.getMessage.getFormattedMessage): Unit
    }
    val (own, root) = ("org.apache.spark.sql.streamjoin", LogManager.getRootLogger.asInstanceOf[Logger])
    val before = LogManager.getLogger(own).getLevel
    appender.start()
    root.addAppender(appender)
    Configurator.setLevel(own, Level.WARN)
    try body
    finally {
      Configurator.setLevel(own, before)
      root.removeAppender(appender)
    }
    seen.asScala.toSeq
  }
}
