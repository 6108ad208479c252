package org.apache.spark.sql.streamjoin.operator

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.streamjoin.state.{IndexCache, JoinIndex}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.{IntegerType, StructType}
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.{JoinType, Side}

class OperatorSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def ids(how: String, condition: String = Hourly): Streams => DataFrame = streams => {
    val joined = hourly(how, condition)(streams)
    if (JoinType.named(how).get.filtered.isDefined) joined.selectExpr("o.id", "o.v")
    else joined.selectExpr("o.id", "o.v", "d.id", "d.v")
  }

  private val both = Table6(
    inner = Seq("a 1 a 2"),
    left = Seq("a 1 a 2", "b 3 - -"),
    right = Seq("- - c 4", "a 1 a 2"),
    full = Seq("- - c 4", "a 1 a 2", "b 3 - -"),
    semi = Seq("a 1"),
    anti = Seq("b 3")
  )

  /** The output of each join type for the same rows. */
  private case class Table6(
      inner: Seq[String],
      left: Seq[String],
      right: Seq[String],
      full: Seq[String],
      semi: Seq[String],
      anti: Seq[String]
  ) {
    def apply(how: String): Seq[String] = Map(
      "inner" -> inner,
      "left_outer" -> left,
      "right_outer" -> right,
      "full_outer" -> full,
      "left_semi" -> semi,
      "left_anti" -> anti
    )(how)
  }

  for (how <- JoinType.all.map(_.name)) {
    test(s"$how: rows are emitted once, matched flags outlast a restart, the state ends empty") {
      running(job(ids(how))) { job =>
        val out = mutable.ArrayBuffer.empty[String]
        out ++= job.feed(o("a", "10:00", 1), o("b", "10:00", 3), d("c", "10:00", 4), d("a", "10:30", 2))
        job.restart()
        // W(d) = 12:40 evicts orders before 11:40, W(o) = 10:20 deliveries before 10:20.
        out ++= job.feed(o("zz", "10:20", 0), d("zz", "12:40", 0))
        job.restart()
        // Past everything; what is left of zz has no match on the other side.
        out ++= job.feed(o("end", "15:00"), d("end", "15:00"))
        out ++= job.feed(o("end", "20:00"), d("end", "20:00"))
        assert(withoutClosingRows(out, "end", "zz").sorted == both(how))
        assert(job.joins.size == 1)
        assert(job.operator.numRowsTotal <= 4)
      }
    }

    test(s"$how: rows that cannot match are not buffered") {
      val condition = s"$Hourly AND o.v > 0 AND d.v > 0"
      running(job(ids(how, condition))) { job =>
        val rows = job.feed(
          o(null, "10:00", 1),
          d(null, "10:00", 1),
          o("a", "10:00", 0),
          d("a", "10:00", 0),
          o("b", null, 1),
          d("b", null, 1)
        )
        val left = Seq("- 1 - -", "a 0 - -", "b 1 - -")
        val right = Seq("- - - 1", "- - a 0", "- - b 1")
        val expected = Table6(Nil, left, right, left ++ right, Nil, Seq("- 1", "a 0", "b 1"))
        assert(rows == expected(how).sorted)
        assert(job.operator.numRowsTotal == 0)
        assert(job.metric("paddedRows") == expected(how).size)
      }
    }

    test(s"$how: the output has the columns and nullability of the join type") {
      val streams = newStreams()
      val left = streams.marked("o").selectExpr("id", "t", "coalesce(v, 0) AS v").as("o")
      val right = streams.marked("d").selectExpr("id", "t", "coalesce(v, 0) AS w").as("d")
      val joined = left.join(right, expr(Hourly), how)
      val join = joins(joined).head
      val names =
        Seq("id", "t", "v") ++ (if (JoinType.named(how).get.filtered.isDefined) Nil else Seq("id", "t", "w"))
      assert(joined.columns.toSeq == names)
      val nullable = join.output.filter(_.dataType == IntegerType).map(_.nullable)
      val expected = how match {
        case "inner" => Seq(false, false)
        case "left_outer" => Seq(false, true)
        case "right_outer" => Seq(true, false)
        case "full_outer" => Seq(true, true)
        case _ => Seq(false)
      }
      assert(nullable == expected)
      // From 4.3 on, Spark declares every column of a join of two streams as nullable.
      val declared = if (SPARK_VERSION.split('.')(1).toInt >= 3) expected.map(_ => true) else expected
      assert(joined.schema.fields.filter(_.dataType == IntegerType).map(_.nullable).toSeq == declared)
    }
  }

  for (how <- SparkTest.part(JoinType.all.map(_.name), every = 3, from = 1))
    test(s"$how: duplicate rows are emitted as often as they came") {
      running(job(ids(how))) { job =>
        val out = job.feed(o("a", "10:00", 1), o("a", "10:00", 1)) ++
          job.feed(d("a", "10:10", 2), d("a", "10:10", 2)) ++
          job.feed(o("a", "10:00", 1)) ++
          job.feed(o("end", "15:00"), d("end", "15:00")) ++
          job.feed(o("end", "20:00"), d("end", "20:00"))
        // W(o) is 10:00 when the third order comes: it is not late.
        val expected = how match {
          case "left_semi" => Seq.fill(3)("a 1")
          case "left_anti" => Nil
          case _ => Seq.fill(6)("a 1 a 2")
        }
        assert(withoutClosingRows(out, "end") == expected)
      }
    }

  for (how <- Seq("left_semi", "left_anti")) test(s"$how: a left row leaves the state with its first match") {
    running(job(ids(how))) { job =>
      job.feed(o("a", "10:00", 1), o("a", "10:01", 2), o("b", "10:00", 3))
      assert(job.state == ((3, 0)))
      job.feed(d("a", "10:30"))
      assert(job.state._1 == 1)
      assert(job.operator.numRowsTotal == job.state._1 + job.state._2)
      // An order that comes after its match is never buffered.
      job.feed(o("a", "10:02", 4))
      assert(job.state._1 == 1)
    }
  }

  test("buffered rows are counted on both sides, and removed once both watermarks have passed them") {
    running(job()) { job =>
      job.feed(o("a", "10:00"), d("b", "10:30"))
      assert(job.state == ((1, 1)))
      assert(job.operator.numRowsTotal == 2)
      job.feed(o("a", "11:00"), d("b", "11:30"))
      // W(d) = 11:30 evicts orders before 10:30, W(o) = 11:00 deliveries before 11:00.
      assert(job.state == ((1, 1)))
      assert(job.operator.numRowsTotal == 2)
      assert(job.operator.numRowsRemoved == 2)
    }
  }

  testLong("an index is dropped once its query has stopped") {
    val before = IndexCache.held
    val checkpoint = newFolder()
    def mine = (IndexCache.held -- before).filter(_.storeId.checkpointRootLocation.contains(checkpoint))
    val running = job(checkpoint = checkpoint).start()
    running.feed(o("a", "10:00"), d("a", "10:30"))
    assert(mine.size == 2)
    IndexCache.sweep()
    assert(mine.size == 2)
    running.stop()
    // Spark unloads the stores of a stopped query in its maintenance.
    org.apache.spark.sql.execution.streaming.state.StateStore.unloadAll()
    IndexCache.sweep()
    assert(mine.isEmpty)
  }

  test("without the index of the previous batch, all rows are read from the store") {
    for (how <- SparkTest.part(Seq("full_outer", "left_semi"), every = 2)) {
      def out(empty: Boolean): Seq[Seq[String]] = running(job(ids(how))) { job =>
        Seq(
          Seq(o("a", "10:00", 1), o("b", "10:00", 2), d("c", "10:00", 3)),
          Seq(d("a", "10:10", 4)),
          // The order of 9:30 is late: W(o) = 10:00.
          Seq(o("c", "09:30", 5), o("c", "10:00", 6), d("a", "10:20", 7)),
          // W(d) = 15:00 evicts orders before 14:00, W(o) = 15:00 deliveries before 15:00.
          Seq(o("end", "15:00"), d("end", "15:00"))
        ).map { rows =>
          val out = job.feed(rows: _*)
          if (empty) IndexCache.sweep(isLoaded = _ => false)
          out
        }
      }
      assert(out(empty = true) == out(empty = false))
    }
  }

  test("an index of another version is not used") {
    running(job(ids("left_outer"))) { job =>
      job.feed(o("a", "10:00", 1), o("b", "10:00", 2))
      val old = IndexCache.held.toSeq.flatMap(id => IndexCache.take[JoinIndex](id).map(id -> _))
      job.feed(d("a", "10:10", 3), o("c", "10:10", 4))
      // What an executor that did not run the last batch would hold.
      IndexCache.sweep(isLoaded = _ => false)
      old.foreach { case (id, index) => IndexCache.put(id, index) }
      assert(job.feed(d("c", "10:20", 5), d("a", "10:20", 6)) == Seq("a 1 a 6", "c 4 c 5"))
      // W(d) = 15:00 evicts orders before 14:00.
      assert(job.feed(o("end", "15:00"), d("end", "15:00")) == Seq("b 2 - -", "end 0 end 0"))
    }
  }

  test("a sink that reads a batch twice gets the same rows, and the next batch is exact") {
    val twice = job(ids("full_outer"))
    twice.sink = batch => {
      val first = batch.collect().map(text(_: Row)).toSeq.sorted
      val second = batch.collect().map(text(_: Row)).toSeq.sorted
      assert(first == second)
      first
    }
    running(twice) { job =>
      assert(job.feed(o("a", "10:00", 1), o("b", "10:00", 2), d("c", "10:00", 3)).isEmpty)
      assert(job.feed(d("a", "10:10", 4)) == Seq("a 1 a 4"))
      job.restart()
      assert(job.feed(d("a", "10:20", 5)) == Seq("a 1 a 5"))
      // W(d) = 15:00 evicts orders before 14:00, W(o) = 15:00 deliveries before 15:00.
      val end = job.feed(o("end", "15:00"), d("end", "15:00"))
      assert(end == Seq("- - c 3", "b 2 - -", "end 0 end 0"))
    }
  }

  test("two sinks of one join have a state each") {
    // From files: a stream in memory forgets its rows for all queries once one has committed them.
    def stream(time: String, value: Int): DataFrame = {
      val folder = newFolder()
      spark
        .createDataFrame(Seq(row("a", time, value)).asJava, StructType.fromDDL(Events))
        .write
        .mode("append")
        .parquet(folder)
      spark.readStream.schema(Events).parquet(folder).withWatermark("t", "0 seconds")
    }
    val frame = stream("10:00", 1)
      .as("o")
      .join(stream("10:10", 2).as("d"), expr(Hourly))
      .selectExpr("o.id", "o.v", "d.id", "d.v")
    val names = Seq("one", "two")
    val queries = names.map { name =>
      frame.writeStream.format("memory").queryName(name).option("checkpointLocation", newFolder()).start()
    }
    try {
      queries.foreach(_.processAllAvailable())
      for (name <- names) assert(spark.table(name).collect().map(text(_: Row)).toSeq == Seq("a 1 a 2"))
    } finally queries.foreach(_.stop())
  }

  test("the output may have a column twice and no event time") {
    running(job(hourly("left_outer")(_).selectExpr("o.v AS a", "o.v AS b", "d.v + 1 AS c"))) { job =>
      // At the end, W(d) = 15:00 evicts orders before 14:00; x waits.
      val out = job.feed(o("a", "10:00", 1), o("b", "10:00", 5), d("a", "10:30", 2)) ++
        job.feed(o("x", "15:00", 9), d("y", "15:00", 9))
      assert(out == Seq("1 1 3", "5 5 -"))
    }
  }

  test("with a limit above the join, the rest of the batch is still buffered") {
    running(job(ids("inner")(_).limit(2))) { job =>
      val first = job.feed(o("a", "10:00", 1), o("b", "10:00", 2), o("c", "10:00", 3), d("a", "10:10", 4))
      val second = job.feed(d("b", "10:10", 5), d("c", "10:10", 6))
      // No row is evicted: W(o) stays at 10:00, and W(d) is at most 10:20.
      val third = job.feed(d("c", "10:20", 7))
      assert((first ++ second ++ third).size == 2)
      assert(job.operator.numRowsTotal == 7)
    }
  }

  test("a limit above a union or a chain of joins ends no task before its state is committed") {
    val third = "p.id = e.id AND e.t BETWEEN p.t AND p.t + INTERVAL 1 HOUR"
    val union: Streams => DataFrame = streams => {
      def pairs(name: String) =
        streams.marked("o").join(streams.marked(name).as("d"), expr(Hourly)).selectExpr("o.v", "d.v AS w")
      pairs("d").union(pairs("e"))
    }
    val chain: Streams => DataFrame = streams =>
      hourly("left_outer")(streams)
        .selectExpr("o.id", "o.t", "o.v", "d.v AS w")
        .as("p")
        .join(streams.marked("e"), expr(third), "left_outer")
        .selectExpr("p.v", "p.w")
    withConf(SQLConf.SHUFFLE_PARTITIONS.key -> "1") {
      for (query <- Seq(union, chain)) running(job(query(_).limit(4))) { job =>
        def feed(ids: String*) = job.feed(ids.flatMap { id =>
          Seq(o(id, "10:00", 1), d(id, "10:10", 2), "e" -> row(id, "10:10", 2))
        }: _*)
        val (first, second) = (feed("a", "b", "c", "d", "e"), feed("f"))
        assert(first ++ second == Seq.fill(4)("1 2"))
        val (states, each) = (job.progress.stateOperators.map(_.numRowsTotal), 2 * 6)
        assert(states.toSeq.filter(_ > 1) == Seq(each, each))
      }
    }
  }

  test("both sides may have the same column names") {
    running(job { streams =>
      val left = streams.marked("o")
      val right = streams.marked("d")
      left.join(right, expr(Hourly)).select(left("id"), left("v"), right("v"))
    })(job => assert(job.feed(o("a", "10:00", 1), d("a", "10:10", 2)) == Seq("a 1 2")))
  }

  for (before <- Seq("true", "false")) test(s"a stream feeds two joins, watermarks before filters: $before") {
    withConf("spark.streamjoin.watermarkBeforeFilter" -> before) {
      running(job { streams =>
        // The same rows and watermarks in both, so that Spark could reuse their exchange.
        val orders = streams.marked("o")
        def one(name: String, rows: String): DataFrame = orders
          .where(rows)
          .join(
            streams.marked(name),
            expr(s"o.id = $name.id AND o.t BETWEEN $name.t AND $name.t + INTERVAL 1 HOUR"),
            "right_outer"
          )
          .selectExpr(s"'$name' AS name", "o.v AS a", s"$name.v AS b")
        one("d", "v < 10").union(one("e", "v >= 10"))
      }) { job =>
        assert(job.feed(d("a", "10:00", 2), o("a", "10:00", 1), "e" -> row("a", "10:05", 3)) == Seq("d 1 2"))
        job.restart()
        assert(job.feed(o("z", "10:50", 11), o("a", "10:00", 4)) == Seq("d 4 2"))
        // Without barriers, the order of noon moves only the watermark of the second join.
        val rest = job.feed(d("b", "10:40", 5), o("a", "10:50", 12), o("y", "12:00", 13)) ++
          job.feed(o("x", "14:00", 6), "e" -> row("b", "12:00", 7)) ++ job.feed(o("x", "14:00", 14))
        assert(rest.sorted == Seq("d - 5", "e - 7", "e 12 3"))
        assert(job.joins.size == 2)
        assert(job.joins.map(_.join.ordinal) == Seq(0, 1))
        // One batch, one set of watermarks, written once.
        assert(job.joins.flatMap(_.binding).distinct.size == 1)
      }
    }
  }

  test("a stream can be joined with itself, told apart only by aliases") {
    val cases = for (inputs <- selves; how <- Seq("inner", "left_outer", "left_semi")) yield (inputs, how)
    for ((inputs, how) <- SparkTest.part(cases, every = 4))
      running(job { streams =>
        val (left, right) = inputs(streams)
        left.join(right, expr(s"$Hourly AND d.v > o.v"), how).selectExpr("o.v")
      }) { job =>
        assert(job.feed(o("a", "10:00", 1)).isEmpty)
        assert(job.feed(o("a", "10:30", 2), o("b", "10:30", 7)) == Seq("1"))
        job.restart()
        assert(job.feed(o("a", "10:40", 3)) == (if (how == "left_semi") Seq("2") else Seq("1", "2")))
        assert(job.joins.size == 1)
      }
  }

  test("an availableNow run emits all that can be emitted before it stops") {
    val streams = newStreams()
    streams.stream("o").addData(row("a", "10:00", 1), row("b", "10:00", 2))
    // W(d) = 18:00 evicts orders before 17:00.
    streams.stream("d").addData(row("a", "10:10", 3), row("x", "18:00", 4))
    val query = ids("left_outer")(streams).writeStream
      .trigger(Trigger.AvailableNow())
      .format("memory")
      .queryName("available")
      .option("checkpointLocation", newFolder())
      .start()
    query.awaitTermination()
    assert(spark.table("available").collect().map(text(_: Row)).toSeq.sorted == Seq("a 1 a 3", "b 2 - -"))
  }

  for (side <- Side.both) test(s"a batch can have rows on the ${side.name} side only") {
    running(job(ids("full_outer"))) { job =>
      val (own, other) = if (side.index == 0) (o _, d _) else (d _, o _)
      assert(job.feed(own("a", "10:00", 1)).isEmpty)
      assert(job.feed(own("a", "10:00", 2)).isEmpty)
      assert(job.feed(other("a", "10:00", 3)).size == 2)
    }
  }
}
