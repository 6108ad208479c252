package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.{
  HDFSBackedStateStoreProvider,
  RocksDBStateStoreProvider
}
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.JoinType

/**
 * Joins on time alone, or with a condition that is not an equality: one side is broadcast to all
 * tasks.
 */
class NoEqualitySuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val Near = "d.t BETWEEN o.t - INTERVAL 5 MINUTES AND o.t + INTERVAL 10 MINUTES"

  private def near(how: String, condition: String = Near, delay: String = "0 seconds"): Streams => DataFrame =
    streams => picked(streams.marked("o", delay).join(streams.marked("d", delay), expr(condition), how), how)

  private def picked(joined: DataFrame, how: String): DataFrame =
    joined.selectExpr((if (how == "left_semi" || how == "left_anti") Seq("o.v") else Seq("o.v", "d.v")): _*)

  private val story: Seq[Seq[(String, Row)]] = {
    val random = new scala.util.Random(7)
    Seq.tabulate(6) { batch =>
      Seq.fill(25)(1 + random.nextInt(1000)).zipWithIndex.map { case (v, n) =>
        val time = f"${10 + batch / 2}:${30 * (batch % 2) + random.nextInt(30)}%02d:${random.nextInt(60)}%02d"
        (if (n % 2 == 0) "o" else "d") -> row(s"k${random.nextInt(3)}", time, v)
      }
    }
  }

  private def expected(how: String, condition: String): Seq[String] = {
    val fields = StructType.fromDDL(Events)
    def table(name: String) = {
      val rows = story.flatten.collect { case (`name`, row) => row }
      spark.createDataFrame(spark.sparkContext.parallelize(rows), fields).as(name)
    }
    picked(table("o").join(table("d"), expr(condition), how), how).collect().map(text(_: Row)).toSeq.sorted
  }

  private val providers = Seq(
    "default store" -> classOf[HDFSBackedStateStoreProvider].getName,
    "RocksDB" -> classOf[RocksDBStateStoreProvider].getName
  )

  /** `make test` has every third type, each with one of the stores. */
  for {
    (joinType, number) <- SparkTest.part(JoinType.all, every = 3).zipWithIndex
    (store, provider) <- SparkTest.part(providers, every = 2, from = number)
  } test(s"${joinType.name} with restarts emits the rows of a batch join, $store") {
    val residual = s"$Near AND abs(o.v - d.v) < 300"
    withConf(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> provider, SQLConf.SHUFFLE_PARTITIONS.key -> "3") {
      running(job(near(joinType.name, residual, "40 minutes"))) { job =>
        story.zipWithIndex.foreach { case (rows, number) =>
          job.feed(rows: _*)
          if (number % 2 == 1) job.restart()
        }
        (0 until 2).foreach(_ => job.feed(o("end", "23:00", 99999), d("end", "20:00", 99999)))
        val seen = withoutClosingRows(job.seen.flatMap(_.rows), "99999").sorted
        assert(seen == expected(joinType.name, residual))
        assert(job.dropped == 0)
      }
    }
  }

  test("rows of the broadcast side are counted once, late ones too") {
    running(job(near("left_outer"))) { job =>
      job.feed(o("a", "10:00", 1), o("b", "10:00", 2), d("c", "10:01", 3), d("e", "10:02", 4))
      assert(job.state == ((2, 2)))
      assert(job.operator.numRowsTotal == 4)
      assert(job.operator.numRowsUpdated == 4)
      // W(d) = 12:00 evicts orders before 11:50, W(o) = 12:00 deliveries before 11:55.
      job.feed(o("x", "12:00", 5), d("x", "12:00", 6))
      job.feed(o("x", "12:00", 5), d("x", "12:00", 6))
      assert(job.state == ((2, 2)))
      // Both watermarks are 12:00.
      job.feed(o("late", "09:00", 7), d("late", "09:00", 8), d("late", "09:01", 9))
      assert(job.operator.numRowsDroppedByWatermark == 3)
      assert(job.metric("rightLateRows") == 2)
    }
  }

  test("only the first task stores the rows of the broadcast side") {
    running(job(near("inner"))) { job =>
      val rows = (0 until 40).map(n => d(s"d$n", "10:00", n))
      job.feed(rows :+ o("a", "09:00", 1): _*)
      def bytes(partition: Int): Long = {
        val folder = new java.io.File(s"${job.checkpoint}/state/1000/$partition")
        folder.listFiles().filter(_.getName.endsWith(".delta")).map(_.length).sum
      }
      assert(bytes(0) > 2 * bytes(1), s"${bytes(0)} and ${bytes(1)} bytes")
      // Both tasks find them.
      val pairs = job.feed((0 until 40).map(n => o(s"o$n", "10:00", n)): _*)
      assert(pairs.size == 1600)
      job.restart()
      assert(job.feed((0 until 40).map(n => o(s"p$n", "10:00", n)): _*).size == 1600)
    }
  }

  test("a full outer join runs in one task, and the plan says so") {
    running(job(near("full_outer"))) { job =>
      job.feed(o("a", "10:00", 1), d("b", "10:05", 2))
      assert(job.plan.toString.contains("one task"))
      assert(!new java.io.File(s"${job.checkpoint}/state/1000/1").exists())
    }
  }

  test("the plan says which side is broadcast to all tasks") {
    for ((how, spread, sent) <- Seq(("inner", "o", "d"), ("left_anti", "o", "d"), ("right_outer", "d", "o")))
      running(job(near(how))) { job =>
        job.feed(o("a", "10:00", 1), d("b", "10:05", 2))
        val text = job.plan.toString
        assert(text.contains(s"$spread spread over 2 tasks"), text)
        assert(text.contains(s"$sent sent to all of them"), text)
      }
  }

  test("rows may have columns that cannot be hashed") {
    val condition = "d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"
    running(job { streams =>
      val point = "st_geomfromwkb(if(v > 0, X'0101000000000000000000F03F0000000000000040', NULL))"
      val left = streams
        .marked("o")
        .selectExpr("t", "map(id, v) AS m", s"$point AS g", "to_variant_object(struct(v)) AS x")
        .as("o")
      left
        .join(streams.marked("d"), expr(condition))
        .selectExpr("o.m['a']", "d.v", "octet_length(st_asbinary(o.g))", "CAST(o.x AS STRING)")
    }) { job =>
      assert(job.feed(o("a", "10:00", 1), d("b", "10:05", 2)) == Seq("""1 2 21 {"v":1}"""))
    }
  }

  test("a join without an equality can follow one with a key") {
    running(
      job(streams =>
        hourly()(streams)
          .join(streams.marked("r"), expr("r.t BETWEEN d.t AND d.t + INTERVAL 10 MINUTES"), "left_outer")
          .selectExpr("o.v", "d.v", "r.v")
      )
    ) { job =>
      job.feed(
        o("a", "10:00", 1),
        d("a", "10:05", 2),
        "r" -> row("x", "10:10", 3),
        o("b", "10:00", 4),
        d("b", "10:30", 5)
      )
      // W(r) = 13:00 evicts pairs with deliveries before 12:50.
      val out = job.feed(o("z", "13:00"), d("y", "13:00"), "r" -> row("x", "13:00", 0))
      assert(job.seen.flatMap(_.rows).sorted.toSeq == Seq("1 2 3", "4 5 -"), out.toString)
    }
  }
}
