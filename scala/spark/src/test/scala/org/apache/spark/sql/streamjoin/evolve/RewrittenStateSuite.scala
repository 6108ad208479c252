package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.JoinTest.{Job, Streams}
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.{AnalysisException, DataFrame}

/** Changes for which the rows in state are written again: columns, conditions on one side, keys. */
class RewrittenStateSuite extends AnyFunSuite with EvolutionTest {

  private val noData = "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
  private val format2 = Seq(
    "spark.sql.streaming.stateStore.providerClass" ->
      "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"
  )

  /** The batch of the change. */
  private val N = 4

  /**
   * Columns that are added to the inputs of a join, and to its output.
   *
   * @param v
   *   the type of `v`
   */
  private case class Kept(orders: Seq[String] = Nil, deliveries: Seq[String] = Nil, v: String = "INT") {
    private def input(streams: Streams, name: String, more: Seq[String]) =
      streams.marked(name).selectExpr(Seq("id", "t", s"CAST(v AS $v) AS v") ++ more: _*).as(name)

    def frame(query: ChangedQuery)(streams: Streams): DataFrame = {
      val joined = input(streams, "o", orders)
        .join(input(streams, "d", deliveries), expr(query.condition), query.how)
      def names(of: Seq[String], alias: String) = of.map(column => s"$alias.${column.split(' ').last}")
      val left = "o.v AS a" +: names(orders, "o")
      joined.selectExpr(
        (if (query.joinType.filtered.isDefined) left else left ++ ("d.v AS b" +: names(deliveries, "d"))): _*
      )
    }
  }

  /** The values of the order and of the delivery. */
  private def columns(row: String): (String, String) = {
    val found = row.split(' ')
    (found.head, found(1))
  }

  /** The column of a row of a later batch, null in rows from before. */
  private def since(batch: Int, v: String, value: Int => Int): String =
    if (v == "-" || v.toInt < 100 * batch) "-" else value(v.toInt).toString

  /** The output of each batch, for a query that changes in batch N. */
  private def expected(
      was: ChangedQuery,
      is: ChangedQuery,
      before: String => String,
      after: String => String
  ): Seq[Seq[String]] = {
    val oracle = new ChangedQueryOracle(noData = false)
    (0 until 8).map { batch =>
      val out = oracle.feed(if (batch < N) was else is, rows(batch))
      out.map(if (batch < N) before else after).sorted
    }
  }

  // One column less on the left, one more on the right.

  private val fewer = Kept(orders = Seq("v * 10 AS x"))
  private val more = Kept(deliveries = Seq("v * 100 AS y"))

  private def withX(row: String) = columns(row) match {
    case (a, b) => s"$a ${if (a == "-") "-" else a.toInt * 10} $b"
  }

  private def withY(row: String) = columns(row) match {
    case (a, b) => s"$a $b ${since(N, b, _ * 100)}"
  }

  private def run(job: Job, batches: Range): Seq[Seq[String]] = running(job)(job => batches.map(feed(job, _)))

  private val types = Seq("inner", "left_outer", "full_outer", "right_outer").zipWithIndex

  for ((how, at) <- SparkTest.part(types, every = 4)) {
    val query = hour.copy(how, from = -45)
    lazy val wanted = {
      val rows = expected(query, query, withX, withY)
      // Deliveries from before the change have no `y`.
      assert(rows(N).exists(row => columns(row)._2 != "-" && row.endsWith(" -")))
      rows
    }

    test(s"$how: a column is dropped, another one is added, with other partitions") {
      withConf(noData +: (if (at % 2 == 1) format2 else Nil): _*) {
        val old = job(fewer.frame(query))
        assert(run(old, 0 until N) == wanted.take(N))
        withConf(Evolve -> "exact", StreamJoinConf.Partitions.key -> "3") {
          val next = old.successor(more.frame(query))
          running(next) { job =>
            assert((N until 6).map(feed(job, _)) == wanted.slice(N, 6))
            assert(job.joins.head.numPartitions == 3)
            // A later run continues with the rewritten state, and does not rewrite it again.
            job.restart()
            assert((6 until 8).map(feed(job, _)) == wanted.drop(6))
          }
        }
      }
    }

    test(s"$how: the first batch with other columns runs again, with the same rows") {
      withConf(noData, Evolve -> "exact") {
        val next = after(fewer.frame(query), N).successor(more.frame(query))
        running(next) { job =>
          assert(feed(job, N) == wanted(N))
          job.redoLast()
          assert(job.seen.map(_.rows.sorted).toSeq == Seq(wanted(N), wanted(N)))
          // From the state that the first attempt has written.
          assert(java.nio.file.Path.of(next.checkpoint, "stream-join-state").toFile.list.length == 1)
          assert((N + 1 until 8).map(feed(job, _)) == wanted.drop(N + 1))
        }
      }
    }

    test(s"$how: after a failed attempt with other columns, either query continues") {
      withConf(noData +: (if (at % 2 == 0) format2 else Nil): _*) {
        for (again <- SparkTest.part(Seq(fewer, more), every = 2)) {
          val failing = after(fewer.frame(query), N).successor(more.frame(query))
          failing.sink = batch => {
            batch.collect()
            throw new IllegalStateException("no room")
          }
          withConf(Evolve -> "exact") {
            running(failing)(job => intercept[StreamingQueryException](feed(job, N)))
          }
          val rows = if (again == more) wanted else expected(query, query, withX, withX)
          withConf(Evolve -> (if (again == more) "exact" else "reject")) {
            running(failing.successor(again.frame(query))) { job =>
              job.settle()
              assert(job.seen.map(_.rows.sorted).toSeq == Seq(rows(N)))
              assert((N + 1 until 8).map(feed(job, _)) == rows.drop(N + 1))
            }
          }
        }
      }
    }
  }

  test("a join with other columns is rejected by default, and the dry run shows each column") {
    val old = after(fewer.frame(hour), N)
    val rows = streamjoin.StreamJoin.evolution(more.frame(hour)(newStreams()), old.checkpoint).collect()
    val shown = rows.map(_.toSeq.map(String.valueOf)).toSeq
    assert(
      shown.map(_.slice(1, 6)) == Seq(
        Seq("left_columns", "x int", "none", "rewritten", "exact"),
        Seq("right_columns", "none", "y int", "rewritten", "exact, null in rows from before the change")
      )
    )
    assert(shown.forall(_.last.contains(s"$Evolve=exact accepts this change")))
    val error = failed(old.successor(more.frame(hour)))
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
    assert(error.getMessage.contains(s"$Evolve=exact accepts this change"))
  }

  private def failed(job: Job): AnalysisException = {
    val error = intercept[Exception](running(job)(feed(_, N)))
    Iterator
      .iterate[Throwable](error)(_.getCause)
      .takeWhile(_ != null)
      .collectFirst { case known: AnalysisException => known }
      .getOrElse(fail(error))
  }

  test("types become wider, also those of keys and of the condition") {
    withConf(noData, Evolve -> "exact") {
      def frame(kept: Kept, query: ChangedQuery)(streams: Streams) = kept.frame(query)(streams)
      val query = hour.copy("left_outer", pair = ChangedQuery.Less)
      val narrow = Kept(Seq("CAST(v AS SMALLINT) AS x"), Seq("CAST(v AS FLOAT) AS y"), "INT")
      val wide = Kept(Seq("CAST(v AS DECIMAL(12, 2)) AS x"), Seq("CAST(v AS DOUBLE) AS y"), "BIGINT")
      def number(text: String, end: String) = if (text == "-") "-" else s"$text$end"
      def shown(end: String)(row: String) = columns(row) match {
        case (a, b) => s"$a ${number(a, end)} $b ${number(b, ".0")}"
      }
      val wanted = expected(query, query, shown(""), shown(".00"))
      val old = job(frame(narrow, query))
      assert(run(old, 0 until N) == wanted.take(N))
      assert(run(old.successor(frame(wide, query)), N until 8) == wanted.drop(N))
      val error = failed(old.successor(frame(narrow, query)))
      assert(error.getMessage.contains("BIGINT cannot become INT without loss: convert v above the join"))
    }
  }

  test("a column that the condition needs, or that is never null, cannot be added") {
    val old = after(Kept().frame(hour), N)
    withConf(Evolve -> "allow") {
      val needed = hour.copy(pair = ChangedQuery.Pair("o.v + d.y >= 0", (_, _) => true))
      val unknown = failed(old.successor(more.frame(needed)))
      assert(unknown.getMessage.contains("no y, which the condition or a filter needs"))
      val never = failed(old.successor(Kept(Seq("coalesce(v, 0) AS z")).frame(hour)))
      assert(never.getMessage.contains("no z, and it is never null: make it nullable"))
      assert(run(old.successor(Kept().frame(hour)), N until 6).flatten.nonEmpty)
    }
  }

  testLong("other columns are rejected while a batch of the old query is pending") {
    withConf(noData, Evolve -> "exact") {
      val old = after(fewer.frame(hour), N)
      old.uncommit()
      assert(failed(old.successor(more.frame(hour))).getCondition == "STREAMJOIN_CHECKPOINT_PENDING")
      old.runOnce()
      assert(
        run(old.successor(more.frame(hour)), N until 8) == expected(hour, hour, withX, withY).drop(N)
      )
    }
  }

  testLong("yet other columns are rejected after a failed attempt at a batch") {
    withConf(noData, Evolve -> "exact") {
      val failing = after(fewer.frame(hour), N).successor(more.frame(hour))
      failing.sink = _ => throw new IllegalStateException("no room")
      running(failing)(job => intercept[StreamingQueryException](feed(job, N)))
      assert(failed(failing.successor(Kept().frame(hour))).getCondition == "STREAMJOIN_CHECKPOINT_PENDING")
      running(failing.successor(more.frame(hour)))(_.settle()): Unit
    }
  }

  testLong("the checkpoint of an older version has to record its rows first") {
    val old = after(fewer.frame(hour), N)
    val record = java.nio.file.Path.of(old.checkpoint, "stream-joins", "0")
    val text = java.nio.file.Files.readString(record)
    SparkTest.overwrite(record, text.replaceAll(""","\w+_rows":"([^"\\]|\\.)*"""", ""))
    withConf(Evolve -> "exact") {
      assert(failed(old.successor(more.frame(hour))).getMessage.contains("has committed a batch"))
      running(old)(feed(_, N))
      assert(java.nio.file.Files.readString(record) == text)
      running(old.successor(more.frame(hour)))(feed(_, N + 1)): Unit
    }
  }

  test("the state is read with the columns that it had after each batch") {
    withConf(noData, Evolve -> "exact") {
      def orders(job: Job, batch: Option[Int] = None) = batch
        .foldLeft(spark.read.format("streamjoin").option("checkpoint", job.checkpoint).option("operator", 1)) {
          (reader, number) => reader.option("batch", number.toLong)
        }
        .option("side", "left")
        .load()
        .selectExpr("left.*")
      def rows(frame: DataFrame) = frame.select("v").collect().map(_.getInt(0)).toSeq.sorted
      val next = after(fewer.frame(hour), N).successor(more.frame(hour))
      val before = rows(orders(next))
      assert(before.nonEmpty)
      next.sink = _ => throw new IllegalStateException("no room")
      running(next)(job => intercept[StreamingQueryException](feed(job, N)))
      assert(orders(next).columns.toSeq == Seq("id", "t", "v", "x"))
      assert(rows(orders(next)) == before)
      next.sink = _.collect().map(_.toString).toSeq
      running(next) { job =>
        job.settle()
        val explained = job.joins.head.verboseStringWithOperatorId()
        assert(
          explained.contains("changed with this batch: left_columns was x int, is none (state rewritten")
        )
      }
      assert(orders(next).columns.toSeq == Seq("id", "t", "v"))
      assert(rows(orders(next)).last >= 100 * N)
      // A later change of the bound does not change the rows.
      running(next.successor(more.frame(half)))(feed(_, N + 1))
      assert(rows(orders(next, Some(N - 1))) == before)
      assert(orders(next, Some(N - 1)).columns.toSeq == Seq("id", "t", "v", "x"))
    }
  }

  testLong("keys that depend on the session's time zone are computed again") {
    val on = "o.id = d.id AND to_date(o.t) = to_date(d.t) AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"
    val daily = picked("left_outer", on)
    def isLater(v: Int) = v >= 100 * N
    // In this zone, a day begins at 12:00 UTC, with batch N.
    val zone = "spark.sql.session.timeZone" -> "+12:00"
    val sameDay = ChangedQuery.Pair("true", (o, d) => isLater(o) == isLater(d))
    withConf(noData) {
      val wanted =
        expected(hour.copy("left_outer"), hour.copy("left_outer", pair = sameDay), identity, identity)
      val old = after(daily, N)
      withConf(zone) {
        assert(startError(old, daily).getMessageParameters.get("what") == "time_zone_of_equality")
        withConf(Evolve -> "exact")(assert(run(old.successor(daily), N until 8) == wanted.drop(N)))
      }
    }
  }

  // Conditions on one side, and keys.

  for (how <- SparkTest.part(Seq("left_outer", "full_outer", "left_anti"), every = 3, from = 1))
    test(s"$how: rows that fail an added condition on one side leave, padded if they had no match") {
      withConf(noData, Evolve -> "exact") {
        def shown(row: String) = row
        val narrower = Seq(hour.copy(how, left = Some(2)), half.copy(how, left = Some(2)))
        for (is <- SparkTest.part(narrower, every = 2, from = 1)) {
          val wanted = expected(hour.copy(how), is, shown, shown)
          val old = after(hour.copy(how).frame, N)
          val next = old.successor(is.frame)
          running(next) { job =>
            assert(feed(job, N) == wanted(N))
            job.redoLast()
            assert(job.seen.last.rows.sorted == wanted(N))
            assert((N + 1 until 8).map(feed(job, _)) == wanted.drop(N + 1))
          }
        }
      }
    }
}
