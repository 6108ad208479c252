package org.apache.spark.sql.streamjoin

import java.sql.Timestamp
import java.time.Instant
import java.util.concurrent.atomic.AtomicReference

import org.scalatest.concurrent.Eventually.eventually
import org.scalatest.concurrent.Futures.{interval, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.sql.classic.{DataStreamWriter, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.arrangement.index.IndexSettings
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementState
import org.apache.spark.sql.streamjoin.base.{LeftBySessions, QueryOwner}
import org.apache.spark.sql.streamjoin.operator.BufferLimits
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Encoders, Row}

/**
 * Two sessions of a server that does not share queries, as over Spark Connect. What is said here of
 * sessions is tried with clients in `tests/test_connect.py`.
 */
class SharedServerSuite extends AnyFunSuite with ArrangementTest {
  private val Share = "spark.streamjoin.shareQueries"

  override protected def settings: Map[String, String] =
    super.settings ++ Map(Share -> "false", "spark.streamjoin.lateRows" -> "keep")

  private def sharing[T](body: => T): T = {
    spark.sparkContext.conf.remove(Share)
    try body
    finally spark.sparkContext.conf.set(Share, "false"): Unit
  }

  private def session(): ClassicSession = spark.newSession()

  /** A join of a session, with one row in state and one that was late. */
  private class Joined(of: ClassicSession, name: String, key: String) {
    private def stream(schema: String) =
      MemoryStream[Row](Encoders.row(StructType.fromDDL(schema)), of)
    private val (left, right) = (stream("k STRING, t TIMESTAMP"), stream("j STRING, u TIMESTAMP"))

    def frame: DataFrame = of.withActive {
      left
        .toDF()
        .withWatermark("t", "0 seconds")
        .join(
          right.toDF().withWatermark("u", "0 seconds"),
          expr("k = j AND u BETWEEN t AND t + INTERVAL 1 HOUR")
        )
    }

    def started(change: DataStreamWriter[Row] => DataStreamWriter[Row] = _.format("noop")): StreamingQuery =
      of.withActive {
        val writer = frame.writeStream.queryName(name).option("checkpointLocation", newFolder())
        val query = change(writer.asInstanceOf[DataStreamWriter[Row]]).start()
        feed(query, key, 9)
        // Late is what is below the watermark of the batch before.
        feed(query, s"$key-next", 9)
        feed(query, s"$key-late", 1)
        query
      }

    def feed(query: StreamingQuery, key: String, hour: Int): Unit = {
      val at = Timestamp.from(Instant.parse(f"2026-01-01T$hour%02d:00:00Z"))
      left.addData(Row(key, at))
      right.addData(Row("none", at))
      query.processAllAvailable()
    }
  }

  /** What a session is told about a query, by each way there is. */
  private def asked(by: ClassicSession, idOrName: String): Map[String, () => Seq[Row]] = {
    def sql(text: String): () => Seq[Row] = () => by.withActive(by.sql(text).collect().toSeq)
    Map(
      "why" -> sql(s"SELECT row FROM sj_why('$idOrName', 'true', 1)"),
      "plan" -> sql(s"SELECT plan FROM sj_explain_analyze('$idOrName', true)"),
      "figures" -> sql(s"SELECT * FROM sj_figures('$idOrName')"),
      "late" -> sql(s"SELECT row FROM sj_late_rows('$idOrName')"),
      "state" -> (() =>
        by.withActive {
          by.read
            .format("streamjoin")
            .option("query", idOrName)
            .option("operator", 1)
            .load()
            .collect()
            .toSeq
        }
      )
    )
  }

  private def findsNothing(by: ClassicSession, idOrName: String, ways: String*): Unit =
    asked(by, idOrName).filter { case (what, _) => ways.isEmpty || ways.contains(what) }.foreach {
      case (what, ask) =>
        val condition =
          if (what == "state") "STREAMJOIN_OPTION" else "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_QUERY"
        val said = rejected(condition)(fail(s"$what: ${ask()}"))
        assert(said.contains(Share), said)
    }

  /** Asks in the given ways; each of them looks the query up on its own. */
  private def finds(by: ClassicSession, idOrName: String, key: String, ways: String*): Unit = {
    val ask = asked(by, idOrName)
    ways.foreach {
      // The figures of a batch come a moment after its end.
      case "figures" =>
        eventually(timeout(Span(20, Seconds)), interval(Span(50, Millis)))(assert(ask("figures")().nonEmpty))
      case "plan" => assert(ask("plan")().nonEmpty)
      case what =>
        val rows = ask(what)()
        assert(rows.exists(_.toString.contains(key)), s"$what: $rows")
    }
  }

  private val everyWay = Seq("figures", "plan", "why", "late", "state")

  /** Where the query is another one, but what looks it up has been tried. */
  private val someWays = if (SparkTest.isLong) everyWay else Seq("late", "state")

  testLong("a name and an id find the queries of their own session, running and stopped") {
    val (a, b) = (session(), session())
    val query = new Joined(a, "payments", "4111").started()
    val id = query.id.toString
    finds(a, "payments", "4111", everyWay: _*)
    if (SparkTest.isLong) finds(a, id, "4111", "late", "state")
    findsNothing(b, "payments")
    findsNothing(b, id, "late", "state")
    val said =
      rejected("STREAMJOIN_TABLE_FUNCTION.UNKNOWN_QUERY")(b.sql("SELECT * FROM sj_late_rows('payments')"))
    assert(said.contains("none runs") && !said.contains(query.id.toString), said)
    query.stop()
    finds(a, id, "4111", someWays: _*)
    finds(a, "payments", "4111", "late", "state")
    findsNothing(b, id, "late", "state")
    findsNothing(b, "payments", "late", "state")
  }

  testLong("of two queries of one name each session finds its own, also where all are shared") {
    val (a, b) = (session(), session())
    val stopped = new Joined(b, "same", "of-b").started()
    stopped.stop()
    val running = new Joined(a, "same", "of-a").started()
    finds(b, "same", "of-b", someWays: _*)
    finds(a, "same", "of-a", someWays: _*)
    sharing {
      finds(b, "same", "of-b", "late", "state")
      finds(a, "same", "of-a", "late", "state")
      finds(b, running.id.toString, "of-a", everyWay: _*)
      finds(session(), "same", "of-a", "late", "state")
    }
    running.stop()
    sharing(finds(session(), running.id.toString, "of-a", someWays: _*))
    findsNothing(session(), "same", "late", "state")
  }

  testLong("foreachBatch belongs to the session that started the query; a copy of a session does not") {
    val a = session()
    val (owner, seen) = (new AtomicReference[QueryOwner], new AtomicReference[Seq[Row]])
    val query = new Joined(a, "batches", "own").started(_.foreachBatch { (batch: DataFrame, number: Long) =>
      val inside = batch.sparkSession.asInstanceOf[ClassicSession]
      owner.set(QueryOwner.of(inside))
      batch.collect()
      if (number > 0) seen.set(asked(inside, "batches")("state")())
    })
    assert(owner.get == QueryOwner(a.sessionUUID, seesAll = false))
    assert(seen.get.toString.contains("own"), seen.get)
    findsNothing(a.newSession(), "batches", "why")
    findsNothing(a.cloneSession(), "batches", "state")
    query.stop()
  }

  testLong("a session does not displace what another has left") {
    val left = new LeftBySessions[Int](ofSession = 3, ofAll = 5)
    def put(owner: String, values: Int*) =
      values.foreach(value => left.put(owner)(_ == value)(_.fold(value)(identity)))
    def found(owner: String) =
      (0 until 10).filter(value => left.first(QueryOwner(owner, seesAll = false))(_ == value).isDefined)
    put("a", 1, 2)
    put("b", 1, 2, 3, 4, 5, 5, 6)
    assert(found("a") == Seq(1, 2) && found("b") == Seq(4, 5, 6))
    put("c", 1)
    assert(found("a") == Seq(2) && found("c") == Seq(1), "beyond what all may leave, the oldest goes")
    assert(left.first(QueryOwner("a", seesAll = true))(_ < 3).contains(2), "its own first")
  }

  testLong("no session sets what is the server's") {
    val a = session()
    assert(intercept[Exception](a.conf.set(Share, "true")).getMessage.contains(Share))
    assert(intercept[Exception](a.sql(s"SET $Share=true")).getMessage.contains(Share))
    val conf = a.sessionState.conf
    for (setting <- Seq("executorIndexMemory", "arrangements.idleIndexAge").map("spark.streamjoin." + _)) {
      a.conf.set(setting, "1000")
      SQLConf.withExistingConf(conf) {
        assert(BufferLimits.of(conf).executorIndexMemory.isEmpty)
        assert(IndexSettings.of(conf) == IndexSettings())
      }
      assert(rejected("STREAMJOIN_SERVER_SETTING")(new Joined(a, "own", "x").started()).contains(setting))
      sharing(new Joined(a, s"$setting", "x").started().stop())
      a.conf.unset(setting)
    }
    sharing {
      a.conf.set("spark.streamjoin.executorIndexMemory", "1000")
      assert(IndexSettings.of(conf).memory.contains(1000L))
    }
  }

  testLong("a reader has a name and an id, no checkpoint, and another session cannot end it while it runs") {
    val it = maintainer("id INT", Seq(Seq("id")))
    during(it)(it.feed(Row(1)))
    val (a, b) = (session(), session())
    def read(name: String) = a.withActive {
      val changes = a.readStream.format("streamjoin").load(it.root)
      val query = changes.writeStream
        .format("noop")
        .queryName(name)
        .option("checkpointLocation", newFolder("secret"))
        .start()
      query.processAllAvailable()
      query
    }
    def run(by: ClassicSession, call: String) =
      by.withActive(by.sql(s"SELECT * FROM $call").collect().toSeq)
    val query = read("nightly")
    val reader = ArrangementState.of(it.folder).readers.head
    assert(reader.name.contains("nightly") && reader.id.matches("[0-9a-f]{8}"))
    val shown = run(b, s"sj_arrangements('${it.root}')").toString
    assert(shown.contains("nightly") && shown.contains(reader.id) && !shown.contains("secret"), shown)
    val release = s"sj_release_reader('${it.root}', '${reader.id}')"
    val drop = s"sj_drop_arrangement('${it.root}', true)"
    rejected("STREAMJOIN_READER_USED")(run(b, release))
    assert(rejected("STREAMJOIN_ARRANGEMENT_USED")(run(b, drop)).contains(reader.id))
    val said = rejected("STREAMJOIN_NO_READER")(run(b, s"sj_release_reader('${it.root}', 'x')"))
    assert(said.contains(s"nightly (${reader.id})") && !said.contains("secret"))
    query.stop()
    // Without a session that could end it, it would keep versions for its whole age.
    assert(run(b, release) == Seq(Row(reader.id, 0L)))
    assert(ArrangementState.of(it.folder).readers.isEmpty)
    run(b, drop)
  }
}
