package streamjoin

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.time.{Duration, Instant}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.TimestampAddInterval
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{AnalysisException, DataFrame, Encoders, Row}

/** The examples of `docs/scala.md`, and the rest of the Scala API, as a program calls it. */
class ScalaApiSuite extends AnyFunSuite with SparkTest {

  /** Minutes after ten. */
  private def at(minute: Int): Timestamp =
    Timestamp.from(Instant.parse("2026-01-01T10:00:00Z").plus(Duration.ofMinutes(minute.toLong)))

  private def stream(schema: String, rows: Row*): DataFrame = {
    val memory = MemoryStream[Row](Encoders.row(StructType.fromDDL(schema)), spark)
    memory.addData(rows)
    memory.toDF()
  }

  private def orders: DataFrame =
    stream(
      "order_id INT, order_time TIMESTAMP",
      Row(1, at(0)),
      Row(2, at(5)),
      Row(3, at(300)),
      Row(7, at(500))
    )
      .withWatermark("order_time", "0 seconds")

  private def deliveries: DataFrame = stream(
    "order_id INT, delivery_time TIMESTAMP",
    Row(1, at(20)),
    Row(1, at(70)),
    Row(2, at(0)),
    Row(3, at(301)),
    Row(9, at(500))
  ).withWatermark("delivery_time", "0 seconds")

  private def events: DataFrame =
    stream(
      "id INT, time TIMESTAMP, is_bound BOOLEAN",
      Row(2, at(2), null),
      Row(1, at(1), null),
      Row(0, at(9), true)
    )

  private def started(df: DataFrame, name: String): StreamingQuery = df.writeStream
    .format("memory")
    .queryName(name)
    .option("checkpointLocation", newFolder())
    .trigger(Trigger.AvailableNow())
    .start()

  /** What a query emits: minutes after ten in place of times, in the order of the text. */
  private def output(df: DataFrame): Seq[String] = {
    started(df, "output").awaitTermination()
    spark.table("output").collect().map(_.toSeq.map(text).mkString(" ")).toSeq.sorted
  }

  private def text(value: Any): String = value match {
    case null => "-"
    case time: Timestamp => Duration.between(at(0).toInstant, time.toInstant).toMinutes.toString
    case other => other.toString
  }

  private def rejected(condition: String)(body: => DataFrame): Unit =
    assert(intercept[AnalysisException](body: Unit).getCondition == condition): Unit

  test("an interval join") {
    val joined = StreamJoin
      .interval(orders, deliveries)
      .on("order_id")
      .joinType("left")
      .within("0 seconds", "1 hour")
      .toDF()
    assert(joined.columns.toSeq == Seq("order_id", "order_time", "delivery_time"))
    assert(output(joined) == Seq("1 0 20", "2 5 -", "3 300 301"))
    StreamJoin.bounds(joined).show(false)
    assert(
      StreamJoin.bounds(joined).select("side", "keeps").collect().toSeq.map(_.toString) ==
        Seq("[left,left kept 1 hour]", "[right,right kept 0 seconds]")
    )
  }

  test("an interval join in both directions, by a condition, on names of the other side") {
    def pairs(join: IntervalJoin) = output(join.toDF().select("o.order_id", "order_time", "delivery_time"))
    def join =
      StreamJoin.interval(orders.as("o"), deliveries.as("d")).on(col("o.order_id") === col("d.order_id"))
    assert(pairs(join.within("20 minutes")) == Seq("1 0 20", "2 5 0", "3 300 301"))
    assert(pairs(join.within(Duration.ofMinutes(5))) == Seq("2 5 0", "3 300 301"))
    assert(pairs(join.within("-10 minutes", "0 seconds")) == Seq("2 5 0"))
    assert(pairs(join.within(Duration.ofMinutes(-10), Duration.ZERO)) == Seq("2 5 0"))
    val right =
      StreamJoin.interval(orders, deliveries).on("order_id").joinType("right").within("1 hour").toDF()
    assert(output(right) == Seq("1 - 70", "1 0 20", "2 5 0", "3 300 301"))
    val full =
      StreamJoin.interval(orders, deliveries).on("order_id").joinType("full").within("1 minute").toDF()
    assert(output(full) == Seq("1 - 20", "1 - 70", "1 0 -", "2 - 0", "2 5 -", "3 300 301"))
  }

  test("a stream joined with itself") {
    val both = orders
    val joined = StreamJoin.interval(both.as("a"), both.as("b")).on("order_id").within("1 second").toDF()
    assert(output(joined) == Seq("1 0 0", "2 5 5", "3 300 300", "7 500 500"))
  }

  test("an interval join whose bounds cannot be") {
    def join = StreamJoin.interval(orders, deliveries).on("order_id")
    rejected("STREAMJOIN_DURATION")(join.within("1 month").toDF())
    rejected("STREAMJOIN_WITHIN")(join.within("1 hour", "1 minute").toDF())
    rejected("STREAMJOIN_JOIN_KEYS.NO_DECLARED_KEY") {
      StreamJoin.interval(orders, deliveries).within("1 hour").toDF()
    }
    val without = stream("order_id INT, delivery_time TIMESTAMP")
    rejected("STREAMJOIN_EVENT_TIME.NONE") {
      StreamJoin.interval(orders, without).on("order_id").within("1 hour").toDF()
    }
  }

  test("a window join") {
    val inOrder = StreamJoin
      .window(orders, deliveries)
      .on("order_id")
      .following(Duration.ofHours(1))
      .toDF()
    assert(inOrder.columns.toSeq == Seq("order_id", "order_time", "delivery_time", "rowtime"))
    assert(output(inOrder) == Seq("1 0 20 0", "3 300 301 300"))
    val before = StreamJoin.window(orders, deliveries).on("order_id").preceding("1 hour").toDF()
    assert(output(before) == Seq("1 0 20 20", "3 300 301 301"))
    def none = StreamJoin.window(orders, deliveries).on("order_id")
    rejected("STREAMJOIN_WINDOW")(none.toDF())
    rejected("STREAMJOIN_WINDOW")(none.following("1 hour").preceding("1 hour").toDF())
    val empty = intercept[AnalysisException](none.following("0 seconds").toDF())
    assert(empty.getCondition == "STREAMJOIN_WINDOW")
    assert(empty.getMessage.contains("StreamJoin.window takes one window"))
  }

  test("a temporal join") {
    val versions = StreamJoin.versions(deliveries).key("order_id").time("delivery_time")
    val known = StreamJoin
      .temporal(orders, versions)
      .on("order_id")
      .asOf("order_time")
      .history("1 day")
      .toDF()
    assert(output(known) == Seq("2 5 0"))
    val short = StreamJoin.temporal(orders, StreamJoin.versions(deliveries).key("order_id"))
    assert(
      output(short.on("order_id").joinType("left").ordered(false).toDF()) == Seq("1 0 -", "2 5 0", "3 300 -")
    )
  }

  test("a temporal join with Debezium's envelope") {
    val row = "STRUCT<order_id: INT, state: STRING>"
    val changes = stream(
      s"before $row, after $row, op STRING, ts TIMESTAMP, lsn INT",
      Row(null, Row(2, "packed"), "c", at(0), 1),
      Row(Row(2, "packed"), Row(2, "sent"), "u", at(0), 2),
      Row(null, Row(1, "packed"), "c", at(0), 3),
      Row(Row(1, "packed"), null, "d", at(0), 4),
      Row(null, Row(9, "packed"), "c", at(500), 5)
    ).withWatermark("ts", "0 seconds")
    val versions = StreamJoin.versions(changes).key("order_id").order("lsn")
    assert(versions.changes.columns.toSeq == Seq("order_id", "state", "ts", "lsn", "op"))
    val known = StreamJoin.temporal(orders, versions).on("order_id").joinType("left").toDF()
    assert(output(known.select("order_id", "state")) == Seq("1 -", "2 sent", "3 -"))
  }

  test("an as-of join") {
    val closest = StreamJoin
      .asOf(orders.as("o"), deliveries.as("d"))
      .on(col("o.order_id") === col("d.order_id"))
      .matching("o.order_time >= d.delivery_time")
      .tolerance("10 minutes")
      .toDF()
    assert(output(closest.select("o.order_id", "d.delivery_time")) == Seq("2 0"))
    val (left, right) = (orders, deliveries)
    val ahead = left("order_time") <= right("delivery_time")
    val following = StreamJoin.asOf(left, right).on("order_id").matching(ahead).tolerance(Duration.ofHours(2))
    assert(output(following.toDF()) == Seq("1 0 20", "3 300 301"))
    def join = StreamJoin.asOf(orders, deliveries).on("order_id")
    assert(
      output(join.direction("nearest").tolerance("1 hour").toDF()) == Seq("1 0 20", "2 5 0", "3 300 301")
    )
    assert(
      output(join.direction("backward", allowExactMatches = false).ordered(false).toDF()) == Seq("2 5 0")
    )
    assert(output(join.toDF()) == Seq("2 5 0"))
    rejected("STREAMJOIN_TEMPORAL.DIRECTION")(join.direction("sideways").toDF())
    rejected("STREAMJOIN_TEMPORAL.NO_TOLERANCE")(join.direction("forward").toDF())
    rejected("STREAMJOIN_TEMPORAL.CONDITION_AND_DIRECTION") {
      join.matching("l.order_time > r.delivery_time").direction("backward").toDF()
    }
  }

  test("arrangements, a table, a delta join") {
    val folder = newFolder("arrangements")
    val checkpoint = newFolder()
    withConf("spark.streamjoin.arrangements" -> folder) {
      spark.conf.set("spark.streamjoin.arrangements", folder)
      val query = Arrangement
        .maintain(deliveries, "deliveries")
        .key("order_id")
        .key("delivery_time")
        .writeStream
        .option("checkpointLocation", checkpoint)
        .start()
      query.processAllAvailable()

      val arrangement = Arrangement.forName(spark, "deliveries")
      val rows = arrangement.toDF()
      val changes = arrangement.changes()
      assert(arrangement.name == "deliveries")
      assert(arrangement.keys == Seq(Seq("order_id"), Seq("delivery_time")))
      assert(arrangement.schema.names.toSeq == Seq("order_id", "delivery_time"))
      assert(arrangement.versions.contains((0, 0)))
      assert(arrangement.rows == 5)
      assert(arrangement.bytes > 0)
      assert(arrangement.readers.isEmpty)
      assert(rows.count() == 5)
      assert(arrangement.toDF(0).count() == 5)
      assert(output(changes).take(2) == Seq("1 20 0 1", "1 70 0 1"))
      query.stop()

      val table = Arrangement.table(spark, "deliveries").rematch("1 hour").toDF()
      val looked = orders.join(table, Seq("order_id"), "left")
      assert(output(looked) == Seq("1 0 20", "1 0 70", "2 5 0", "3 300 301", "7 500 -"))
      val previous =
        StreamJoin.interval(orders, arrangement.asTable.previous().atLeast(0).toDF()).joinType("left").toDF()
      assert(output(previous) == Seq("1 0 -", "2 5 -", "3 300 -", "7 500 -"))
      assert(output(orders.join(arrangement.asTable.caughtUp().toDF(), "order_id")).size == 4)

      val pairs = StreamJoin
        .delta(spark)
        .input("a", "deliveries")
        .input("b", "deliveries")
        .on("a.order_id = b.order_id")
        .select("a.order_id", "b.delivery_time")
        .toDF()
      assert(output(pairs) == Seq("1 20 2", "1 70 2", "2 0 1", "3 301 1", "9 500 1"))
      // UpsertSuite and the tests of Python write to targets.
      val upserts = Upsert
        .into(changes, Map("url" -> "jdbc:postgresql://db/shop", "dbtable" -> "deliveries"))
        .key("order_id", "delivery_time")
        .writeStream
      rejected("STREAMJOIN_UPSERT.TARGET") { upserts.option("dbtable", "").start(); changes }
      val tables =
        StreamJoin.interval(arrangement.asTable.toDF(), arrangement.asTable.toDF().toDF("order_id", "other"))
      assert(output(tables.toDF()).size == 7)
      rejected("STREAMJOIN_DELTA.NO_CONDITION")(StreamJoin.delta(spark).input("a", arrangement).toDF())
      rejected("STREAMJOIN_DELTA.NO_CONDITION") {
        StreamJoin.delta(spark).input("a", arrangement).input("b", arrangement).toDF()
      }
    }
    rejected("STREAMJOIN_JOIN_KEYS.NO_DECLARED_KEY") {
      StreamJoin.interval(orders, spark.range(1).toDF("order_id")).toDF()
    }
  }

  test("streams") {
    val marked = StreamInputs.imposeOrder(events, "time", "10 seconds")
    val sorted = StreamInputs.sorted(marked, "time")
    val punctuated = StreamInputs.withBounds(events, "time", "is_bound").lag("0 seconds").toDF()
    val patient = StreamInputs.idleAfter(marked, Duration.ofSeconds(30))
    assert(marked.schema("time").metadata.contains("spark.watermarkDelayMs"))
    assert(output(sorted.select("id")) == Seq("1", "2"))
    assert(punctuated.columns.toSeq == Seq("id", "time"))
    assert(patient.columns.toSeq == marked.columns.toSeq)
    rejected("STREAMJOIN_DURATION")(StreamInputs.imposeOrder(events, "time", Duration.ofSeconds(-1)))
    rejected("STREAMJOIN_COLUMN.NO_WATERMARK") {
      StreamInputs.withBounds(events, "time", "is_bound").per("is_bound").toDF()
    }
  }

  test("days are those of the session of the streams, whichever is active") {
    val other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    def events = other.readStream.format("rate").load().withWatermark("timestamp", "0 seconds")
    val joined = StreamJoin.interval(events, events).on("value").within("1 day").toDF()
    val zones = joined
      .asInstanceOf[ClassicDataset[Row]]
      .queryExecution
      .analyzed
      .flatMap(
        _.expressions.flatMap(_.collect { case later: TimestampAddInterval => later.timeZoneId })
      )
    assert(zones.flatten.distinct == Seq("America/New_York"))
  }

  test("the examples in Java") {
    def countries(df: DataFrame) = df.withColumn("country", lit("PT"))
    assert(output(JavaExamples.interval(countries(orders), countries(deliveries))).size == 3)
    assert(output(JavaExamples.byList(orders, deliveries)) == Seq("2 5 0"))
    assert(output(JavaExamples.temporal(orders, deliveries)) == Seq("2 5 0"))
    assert(JavaExamples.streams(events.drop("is_bound")).isStreaming)
    val folder = newFolder("java")
    val query = JavaExamples.maintain(deliveries, folder).option("checkpointLocation", newFolder()).start()
    query.processAllAvailable()
    query.stop()
    assert(JavaExamples.table(spark, folder).count() == 5)
    assert(output(JavaExamples.changes(spark, folder)).size == 5)
    def flat(text: String) = text.linesIterator.map(_.trim).filter(_.nonEmpty).mkString("\n")
    val code =
      "(?s)```java\\n(.*?)```".r.findAllMatchIn(Files.readString(Path.of("docs/scala.md"))).map(_.group(1))
    val own = flat(Files.readString(Path.of("scala/spark/src/test/java/streamjoin/JavaExamples.java")))
    assert(code.map(flat).toList.forall(own.contains))
  }

  test("late rows, as a table and as a stream") {
    def joined = StreamJoin.interval(orders, deliveries).on("order_id").within("1 hour").toDF()
    withConf("spark.streamjoin.lateRows" -> "keep") {
      val query = started(joined, "late")
      query.awaitTermination()
      assert(StreamJoin.lateRows(query).columns.toSeq.take(3) == Seq("batch", "join", "side"))
      assert(StreamJoin.lateRows(query).count() == 0)
      assert(StreamJoin.lateRowsStream(query).isStreaming)
    }
    val dropped = started(joined, "dropped")
    dropped.awaitTermination()
    rejected("STREAMJOIN_LATE_ROWS_NOT_KEPT")(StreamJoin.lateRows(dropped))
  }

  test("what a query keeps") {
    val checkpoint = newFolder()
    val joined =
      StreamJoin.interval(orders, deliveries).on("order_id").joinType("left").within("1 hour").toDF()
    val query = joined.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try {
      query.processAllAvailable()
      val plan = StreamJoin.explainAnalyze(query)
      val answer = StreamJoin.why(query, "order_id = 7")
      val kept = spark.read.format("streamjoin").option("checkpoint", checkpoint).option("operator", 1).load()
      assert(plan.select("plan").head().getString(0) == "1 left outer interval join")
      assert(StreamJoin.explainAnalyze(query, withSkew = true).where("task IS NOT NULL").count() > 0)
      assert(answer.select("outcome").distinct().collect().map(_.getString(0)).toSeq == Seq("waiting"))
      assert(
        StreamJoin.why(query, "CAST(order_id AS STRING) = 'it\\'s'", 1).head().getString(4) == "not seen"
      )
      assert(kept.where("left.order_id = 7").count() == 1)
    } finally query.stop()
    assert(StreamJoin.evolution(joined, checkpoint).isEmpty)
    val inner = StreamJoin.interval(orders, deliveries).on("order_id").within("1 hour").toDF()
    val changes = StreamJoin.evolution(inner, checkpoint).select("join", "what", "is", "results").collect()
    assert(changes.map(_.mkString(" ")).toSeq == Seq("1 join_type inner exact"))
  }

  test("the session") {
    assert(StreamJoin.isEnabled(spark))
    assert(StreamJoin.version == Files.readString(Path.of("VERSION")).trim)
    assert(StreamJoin.sparkVersion == spark.version)
  }

  test("the examples of docs/scala.md are those of this file") {
    def flat(text: String) = text.linesIterator.map(_.trim).filter(_.nonEmpty).mkString("\n")
    val code =
      "(?s)```scala\\n(.*?)```".r.findAllMatchIn(Files.readString(Path.of("docs/scala.md"))).map(_.group(1))
    val own = flat(Files.readString(Path.of("scala/spark/src/test/scala/streamjoin/ScalaApiSuite.scala")))
    val examples = code.map(flat).filterNot(_.startsWith("import")).toList
    assert(examples.size > 8)
    assert(examples.filterNot(own.contains) == Nil)
  }
}
