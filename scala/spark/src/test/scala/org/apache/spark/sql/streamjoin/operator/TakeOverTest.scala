package org.apache.spark.sql.streamjoin.operator

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{CheckpointTest, JoinTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** Queries that begin with Spark's own join and continue with ours, and their rows. */
trait TakeOverTest extends CheckpointTest { this: AnyFunSuite =>
  import JoinTest._

  protected val plain = "spark.streamjoin.enabled" -> "false"
  protected val exact = "spark.streamjoin.evolve" -> "exact"
  protected val rocksDb = "spark.sql.streaming.stateStore.providerClass" ->
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  protected val two = Set("o", "d")
  protected val three = Set("o", "d", "e")

  protected val ids = Seq("a", "b", "c", "d", "e")

  protected def time(minutes: Int) = f"${minutes / 60}%02d:${minutes % 60}%02d"

  /** Each batch is half an hour later than the one before, so no row is late for any watermark. */
  protected val story: Seq[Seq[(String, Row)]] = (0 until 7).map { batch =>
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

  protected type Query = Streams => DataFrame

  protected def semi: Query =
    streams => streams.marked("o").join(streams.marked("d"), expr(Hourly), "left_semi").selectExpr("o.v AS a")

  protected def join(how: String): Query = if (how == "left_semi") semi else picked(how)

  protected def chain(how: String): Query = streams =>
    streams
      .marked("o")
      .join(streams.marked("d"), expr(Hourly), how)
      .selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b")
      .as("f")
      .join(streams.marked("e"), expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 2 HOURS"), how)
      .selectExpr("a", "b", "e.v AS c")

  /** What the sink has received, each batch once. */
  protected def received(job: Job): Seq[String] = {
    val byBatch = job.seen.groupBy(_.id).toSeq.sortBy(_._1).map(_._2)
    byBatch.foreach(attempts => assert(attempts.map(_.rows.sorted).distinct.size == 1))
    byBatch.flatMap(_.head.rows).sorted
  }

  protected def fed(job: Job, rows: Seq[(String, Row)], streams: Set[String] = two): Unit =
    job.feed(rows.filter { case (name, _) => streams(name) }: _*): Unit

  protected def operators(job: Job): Seq[String] =
    job.streaming.recentProgress.toSeq.flatMap(_.stateOperators.map(_.operatorName))

  protected def starting(job: Job, settings: (String, String)*): Job = withConf(settings: _*)(job.restart())

  /** Rows of a query that Spark's own join runs from beginning to end. */
  protected def ofSpark(
      query: Query,
      streams: Set[String] = two,
      rows: Seq[Seq[(String, Row)]] = story
  ): Seq[String] =
    withConf(plain)(running(job(query)) { job =>
      rows.foreach(fed(job, _, streams))
      received(job)
    })

  /** `start()` rejects the query and leaves the checkpoint unchanged. */
  protected def rejected(old: Job, query: Query, settings: (String, String)*): AnalysisException = {
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
}
