package org.apache.spark.sql.streamjoin.front.sql

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.plans.logical.Join
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.joins.order.RowtimeOrder
import org.apache.spark.sql.streamjoin.{JoinTest, SqlTest}

/** `OVER (RANGE ...)` after an input of a join. */
class OverSuite extends AnyFunSuite with SqlTest {

  import JoinTest._

  private def analyzed(text: String) = {
    views
    spark.sql(text).asInstanceOf[ClassicDataset[_]].queryExecution.analyzed
  }

  /** The condition of the only join, and the output columns. */
  private def joined(text: String): (String, Seq[String]) = {
    val plan = analyzed(text)
    assert(plan.collect { case order: RowtimeOrder => order }.size == 1, plan)
    val conditions = plan.collect { case join: Join => join.condition.map(_.sql).getOrElse("") }
    assert(conditions.size == 1)
    (conditions.head.replace("`", ""), plan.output.map(_.name))
  }

  private val following = "OVER (RANGE INTERVAL '10' MINUTE FOLLOWING)"
  private val preceding = "OVER (RANGE INTERVAL '10' MINUTE PRECEDING)"

  for (how <- Seq("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
    test(s"$how, a window over one input") {
      for (
        (query, window) <- Seq(
          s"SELECT * FROM o $how d $following AS x ON o.id = x.id" -> "x.t >= o.t",
          s"SELECT * FROM o $preceding AS x $how d ON x.id = d.id" -> "d.t >= x.t",
          s"SELECT * FROM o $how d $following ON o.id = d.id" -> "d.t >= o.t"
        )
      ) {
        val (condition, columns) = joined(query)
        assert(
          condition.contains(window.replaceAll("\\b(o|d|x)\\.", "")) || condition.contains(window),
          condition
        )
        assert(condition.contains("INTERVAL '0 00:10:00"), condition)
        assert(columns.last == "rowtime")
        assert(columns.count(_ == "rowtime") == 1)
      }
    }

  test("both inputs may have a window") {
    val (condition, _) = joined(s"SELECT rowtime FROM o $preceding a JOIN d $preceding b ON a.id = b.id")
    assert(condition.split("INTERVAL").length == 3, condition)
  }

  test("OVER works in every way to write the join") {
    for (
      query <- Seq(
        s"SELECT rowtime FROM o JOIN d $following USING (id)",
        s"SELECT rowtime FROM o, d $following WHERE o.id = d.id",
        s"SELECT rowtime FROM o NATURAL JOIN d $following",
        s"SELECT rowtime FROM o JOIN (SELECT * FROM d) $following AS x ON o.id = x.id",
        s"SELECT rowtime FROM o JOIN d OVER (RANGE 10m FOLLOWING) x ON o.id = x.id WITHIN 1m",
        s"SELECT rowtime, sum(o.v) OVER (PARTITION BY o.id) FROM o JOIN d $following x ON o.id = x.id",
        "SELECT rowtime, sum(o.v) OVER (ORDER BY o.t RANGE INTERVAL '1' DAY PRECEDING) " +
          s"FROM o JOIN d $following x ON o.id = x.id",
        s"SELECT rowtime, count(*) OVER (ROWS UNBOUNDED PRECEDING) FROM o JOIN d $following x ON o.id = x.id"
      )
    ) joined(query)
  }

  test("the columns of USING come first, rowtime last") {
    val (_, columns) = joined(s"SELECT * FROM o JOIN d $following USING (id)")
    assert(columns == Seq("id", "t", "v", "t", "v", "rowtime"))
  }

  test("a window join of a window join goes by the rowtime of the lower one") {
    val plan =
      analyzed(s"SELECT * FROM o JOIN d $following AS x ON o.id = x.id JOIN r $following AS y ON y.id = o.id")
    val conditions = plan.collect { case join: Join => join.condition.get.sql }
    assert(conditions.size == 2, conditions)
    assert(conditions.exists(_.contains("rowtime")), conditions)
  }

  private def rows(query: String): Seq[String] = running(job(sql(query)))(run =>
    withoutClosingRows(
      (run.batches(o("a", "10:00", 1), o("b", "10:03", 2), d("a", "10:02", 3), d("b", "10:04", 4)) ++
        run.batches(o("z", "12:00"), d("z", "12:00"))).flatMap(_.rows),
      "12:00"
    )
  )

  test("the rows come out in the order of rowtime") {
    val columns = "rowtime, o.v, d.v"
    assert(
      rows(s"SELECT $columns FROM o JOIN d $following ON o.id = d.id") == Seq("10:00 1 3", "10:03 2 4")
    )
    assert(
      rows(s"SELECT $columns FROM o $preceding JOIN d USING (id)") == Seq("10:02 1 3", "10:04 2 4")
    )
    assert(
      rows(s"SELECT $columns FROM o LEFT JOIN d $following ON o.id = d.id AND o.id = 'b'") ==
        Seq("10:00 1 -", "10:03 2 4")
    )
    assert(
      rows(s"SELECT rowtime, v FROM o LEFT ANTI JOIN d OVER (RANGE 90s FOLLOWING) ON o.id = d.id") ==
        Seq("10:00 1")
    )
  }
}
