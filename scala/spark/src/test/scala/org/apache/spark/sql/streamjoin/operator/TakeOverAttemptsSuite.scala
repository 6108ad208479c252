package org.apache.spark.sql.streamjoin.operator

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.{StreamingQueryException, Trigger}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

/** The batch of a take-over: planned before, failed, repeated, or rejected. */
class TakeOverAttemptsSuite extends AnyFunSuite with TakeOverTest {
  import JoinTest._

  testLong("a batch that Spark's own join has planned is run by it") {
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

  for (next <- SparkTest.part(Seq("Spark's own join", "ours"), every = 2))
    test(s"after a failed attempt, $next continues") {
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
        assert(
          operators(made).toSet == Set(if (next == "ours") "streamIntervalJoin" else "symmetricHashJoin")
        )
        fed(made, story(4))
        failing(made, story(5))
        starting(made, exact)
        made.settle()
        story.drop(6).foreach(fed(made, _))
        assert(operators(made).toSet == Set("streamIntervalJoin"))
        assert(received(made) == expected)
      } finally made.stop(): Unit
    }

  testLong("the batch of the take-over runs again") {
    val query = join("full_outer")
    val expected = ofSpark(query)
    // Committed by us except for the last file; then by either of the two operators.
    val operatorsOf = Seq(Seq(exact), Seq(plain, exact), Seq(plain, plain, exact))
    for (again <- SparkTest.part(operatorsOf, every = 3, from = 1)) {
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

  testLong("a file sink has each row once") {
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

  test("by default, it is rejected before its first commit, as the sink may have the rows") {
    val old = begunBySpark(picked(), "spark.sql.streaming.noDataMicroBatches.enabled" -> "false")
    assert(old.uncommit() == 0)
    assert(rejected(old, picked()).getCondition == "STREAMJOIN_CHECKPOINT_OF_SPARK_JOIN")
    // It skips the batch.
    old.skipped += 0
    goesOn(old, exact)
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
