package org.apache.spark.sql.streamjoin.operator

import java.util.UUID

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.SchemaHelper.SchemaWriter
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.functions.{col, count, expr, lit, window}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.{LongType, StringType, StructType}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

import streamjoin.StreamJoin

/**
 * A query that ran with Spark's own join continues with ours on its checkpoint. Its rows are those
 * of a query that Spark's own join runs from beginning to end.
 */
class TakeOverSuite extends AnyFunSuite with TakeOverTest {
  import JoinTest._

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

  private val types = Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi")

  private val kinds = for ((store, settings) <- stores; how <- types) yield (how, store, settings)

  for ((how, store, settings) <- if (SparkTest.isLong) kinds else Nil) test(s"$how, $store") {
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

  testLong("a query that began in format 1") {
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

  testLong("two joins in a row") {
    for (how <- SparkTest.part(Seq("left_outer", "inner"), every = 2)) {
      // Spark's own join above an outer one loses rows; ours, from the beginning, does not.
      val expected = running(job(chain(how))) { job =>
        story.foreach(fed(job, _, three))
        received(job)
      }
      assert(expected.size > 10)
      if (how == "inner") assert(expected == ofSpark(chain(how), three))
      assert(takenOver(chain(how), three) == expected, how)
    }
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

  for ((name, query) <- SparkTest.part(around, every = 4, from = 2)) test(s"a join with $name") {
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

  for ((name, query) <- if (SparkTest.isLong) conditions else Nil) test(s"a condition with $name") {
    // Spark evicts a row at the watermark, and ours does not.
    def inside(rows: Seq[String]) = withoutClosingRows(rows, "999")
    val expected = inside(ofSpark(query))
    assert(expected.size > 10)
    assert(inside(takenOver(query)) == expected)
  }

  test("what our join keeps is shown from its first batch on") {
    val made = job(picked())
    try {
      starting(made, plain)
      story.take(2).foreach(fed(made, _))
      val before = made.seen.size
      starting(made, exact)
      fed(made, story(2))
      val first = made.seen(before).id
      val found = StreamJoin.why(made.streaming, "id = 'a'").collect().map(_.getAs[String]("outcome"))
      assert(found.nonEmpty && !found.contains("not seen"))
      val state = spark.read.format("streamjoin").option("checkpoint", made.checkpoint).option("operator", 1)
      val rejected = intercept[AnalysisException](state.option("batch", first - 1).load())
      assert(rejected.getMessage.contains(s"a batch from $first on: Spark's own join"))
    } finally made.stop(): Unit
  }

  testLong("a shorter list of columns, and another number of partitions") {
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

  testLong("rows of Spark's own join have come before a change, whatever the watermarks say") {
    def query(condition: String): Query =
      hourly("left_outer", s"$Hourly AND $condition")(_).selectExpr("o.v AS a", "d.v AS b")
    val old = job(query("o.v > 5"))
    try {
      starting(old, plain)
      old.feed(o("a", "10:00", 1))
      starting(old, exact)
      old.feed(d("b", "10:00", 2))
    } finally old.stop()
    val shown = StreamJoin.evolution(query("true")(newStreams()), old.checkpoint).collect()
    assert(shown.map(_.getAs[String]("state")).toSeq == Seq("rejected"), shown.mkString("; "))
  }

  testLong("rows with a null in a key or a time, which Spark keeps") {
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

}
