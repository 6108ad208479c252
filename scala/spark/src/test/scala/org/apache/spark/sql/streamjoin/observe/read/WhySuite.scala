package org.apache.spark.sql.streamjoin.observe.read

import java.nio.file.{Files, Path}
import java.util.UUID

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

import streamjoin.StreamJoin

/** What has become of a row: each answer once, of a query that runs and of its checkpoint. */
class WhySuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def why(of: String, condition: String): Seq[Row] = spark
    .sql(s"SELECT input, outcome, batch, why, row FROM sj_why('$of', \"$condition\")")
    .collect()
    .toSeq
    .sortBy(_.getString(0))

  private def outcomes(rows: Seq[Row]): Seq[String] = rows.map(row => row.toSeq.take(2).mkString(" "))

  test("waiting, matched, left, late and not seen") {
    withConf("spark.streamjoin.lateRows" -> "keep") {
      running(job(hourly("left_outer"))) { job =>
        job.feed(o("a", "10:00", 1), o("b", "10:10", 2), d("x", "10:20", 0))
        job.feed(d("a", "10:30", 3), o("y", "10:30", 0))
        val matched = job.seen.last.id
        val id = job.streaming.id.toString

        val waiting = why(id, "id = 'b'")
        assert(outcomes(waiting) == Seq("o waiting"))
        assert(
          waiting.head.getString(3) ==
            s"It is in state after batch $matched. It has not matched. It leaves once the watermark of d.t is later " +
            "than 2024-06-01T11:10:00Z (now 2024-06-01T10:30:00Z, held back by d)."
        )
        val both = why(id, "id = 'a'")
        assert(outcomes(both) == Seq("d kept", "o waiting"))
        assert(
          both.head
            .getString(3)
            .contains("later than 2024-06-01T10:30:00Z (now 2024-06-01T10:30:00Z, held back by o")
        )
        assert(both(1).getString(3).contains(s"It first matched in batch "))

        job.feed(o("late", "09:00", 7))
        val late = why(id, "o.id = 'late'")
        assert(outcomes(late) == Seq("o late"))
        assert(late.head.getString(3).contains("the watermark of t was 2024-06-01T10:30:00Z"))

        assert(job.feed(d("z", "12:00"), o("z", "12:00")).contains("b 10:10 2 - - -"))
        val left = why(id, "id = 'b'")
        assert(outcomes(left) == Seq("o left"))
        assert(left.head.getString(3).contains("it was emitted without a match"))

        val none = why(id, "id = 'nobody'")
        assert(none.map(_.getString(1)) == Seq("not seen"))
        assert(none.head.getString(3).contains("nor among the late rows"))
        job.stop()
        assert(outcomes(why(job.checkpoint, "id = 'b'")) == Seq("o left"))
        // The path of a folder in the working directory has no slash.
        val link = Files.createSymbolicLink(Path.of(s"why-${UUID.randomUUID()}"), Path.of(job.checkpoint))
        try assert(outcomes(why(link.toString, "id = 'b'")) == Seq("o left"))
        finally Files.delete(link)
      }
    }
  }

  testLong("text with quotes, backslashes and other scripts, however the parser reads literals") {
    val names = Seq("it's", "a\\'b", s"$${spark.app.name}", "配達 'Привет' \\\\ 🚚")
    running(job(hourly("left_outer"))) { job =>
      job.feed(names.map(o(_, "10:00", 1)): _*)
      for (escaped <- Seq("false", "true"); name <- names)
        withConf("spark.sql.parser.escapedStringLiterals" -> escaped) {
          // The session reads the literals of a condition as its setting says.
          val text = if (escaped == "true") name else name.replace("\\", "\\\\")
          val own = if (name.contains("$")) "id LIKE '%{spark.app.name}'" else s"id = \"$text\""
          val found = StreamJoin.why(job.streaming, own, 1).collect()
          assert(found.map(_.getAs[String]("outcome")).toSeq == Seq("waiting"), s"$escaped $own")
        }
    }
  }

  test("late, since a row from the future has moved the watermark") {
    withConf("spark.streamjoin.lateRows" -> "keep") {
      running(job(hourly())) { job =>
        job.feed(o("x", "10:00", 0), d("x", "10:00", 0))
        job.feed(o("a", "2999-01-01T00:00", 1))
        job.feed(o("b", "10:00", 2))
        val late = why(job.streaming.id.toString, "id = 'b'")
        assert(outcomes(late) == Seq("o late"))
        assert(late.head.getString(3).contains("which is in the future. A row has moved it"))
        assert(!late.head.getString(3).contains("longer delay"))
      }
    }
  }

  test("a condition on columns that no input has is rejected with those that there are") {
    running(job(hourly())) { job =>
      job.feed(o("a", "10:00", 1))
      val rejected = intercept[AnalysisException](why(job.streaming.id.toString, "name = 'a'"))
      assert(rejected.getCondition == "STREAMJOIN_TABLE_FUNCTION.CONDITION")
      assert(rejected.getMessage.contains("1 o(id STRING,t TIMESTAMP,v INT)"))
      assert(
        intercept[AnalysisException](why("nobody", "id = 'a'")).getMessage.contains("finds no query nobody")
      )
      val none = why(job.streaming.id.toString, "id = 'nobody'")
      assert(none.head.getString(3).contains("late rows are not kept"))
    }
  }

  test("a name that an input has twice, and a field that another input lacks") {
    def input(streams: Streams, name: String, field: String) =
      streams.marked(name).selectExpr("id", "t", s"named_struct('$field', v) AS s").as(name)
    val query = (streams: Streams) =>
      input(streams, "o", "a")
        .join(input(streams, "d", "b"), expr(Hourly))
        .join(streams.marked("e"), expr("o.id = e.id AND e.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"))
        .selectExpr("o.s", "d.id", "d.s AS z", "e.v")
    running(job(query)) { job =>
      job.feed(o("a", "10:00", 1), d("a", "10:30", 2))
      val id = job.streaming.id.toString
      assert(outcomes(why(id, "id = 'a'")) == Seq("d kept", "o kept", "o kept"))
      assert(outcomes(why(id, "s.a = 1")) == Seq("o kept", "o kept"))
      assert(outcomes(why(id, "s.b = 2")) == Seq("d kept", "o kept"))
      assert(intercept[AnalysisException](why(id, "s.c = 1")).getCondition == "FIELD_NOT_FOUND")
      val state = spark.read.format("streamjoin").option("query", id).option("operator", 2)
      val row = state.option("side", "left").load().selectExpr("left.s.a", "left.s_2.b", "left.id_2").head()
      assert(row == Row(1, 2, "a"))
    }
  }

  test("columns with one name and no alias have a watermark each") {
    val query = (streams: Streams) => {
      def stream(name: String) = streams.raw(name).withWatermark("t", "0 seconds")
      val (a, b, c) = (stream("a"), stream("b"), stream("c"))
      def hourAfter(later: DataFrame, earlier: DataFrame) =
        later("t") >= earlier("t") && later("t") <= earlier("t") + expr("INTERVAL 1 HOUR")
      a.join(b, a("id") === b("id") && hourAfter(b, a))
        .join(c, a("id") === c("id") && hourAfter(c, b))
        .select(a("t"), b("v"), c("v").as("w"))
    }
    running(job(query)) { job =>
      job.feed("a" -> row("x", "10:00"), "b" -> row("x", "10:30"), "c" -> row("z", "10:40", 5))
      job.feed("a" -> row("y", "10:00"), "b" -> row("y", "10:30"))
      // W(a.t) = 10:00 and W(b.t) = 10:30: above their join, a.t has 9:30 and b.t 10:00.
      val waiting = why(job.streaming.id.toString, "v = 5").head.getString(3)
      val limit = "left.t (2) is later than 2024-06-01T10:40:00Z (now 2024-06-01T10:00:00Z"
      assert(waiting.contains(limit), waiting)
    }
  }

  testLong("rows with geometries: late ones are kept, and why answers") {
    withConf("spark.streamjoin.lateRows" -> "keep", "spark.sql.geospatial.enabled" -> "true") {
      val point = "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')"
      val query = (streams: Streams) =>
        streams
          .marked("o")
          .selectExpr(
            "id",
            "t",
            "v",
            s"CASE WHEN v > 0 THEN $point END AS g",
            s"array(struct($point AS h)) AS many"
          )
          .as("o")
          .join(streams.marked("d"), expr(Hourly), "left_outer")
          .selectExpr("o.v", "hex(st_asbinary(o.g))", "st_srid(o.many[0].h)")
      running(job(query)) { job =>
        job.feed(o("a", "10:00", 1), o("x", "10:30", 0), d("x", "10:30", 0))
        job.feed(o("y", "10:30", 0), d("y", "10:30", 0))
        job.feed(o("late", "09:00", 7))
        val wkb = "AQEAAAAAAAAAAADwPwAAAAAAAABA"
        val id = job.streaming.id.toString
        val waiting = why(id, "id = 'x' AND o.v = 0 AND g IS NULL")
        assert(outcomes(waiting) == Seq("o waiting"))
        assert(waiting.head.getString(4).contains(s""""g":null,"many":[{"h":"$wkb"}]"""), waiting)
        val late = why(id, "id = 'late' AND g IS NOT NULL")
        assert(outcomes(late) == Seq("o late"))
        assert(late.head.getString(4).contains(s""""g":"$wkb","many":[{"h":"$wkb"}]"""), late)
      }
    }
  }
}
