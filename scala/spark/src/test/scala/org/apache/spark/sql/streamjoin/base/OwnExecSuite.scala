package org.apache.spark.sql.streamjoin.base

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.ISO_8859_1

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkEnv
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.joins.{
  BroadcastNestedLoopJoinExec,
  ShuffledHashJoinExec,
  SortMergeJoinExec
}
import org.apache.spark.sql.execution.streaming.runtime.{
  MicroBatchExecution,
  StreamExecution,
  StreamingQueryWrapper
}
import org.apache.spark.sql.expressions.Window
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.joins.table.TableTest
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalTest
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.{JoinWindow, JoinWindows, Side}

/** Our operators below those of Spark that carry their plan into their tasks. */
class OwnExecSuite extends AnyFunSuite with TableTest with TemporalTest {
  import JoinTest.{d, o, Streams}

  override protected def settings: Map[String, String] =
    Map("spark.sql.autoBroadcastJoinThreshold" -> "-1", "spark.sql.shuffle.partitions" -> "1")

  /**
   * A query on streamjoin with the columns `id` and `v`.
   *
   * @param operators
   *   our operators in its plan
   */
  private case class Ours(
      name: String,
      operators: Set[String],
      rows: Seq[(String, Int)],
      query: Streams => DataFrame
  )

  private lazy val people = maintainer("id STRING, v INT, op STRING", Seq(Seq("id")), op = Some("op"))

  private def named(options: (String, String)*)(streams: Streams): DataFrame = streams
    .marked("o")
    .join(table(people.root, options.toMap).as("p"), expr("o.id = p.id"), "left_outer")
    .selectExpr("o.id", "coalesce(p.v, o.v) AS v")

  private val pairs = Seq("a" -> 11, "b" -> 12, "end" -> 99)
  private val ofTable = Seq("a" -> 21, "b" -> 22, "end" -> 99)

  private val cases = Seq(
    Ours(
      "interval join",
      Set("IntervalJoinExec"),
      pairs,
      hourly("left_outer")(_).selectExpr("o.id", "coalesce(d.v, o.v) AS v")
    ),
    Ours(
      "window join",
      Set("IntervalJoinExec", "StreamOrderExec"),
      pairs,
      streams =>
        Frames
          .windows(
            streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), "left_outer"),
            JoinWindows(Map(Side.Right -> JoinWindow(60L * 60 * 1000000, true)))
          )
          .selectExpr("o.id", "coalesce(d.v, o.v) AS v")
    ),
    Ours(
      "temporal join",
      Set("TemporalJoinExec"),
      pairs,
      temporal()(_).selectExpr("o.id", "coalesce(d.v, o.v) AS v")
    ),
    Ours(
      "as-of join",
      Set("TemporalJoinExec"),
      pairs,
      asof()(_).selectExpr("o.id", "coalesce(d.v, o.v) AS v")
    ),
    Ours("look-up", Set("TableLookUpExec"), ofTable, named()),
    Ours("look-up that waits", Set("RematchJoinExec"), ofTable, named("rematch" -> "1 hour")),
    Ours(
      "delta join",
      Set("LookUpExec", "ChangesExec"),
      Seq("a" -> 21, "b" -> 22),
      streams => {
        val delta = Frames.delta(
          spark,
          Seq("p" -> people.root, "q" -> people.root),
          "p.id = q.id",
          Seq("p.id", "q.v")
        )
        // The source of the rows that end the other queries.
        delta.select("id", "v").union(streams.raw("o").where("false").select("id", "v"))
      }
    )
  )

  private def ids: DataFrame = spark.range(1).selectExpr("explode(array('a', 'b', 'end')) AS id")

  /** Streams may have all of these above a join, and all of them are in its stage. */
  private def belowSpark(ours: DataFrame): DataFrame = ours
    .withColumn("copy", explode(array(lit(1), lit(2))))
    .join(ids.hint("merge"), "id")
    .join(ids.hint("shuffle_hash"), "id")
    .join(broadcast(spark.range(1).selectExpr("100 AS most")), expr("v < most"))
    .limit(1000)
    .select("id", "v")

  private val sparks = Seq(
    classOf[GenerateExec],
    classOf[SortMergeJoinExec],
    classOf[ShuffledHashJoinExec],
    classOf[BroadcastNestedLoopJoinExec]
  )

  /** Runs a query over a few rows; returns its rows, and its plan in the first batch. */
  private def outcome(query: Streams => DataFrame): (Seq[(String, Int)], SparkPlan) = {
    val streams = newStreams()
    val rows = mutable.ArrayBuffer.empty[(String, Int)]
    var plan = Option.empty[SparkPlan]
    def take(batch: DataFrame): Unit = {
      val id = spark.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)
      val running = spark.streams.get(id).asInstanceOf[StreamingQueryWrapper].streamingQuery
      if (plan.isEmpty) plan = Some(running.asInstanceOf[MicroBatchExecution].lastExecution.executedPlan)
      val empty = batch.isEmpty
      val numbered =
        batch.sample(1.0).withColumn("n", row_number().over(Window.partitionBy("id").orderBy("v")))
      val taken = numbered.collect().toSeq
      assert(batch.limit(1).count() == (if (empty) 0 else 1))
      assert(taken.isEmpty == empty)
      rows.synchronized(rows ++= taken.map(row => row.getString(0) -> row.getInt(1))): Unit
    }
    val started = query(streams).writeStream
      .foreachBatch((batch: DataFrame, _: Long) => take(batch))
      .option("checkpointLocation", newFolder())
      .start()
    try {
      for (
        batch <- Seq(
          Seq(o("a", "10:00", 1), o("b", "10:00", 2), d("a", "10:00", 11), d("b", "10:00", 12)),
          Seq(o("end", "20:00", 99), d("past", "20:00", 99)),
          Seq(o("past", "22:00", 100), d("past", "22:00", 100))
        )
      ) {
        batch.groupMap(_._1)(_._2).foreach { case (name, some) => streams.stream(name).addData(some) }
        started.processAllAvailable()
      }
      (rows.toSeq.sorted, plan.get)
    } finally started.stop()
  }

  private def owns(plan: SparkPlan): Seq[OwnExec] = plan.collect { case own: OwnExec => own }

  private def javaBytes(value: AnyRef): Array[Byte] =
    JavaUtils.bufferToArray(SparkEnv.get.closureSerializer.newInstance().serialize(value))

  /** What a task gets in place of an operator answers what Spark's operators ask in a task. */
  private def checkInTask(own: OwnExec): Unit = {
    val bytes = javaBytes(own)
    val inTask = SparkEnv.get.closureSerializer.newInstance().deserialize[SparkPlan](ByteBuffer.wrap(bytes))
    assert(inTask.output == own.output)
    assert(inTask.schema == own.schema)
    assert(inTask.children.isEmpty)
    assert(inTask.toString.contains(own.nodeName))
    inTask.cleanupResources()
    inTask.resetMetrics()
    assert(bytes.length < 4000 + 500 * own.output.size, own.nodeName)
  }

  /** Tasks of our own get neither an operator nor what stands in for it. */
  private def checkOwnTasks(own: OwnExec): Unit = {
    val sent = new String(javaBytes(own.execute()), ISO_8859_1)
    val isSent = sent.contains(classOf[PlanInTask].getName)
    assert(!isSent, own.nodeName)
  }

  /** `make test` has two of the joins, with or without code generation by turns. */
  for (
    (ours, number) <- SparkTest.part(cases, every = 4).zipWithIndex;
    codegen <- SparkTest.part(Seq(true, false), every = 2, from = number)
  )
    test(s"${ours.name} below Spark's operators, code generation ${if (codegen) "on" else "off"}") {
      withConf("spark.sql.codegen.wholeStage" -> codegen.toString) {
        during(people) {
          if (people.folder.newest < 0) people.feed(Row("a", 21, "insert"), Row("b", 22, "insert"))
          val (rows, plan) = outcome(streams => belowSpark(ours.query(streams)))
          assert(ours.operators.subsetOf(owns(plan).map(_.getClass.getSimpleName).toSet), plan)
          assert(sparks.filterNot(spark => plan.exists(spark.isInstance)).isEmpty, plan)
          assert(rows == ours.rows.flatMap(row => Seq(row, row)))
          owns(plan).foreach { own =>
            checkInTask(own)
            checkOwnTasks(own)
          }
        }
      }
    }
}
