package org.apache.spark.sql.streamjoin.operator

import java.nio.file.{Files, Path}
import java.util.UUID

import scala.jdk.CollectionConverters._

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.SchemaHelper.SchemaWriter
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.functions.{col, count, expr, lit, window}
import org.apache.spark.sql.streaming.{StreamingQueryException, Trigger}
import org.apache.spark.sql.streamjoin.{CheckpointTest, JoinTest, SparkTest}
import org.apache.spark.sql.types.{LongType, StringType, StructType}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/**
 * A query that ran with Spark's own join continues with ours on its checkpoint. Its rows are those
 * of a query that Spark's own join runs from beginning to end.
 */
class TakeOverSuite extends AnyFunSuite with CheckpointTest {
  import JoinTest._

  private val plain = "spark.streamjoin.enabled" -> "false"
  private val exact = "spark.streamjoin.evolve" -> "exact"
  private val rocksDb = "spark.sql.streaming.stateStore.providerClass" ->
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  private def format(version: Int) =
    "spark.sql.streaming.join.stateFormatVersion" -> version.toString

  private val stores = Seq[(String, Seq[(String, String)])](
    "default store" -> Nil,
    "RocksDB" -> Seq(rocksDb),
    "RocksDB with checkpoint ids" ->
      Seq(rocksDb, "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"),
    "format 3" -> Seq(rocksDb, format(3)),
    "format 3 with checkpoint ids" ->
      Seq(rocksDb, format(3), "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2")
  ) ++ (if (SparkTest.isSpark41) Nil
        else
          Seq(
            "format 4" -> Seq(
              rocksDb,
              format(4),
              "spark.sql.streaming.join.stateFormatV4.enabled" -> "true"
            )
          ))

  private val ids = Seq("a", "b", "c", "d", "e")

  private def time(minutes: Int) = f"${minutes / 60}%02d:${minutes % 60}%02d"

  /** Each batch is half an hour later than the one before, so no row is late for any watermark. */
  private val story: Seq[Seq[(String, Row)]] = (0 until 7).map { batch =>
    def at(minute: Int) = time(600 + 30 * batch + minute)
    ids.zipWithIndex.flatMap { case (id, number) =>
      val v = 10 * batch + number
      Seq(o(id, at(5 * number), v)) ++
        Option.when((batch + number) % 3 != 0)(
          d(id, at(4 * number), if ((batch + number) % 4 == 0) -v - 1 else v)
        ) ++
        Option.when((batch + number) % 2 == 0)("e" -> row(id, at(3 * number), v))
    }
  } :+ Seq(o("end", "23:00", 999), d("past", "23:00", 999), "e" -> row("over", "23:00", 998))

  private type Query = Streams => DataFrame

  private def semi: Query =
    streams => streams.marked("o").join(streams.marked("d"), expr(Hourly), "left_semi").selectExpr("o.v AS a")

  private def join(how: String): Query = if (how == "left_semi") semi else picked(how)

  private def chain(how: String): Query = streams =>
    streams
      .marked("o")
      .join(streams.marked("d"), expr(Hourly), how)
      .selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b")
      .as("f")
      .join(streams.marked("e"), expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 2 HOURS"), how)
      .selectExpr("a", "b", "e.v AS c")

  /** What the sink has received, each batch once. */
  private def received(job: Job): Seq[String] = {
    val byBatch = job.seen.groupBy(_.id).toSeq.sortBy(_._1).map(_._2)
    byBatch.foreach(attempts => assert(attempts.map(_.rows.sorted).distinct.size == 1))
    byBatch.flatMap(_.head.rows).sorted
  }

  private def fed(job: Job, rows: Seq[(String, Row)], streams: Set[String] = two): Unit =
    job.feed(rows.filter { case (name, _) => streams(name) }: _*): Unit

  private def operators(job: Job): Seq[String] =
    job.streaming.recentProgress.toSeq.flatMap(_.stateOperators.map(_.operatorName))

  private def starting(job: Job, settings: (String, String)*): Job = withConf(settings: _*)(job.restart())

  /** Rows of a query that Spark's own join runs from beginning to end. */
  private def ofSpark(
      query: Query,
      streams: Set[String] = two,
      rows: Seq[Seq[(String, Row)]] = story
  ): Seq[String] =
    withConf(plain)(running(job(query)) { job =>
      rows.foreach(fed(job, _, streams))
      received(job)
    })

  /** Spark's own join runs the first batches, ours the others, with a restart among them. */
  private def takenOver(
      query: Query,
      streams: Set[String] = two,
      rows: Seq[Seq[(String, Row)]] = story,
      after: Int = 3
  ): Seq[String] = {
    val made = job(query)
    try {
      starting(made, plain)
      rows.take(after).foreach(fed(made, _, streams))
      starting(made, exact)
      rows.slice(after, after + 2).foreach(fed(made, _, streams))
      assert(operators(made).contains("streamIntervalJoin"))
      assert(!operators(made).contains("symmetricHashJoin"))
      // From now on our operators run the query.
      starting(made)
      rows.drop(after + 2).foreach(fed(made, _, streams))
      received(made)
    } finally made.stop(): Unit
  }

  private val two = Set("o", "d")
  private val three = Set("o", "d", "e")

  private val types = Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi")

  private val kinds = for ((store, settings) <- stores; how <- types) yield (how, store, settings)

  for ((how, store, settings) <- SparkTest.part(kinds, every = 12)) test(s"$how, $store") {
    withConf(settings: _*) {
      val expected = ofSpark(join(how))
      assert(expected.size > 10)
      assert(takenOver(join(how)) == expected)
    }
  }

  /** Writes the schema of a state in format 1. Spark 2 and 3 did; this Spark only reads it. */
  private def writeSchema(job: Job): Unit = {
    val key = new StructType().add("field0", StringType)
    val contents = Seq(
      "keyToNumValues" -> (key -> new StructType().add("value", LongType)),
      "keyWithIndexToValue" -> (key.add("index", LongType) -> StructType.fromDDL(Events))
    )
    for (side <- Seq("left", "right"); (content, (keys, values)) <- contents) {
      val id = StateStoreId(s"${job.checkpoint}/state", 0, 0, s"$side-$content")
      new StateSchemaCompatibilityChecker(
        StateStoreProviderId(id, UUID.randomUUID()),
        spark.sessionState.newHadoopConf()
      ).createSchemaFile(
        List(StateStoreColFamilySchema(StateStore.DEFAULT_COL_FAMILY_NAME, 0, keys, 0, values)),
        SchemaWriter.createSchemaWriter(2)
      )
    }
  }

  test("a query that began in format 1") {
    val expected = ofSpark(picked("inner"))
    val made = job(picked("inner"))
    try {
      starting(made, plain, format(1), "spark.sql.streaming.stateStore.stateSchemaCheck" -> "false")
      story.take(3).foreach(fed(made, _))
      made.stop()
      writeSchema(made)
      starting(made, exact)
      story.drop(3).foreach(fed(made, _))
      assert(received(made) == expected)
      assert(rejected(made, picked(), plain).getCondition == "STREAMJOIN_CHECKPOINT_OF_STREAMJOIN")
    } finally made.stop(): Unit
  }

  test("two joins in a row") {
    val expected = ofSpark(chain("inner"), three)
    assert(expected.size > 10)
    assert(takenOver(chain("inner"), three) == expected)
    // Spark's own join above an outer one loses rows; ours, from the beginning, does not.
    val outer = running(job(chain("left_outer"))) { job =>
      story.foreach(fed(job, _, three))
      received(job)
    }
    assert(takenOver(chain("left_outer"), three) == outer)
  }

  private def counted(joined: DataFrame): DataFrame = joined
    .groupBy(window(col("t"), "20 minutes"))
    .agg(count(lit(1)).as("n"))
    .selectExpr("window.start", "n")

  private val around = Seq[(String, Query)](
    "an aggregation above" -> (streams =>
      counted(
        streams
          .marked("o")
          .join(streams.marked("d"), expr(Hourly), "left_outer")
          .selectExpr("o.t AS t", "d.v")
      )
    ),
    "dropDuplicates above" -> (streams =>
      streams
        .marked("o")
        .join(streams.marked("d"), expr(Hourly))
        .selectExpr("o.id AS id", "o.t AS t", "o.v AS a")
        .dropDuplicates("id", "t")
    ),
    "dropDuplicates below" -> (streams =>
      streams
        .raw("o")
        .withWatermark("t", "0 seconds")
        .dropDuplicates("id", "t")
        .as("o")
        .join(streams.marked("d"), expr(Hourly), "left_outer")
        .selectExpr("o.v AS a", "d.v AS b")
    ),
    "dropDuplicates on both inputs, an aggregation above" -> (streams => {
      def unique(name: String) =
        streams.raw(name).withWatermark("t", "0 seconds").dropDuplicates("id", "t").as(name)
      counted(unique("o").join(unique("d"), expr(Hourly), "left_outer").selectExpr("o.t AS t", "d.v"))
    })
  )

  for ((name, query) <- SparkTest.part(around, every = 4, from = 3)) test(s"a join with $name") {
    val twice = story.map(rows => rows ++ rows.take(3))
    val expected = ofSpark(query, rows = twice)
    assert(expected.size > 5)
    for (after <- SparkTest.part(Seq(3, 1, 5), every = 3))
      assert(takenOver(query, rows = twice, after = after) == expected, s"after $after")
  }

  private def ofWindows(streams: Streams): DataFrame = {
    def windows(name: String) =
      streams.marked(name).select(col("id"), window(col("t"), "20 minutes").as("w"), col("v")).as(name)
    windows("o")
      .join(windows("d"), expr("o.id = d.id AND o.w = d.w"), "left_outer")
      .selectExpr("o.v AS a", "d.v AS b")
  }

  private val conditions = Seq[(String, Query)](
    "equal times" -> picked("left_outer", "o.id = d.id AND o.t = d.t"),
    "equal windows" -> ofWindows,
    "a computed key and strict bounds" -> picked(
      "full_outer",
      "upper(o.id) = upper(d.id) AND d.t > o.t - INTERVAL 10 MINUTES AND d.t < o.t + INTERVAL 1 HOUR"
    ),
    "a carried bound" ->
      picked("inner", "o.id = d.id AND d.t >= o.t AND d.t <= o.t + (o.v % 50) * INTERVAL 1 MINUTE"),
    // Not as comparisons with a constant, which Spark takes for bounds of the state.
    "conjuncts on one side and on both" ->
      picked("left_outer", s"$Hourly AND d.v % 3 <> 0 AND o.v % 4 <> 0 AND (o.v + d.v) % 5 <> 3")
  )

  for ((name, query) <- SparkTest.part(conditions, every = 4, from = 3)) test(s"a condition with $name") {
    // Spark evicts a row at the watermark, and ours does not.
    def inside(rows: Seq[String]) = withoutClosingRows(rows, "999")
    val expected = inside(ofSpark(query))
    assert(expected.size > 10)
    assert(inside(takenOver(query)) == expected)
  }

  test("a shorter list of columns, and another number of partitions") {
    val expected = ofSpark(picked())
    val made = job(hourly("left_outer")(_).selectExpr("o.v AS a", "d.v AS b", "upper(d.id)"))
    starting(made, plain)
    story.take(3).foreach(fed(made, _))
    val before = made.stop().seen.flatMap(_.rows).map(_.split(' ').take(2).mkString(" "))
    val next = made.successor(picked())
    try {
      starting(next, exact, "spark.streamjoin.partitions" -> "3")
      story.drop(3).foreach(fed(next, _))
      assert(next.joins.map(_.numPartitions) == Seq(3))
      assert((before ++ received(next)).sorted == expected)
    } finally next.stop(): Unit
  }

  test("rows with a null in a key or a time, which Spark keeps") {
    val first = Seq(
      Seq(o("a", "10:00", 1), o(null, "10:01", 2), o("b", null, 3), d(null, "10:02", 4), d("a", null, 5)),
      Seq(o("c", "10:10", 6), d("c", "10:11", 7))
    )
    val rest = Seq(Seq(o("end", "23:00", 999), d("past", "23:00", 998)), Seq(o("end", "23:01", 999)))
    // Spark's own join never emits a row without a time.
    val unmatched = Seq(
      "left_outer" -> Seq("1 -", "2 -", "3 -", "6 7"),
      "right_outer" -> Seq("- 4", "- 5", "6 7"),
      "full_outer" -> Seq("- 4", "- 5", "1 -", "2 -", "3 -", "6 7")
    )
    for ((how, expected) <- SparkTest.part(unmatched, every = 3, from = 2)) {
      val found = takenOver(picked(how), rows = first ++ rest, after = 2)
      val matched = ofSpark(picked(how), rows = first ++ rest).filterNot(_.contains("-"))
      // Spark's own full outer join matches null with null.
      val both = if (matched.contains("2 4")) expected.filterNot(Set("- 4", "2 -")) :+ "2 4" else expected
      assert(withoutClosingRows(found, "999", "998") == both.sorted, how)
    }
  }

  test("a batch that Spark's own join has planned is run by it") {
    for (how <- SparkTest.part(Seq("full_outer", "left_semi"), every = 2)) {
      val expected = ofSpark(join(how))
      val made = job(join(how))
      try {
        starting(made, plain)
        story.take(3).foreach(fed(made, _))
        val last = made.uncommit()
        starting(made, exact)
        made.settle()
        fed(made, story(3))
        val byBatch =
          made.streaming.recentProgress.map(each => each.batchId -> each.stateOperators.head.operatorName)
        assert(byBatch.toMap.apply(last) == "symmetricHashJoin")
        assert(byBatch.filter(_._1 > last).map(_._2).toSet == Set("streamIntervalJoin"))
        starting(made)
        story.drop(4).foreach(fed(made, _))
        assert(received(made) == expected)
      } finally made.stop(): Unit
    }
  }

  /** The files of Spark's own state. */
  private def sparksState(job: Job): Map[String, String] =
    listing(job).filter { case (path, _) => path.startsWith("state/") && !path.contains("/.") }

  private def failing(job: Job, rows: Seq[(String, Row)]): Unit = {
    val sink = job.sink
    job.sink = batch => {
      sink(batch): Unit
      throw new IllegalStateException("the sink fails")
    }
    starting(job, exact)
    intercept[StreamingQueryException](fed(job, rows))
    job.stop()
    job.sink = sink
  }

  for (next <- Seq("Spark's own join", "ours")) test(s"after a failed attempt, $next continues") {
    val query = join("full_outer")
    val expected = ofSpark(query)
    val made = job(query)
    try {
      starting(made, plain)
      story.take(3).foreach(fed(made, _))
      made.stop()
      val before = sparksState(made)
      failing(made, story(3))
      assert(sparksState(made) == before)
      starting(made, if (next == "ours") exact else plain)
      made.settle()
      assert(operators(made).toSet == Set(if (next == "ours") "streamIntervalJoin" else "symmetricHashJoin"))
      fed(made, story(4))
      failing(made, story(5))
      starting(made, exact)
      made.settle()
      story.drop(6).foreach(fed(made, _))
      assert(operators(made).toSet == Set("streamIntervalJoin"))
      assert(received(made) == expected)
    } finally made.stop(): Unit
  }

  test("the batch of the take-over runs again") {
    val query = join("full_outer")
    val expected = ofSpark(query)
    // Committed by us except for the last file; then by either of the two operators.
    for (again <- Seq(Seq(exact), Seq(plain, exact), Seq(plain, plain, exact))) {
      val made = job(query)
      try {
        starting(made, plain)
        story.take(3).foreach(fed(made, _))
        // A single batch.
        starting(made, exact, "spark.sql.streaming.noDataMicroBatches.enabled" -> "false")
        fed(made, story(3))
        made.uncommit()
        again.init.foreach { setting =>
          starting(made, setting)
          made.settle()
        }
        starting(made, exact)
        made.settle()
        story.drop(4).foreach(fed(made, _))
        assert(operators(made).toSet == Set("streamIntervalJoin"))
        // A sink keeps what it has got last.
        val all = made.seen.groupBy(_.id).toSeq.sortBy(_._1).map(_._2.last)
        assert(all.flatMap(_.rows).sorted == expected)
      } finally made.stop(): Unit
    }
  }

  test("a file sink has each row once") {
    val (input, output, checkpoint) = (newFolder("input"), newFolder("output"), newFolder())
    def stream(name: String) = {
      val folder = Path.of(input, name)
      Files.createDirectories(folder)
      spark.readStream.schema(Events).json(folder.toString).withWatermark("t", "0 seconds").as(name)
    }
    def run(batch: Int, settings: (String, String)*): Unit = withConf(settings: _*) {
      story(batch).groupBy(_._1).foreach { case (name, rows) =>
        val lines = rows.map { case (_, row) =>
          s"""{"id":"${row.getString(0)}","t":"${row.getTimestamp(1).toInstant}","v":${row.getInt(2)}}"""
        }
        Files.createDirectories(Path.of(input, name))
        Files.write(Path.of(input, name, s"$batch.json"), lines.asJava)
      }
      stream("o")
        .join(stream("d"), expr(Hourly), "left_outer")
        .selectExpr("o.v AS a", "d.v AS b")
        .writeStream
        .format("parquet")
        .option("path", output)
        .option("checkpointLocation", checkpoint)
        .trigger(Trigger.AvailableNow())
        .start()
        .awaitTermination()
    }
    (0 until 3).foreach(run(_, plain))
    // The batch has reached the sink.
    SparkTest.forgetCommit(checkpoint)
    run(3, exact)
    (4 until story.size).foreach(run(_))
    val found = spark.read.parquet(output).collect().map(text(_: Row)).toSeq.sorted
    assert(found == ofSpark(picked()))
  }

  /** `start()` rejects the query and leaves the checkpoint unchanged. */
  private def rejected(old: Job, query: Query, settings: (String, String)*): AnalysisException = {
    val before = listing(old)
    val next = old.successor(query)
    val error = withConf(settings: _*)(intercept[AnalysisException] {
      try next.start()
      finally next.stop()
    })
    assert(listing(old) == before)
    assert(error.getSqlState == "55000")
    error
  }

  /** The query continues with Spark's own join or with ours. */
  private def goesOn(old: Job, settings: (String, String)*): Assertion = {
    starting(old, settings: _*)
    try assert(old.feed(d("a", "10:30", 4)).map(_.take(3)) == Seq("1 4"))
    finally old.stop(): Unit
  }

  private def begunBySpark(query: Query, settings: (String, String)*): Job =
    withConf(settings :+ plain: _*)(begun(query))

  test("by default, the checkpoint of Spark's own join is rejected") {
    val old = begunBySpark(picked())
    val error = rejected(old, picked())
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_OF_SPARK_JOIN")
    assert(error.getMessage.contains("spark.streamjoin.evolve=exact"))
    goesOn(old, exact)
    // Spark's own join no longer has a place.
    assert(rejected(old, picked(), plain).getCondition == "STREAMJOIN_CHECKPOINT_OF_STREAMJOIN")
  }

  test("what cannot be taken over is rejected before anything is written") {
    val inner = begunBySpark(picked("inner"))
    // This Spark begins no query in format 1, but continues those of Spark 2.
    val offsets = Path.of(inner.checkpoint, "offsets")
    SparkTest.numbers(offsets).map(number => offsets.resolve(number.toString)).foreach { file =>
      val text = Files.readString(file)
      val old = text.replace("stateFormatVersion\":\"2\"", "stateFormatVersion\":\"1\"")
      assert(old != text)
      SparkTest.overwrite(file, old)
    }
    val flags = rejected(inner, picked("left_outer"), exact)
    assert(flags.getCondition == "STREAMJOIN_TAKE_OVER.FORMAT")

    val narrow = begunBySpark(hourly("left_outer")(_).selectExpr("o.v AS a", "d.id AS b"))
    assert(rejected(narrow, picked(), exact).getCondition == "STREAMJOIN_TAKE_OVER.COLUMNS")

    val old = begunBySpark(picked())
    val number = rejected(old, chain("inner"), exact)
    assert(number.getCondition == "STREAMJOIN_TAKE_OVER.NUMBER")
    goesOn(old, exact)
  }

  test("a pending batch that would get other columns") {
    // Spark computes the shifted time once, in a column of its own.
    val condition = "o.id = d.id AND d.t - INTERVAL 1 MINUTE BETWEEN o.t AND o.t + INTERVAL 1 HOUR"
    val shifted: Query = hourly("left_outer", condition)(_).selectExpr("o.v AS a", "d.v AS b", "d.t")
    val old = begunBySpark(shifted)
    old.uncommit()
    val error = rejected(old, shifted, exact)
    assert(error.getCondition == "STREAMJOIN_TAKE_OVER.PENDING")
    starting(old, plain)
    old.settle()
    old.stop()
    goesOn(old, exact)
  }
}
