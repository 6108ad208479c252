package org.apache.spark.sql.streamjoin.front.sql

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest, SqlTest}
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.{JoinWindow, JoinWindows, Side}

/**
 * Queries with `OVER (RANGE ...)`, run as streams. They must give the rows of the same join over
 * tables, with the window as a condition and rowtime as an expression.
 */
class OverRowsSuite extends AnyFunSuite with SqlTest {
  import JoinTest._

  /**
   * @param inputs
   *   the two inputs, with the join between them
   * @param bound
   *   the condition that the windows stand for
   * @param pair
   *   rowtime of a pair
   * @param left
   *   rowtime of a left row without a match
   * @param right
   *   rowtime of a right row without a match
   */
  private case class Windows(
      inputs: String => String,
      bound: String,
      pair: String,
      left: String,
      right: String
  )

  private val minutes = "RANGE INTERVAL '10' MINUTE"
  private val later = "d.t BETWEEN o.t AND o.t + INTERVAL 10 MINUTE"
  private val earlier = "o.t BETWEEN d.t AND d.t + INTERVAL 10 MINUTE"

  private val windows = Seq(
    Windows(how => s"o $how d OVER ($minutes FOLLOWING)", later, "o.t", "o.t", "d.t"),
    Windows(how => s"o OVER ($minutes PRECEDING) $how d", later, "d.t", "o.t + INTERVAL 10 MINUTE", "d.t"),
    Windows(how => s"o OVER ($minutes FOLLOWING) $how d", earlier, "d.t", "o.t", "d.t"),
    Windows(how => s"o $how d OVER ($minutes PRECEDING)", earlier, "o.t", "o.t", "d.t + INTERVAL 10 MINUTE"),
    Windows(
      how => s"o OVER (RANGE 5m PRECEDING) $how d OVER ($minutes PRECEDING)",
      "d.t BETWEEN o.t - INTERVAL 10 MINUTE AND o.t + INTERVAL 5 MINUTE",
      "greatest(o.t, d.t)",
      "o.t + INTERVAL 5 MINUTE",
      "d.t + INTERVAL 10 MINUTE"
    ),
    Windows(
      how => s"o OVER (RANGE 5m PRECEDING) $how d OVER ($minutes FOLLOWING)",
      later,
      "greatest(o.t, d.t)",
      "o.t + INTERVAL 10 MINUTE",
      "d.t"
    )
  )

  private val story: Seq[Seq[(String, Row)]] = Seq(
    Seq(o("a", "10:00", 1), o("b", "10:03", 2), d("a", "10:02", 11), d("c", "10:04", 12)),
    Seq(o("a", "10:12", 3), o("c", "10:10", 4), o("x", "10:20", 5), d("b", "10:13", 13), d("a", "10:10", 14)),
    Seq(o("a", "10:40", 6), d("a", "10:37", 15), d("a", "10:50:00.000001", 16), d("b", "10:38", 17)),
    Seq(o("o-end", "12:00"), d("d-end", "12:00"))
  )

  /** The rows of a query in the order in which they come, without those of the closing rows. */
  private def streamed(query: String): Seq[String] =
    running(job(sql(query)))(run => story.flatMap(run.batches(_: _*)).flatMap(_.rows))
      .filterNot(_.startsWith("12:"))

  private def joined(how: String, windows: Windows): Seq[String] = {
    import windows._
    Seq("o", "d").foreach { name =>
      val rows = story.init.flatten.collect { case (`name`, Row(id, time, v)) =>
        s"('$id', timestamp '${time.asInstanceOf[java.sql.Timestamp].toInstant}', $v)"
      }
      spark
        .sql(s"SELECT * FROM VALUES ${rows.mkString(", ")} AS rows(id, t, v)")
        .createOrReplaceTempView(s"${name}_table")
    }
    val (rowtime, columns) =
      if (how.contains("SEMI") || how.contains("ANTI")) (left, "o.v")
      else (s"CASE WHEN d.t IS NULL THEN $left WHEN o.t IS NULL THEN $right ELSE $pair END", "o.v, d.v")
    spark
      .sql(s"SELECT $rowtime, $columns FROM o_table AS o $how d_table AS d ON o.id = d.id AND $bound")
      .collect()
      .map(text(_: Row))
      .toSeq
  }

  // `make test` has a full outer join with a window over each input.
  private val some: Seq[(String, Windows)] =
    if (!SparkTest.isLong)
      Seq("JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN", "LEFT ANTI JOIN")
        .zip(windows :+ windows(4))
    else
      windows.map("FULL JOIN" -> _) ++ (for {
        how <- Seq("JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
        // Those that make an unmatched row later than its own time, over one input and over both.
        each <- Seq(windows(1), windows(4))
      } yield how -> each)

  for ((how, each) <- SparkTest.part(some, every = 7, from = 4)) {
    val columns = if (how.contains("SEMI") || how.contains("ANTI")) "o.v" else "o.v, d.v"
    val query = s"SELECT rowtime, $columns FROM ${each.inputs(how)} ON o.id = d.id"
    test(query) {
      val seen = streamed(query)
      val times = seen.map(_.takeWhile(_ != ' '))
      assert(seen.nonEmpty)
      assert(times == times.sorted)
      assert(seen.sorted == joined(how, each).sorted)
    }
  }

  testLong("SQL gives the same batches as the function") {
    val minute = 60L * 1000000
    val both = JoinWindows(
      Map(Side.Left -> JoinWindow(5 * minute, false), Side.Right -> JoinWindow(10 * minute, false))
    )
    def batches(query: Streams => DataFrame) =
      running(job(query))(run => story.map(rows => run.batches(rows: _*).map(_.rows)))
    assert(
      batches(sql(s"SELECT rowtime, o.v, d.v FROM ${windows(4).inputs("FULL JOIN")} ON o.id = d.id")) ==
        batches { streams =>
          val plain = streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), "full_outer")
          Frames.windows(plain, both).selectExpr("rowtime", "o.v", "d.v")
        }
    )
  }

  // Three streams.

  private val chain = Seq(
    Seq(o("a", "10:00", 1), d("a", "10:05", 2), "r" -> row("a", "10:15", 3)),
    Seq(o("b", "10:30", 4), d("b", "10:31", 5), "r" -> row("z", "10:30", 6)),
    Seq(o("x", "12:00"), d("y", "12:00"), "r" -> row("z", "12:00")),
    Seq(o("x", "12:10"), d("y", "12:10"), "r" -> row("z", "12:10"))
  )

  private val following = s"OVER ($minutes FOLLOWING)"
  private val lower = s"SELECT rowtime, o.id, o.v AS ov, d.v AS dv FROM o JOIN d $following ON o.id = d.id"
  private val upper = "r OVER (RANGE 20m FOLLOWING) AS r"

  for (
    query <- SparkTest.part(
      Seq(
        s"SELECT rowtime, ov, dv, r.v FROM ($lower) AS l LEFT JOIN $upper ON l.id = r.id",
        s"SELECT l.rowtime, ov, dv, r.v FROM ($lower) AS l LEFT JOIN $upper USING (id)",
        s"SELECT time, ov, dv, r.v FROM ($lower) AS l(time, id, ov, dv) LEFT JOIN $upper ON l.id = r.id",
        s"SELECT rowtime, o.v, d.v, r.v FROM o JOIN d $following USING (id) LEFT JOIN $upper ON o.id = r.id"
      ),
      every = 4,
      from = 1
    )
  ) test(s"a window join of a window join: $query") {
    val seen = running(job(sql(query, "r")))(run => chain.flatMap(run.batches(_: _*)).flatMap(_.rows))
    assert(seen == Seq("10:00 1 2 3", "10:30 4 5 -"))
  }

  test("of several rowtimes `*` has only the last, and another window join goes by it") {
    views
    val two = s"o JOIN d $following ON o.id = d.id JOIN $upper ON o.id = r.id"
    val columns = Seq("id", "t", "v")
    assert(spark.sql(s"SELECT * FROM $two").columns.toSeq == (columns ++ columns ++ columns :+ "rowtime"))
    val three = spark.sql(s"SELECT * FROM $two JOIN o OVER ($minutes PRECEDING) AS x ON x.id = o.id")
    assert(three.columns.count(_ == "rowtime") == 1)
    assert(joins(three).size == 3)
  }

  private val ten = "window(rowtime, '10 minutes')"

  for (
    query <- SparkTest.part(
      Seq(
        s"SELECT window.start, count(*) FROM o JOIN d $following USING (id) GROUP BY $ten",
        s"SELECT $ten.start, count(*) FROM o OVER ($minutes PRECEDING) JOIN d ON o.id = d.id GROUP BY $ten"
      ),
      every = 2,
      from = 1
    )
  ) test(s"an aggregation of a window join: $query") {
    val seen = running(job(sql(query)))(run => chain.map(_.filter(_._1 != "r")).flatMap(run.batches(_: _*)))
    assert(seen.flatMap(_.rows) == Seq("10:00 1", "10:30 1"))
  }
}
