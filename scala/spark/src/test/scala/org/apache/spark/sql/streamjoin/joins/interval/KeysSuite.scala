package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

/** Which types can be keys of an equality, and which keys are equal. */
class KeysSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private case class KeyType(ddl: String, same: Seq[(Any, Any)], different: Seq[(Any, Any)])

  private def decimal(text: String): java.math.BigDecimal = new java.math.BigDecimal(text)

  private val keyTypes = Seq(
    KeyType("STRING", Seq("a" -> "a", "" -> ""), Seq("a" -> "A", "a" -> "a ")),
    KeyType("INT", Seq(1 -> 1), Seq(1 -> -1)),
    KeyType("BOOLEAN", Seq(true -> true), Seq(true -> false)),
    KeyType("DATE", Seq(java.sql.Date.valueOf("2024-06-01") -> java.sql.Date.valueOf("2024-06-01")), Nil),
    KeyType("BINARY", Seq(Array[Byte](1, 2) -> Array[Byte](1, 2)), Seq(Array[Byte](1) -> Array[Byte](1, 0))),
    KeyType("DECIMAL(10, 2)", Seq(decimal("1.50") -> decimal("1.5")), Seq(decimal("1.5") -> decimal("1.51"))),
    KeyType(
      "DECIMAL(38, 10)",
      Seq(decimal("12345678901234567890.5") -> decimal("12345678901234567890.50")),
      Seq(decimal("12345678901234567890.5") -> decimal("12345678901234567890.6"))
    ),
    KeyType("DOUBLE", Seq(0.0 -> -0.0, Double.NaN -> Double.NaN, 1.5 -> 1.5), Seq(1.0 -> 1.0000001)),
    KeyType("FLOAT", Seq(0.0f -> -0.0f, Float.NaN -> Float.NaN), Seq(1.0f -> 2.0f)),
    KeyType(
      "STRUCT<a: INT, b: DOUBLE>",
      Seq(Row(1, 0.0) -> Row(1, -0.0), Row(null, 1.0) -> Row(null, 1.0)),
      Seq(Row(1, 1.0) -> Row(2, 1.0), Row(null, 1.0) -> Row(0, 1.0))
    ),
    KeyType(
      "ARRAY<DOUBLE>",
      Seq(Seq(0.0, Double.NaN) -> Seq(-0.0, Double.NaN)),
      Seq(Seq(1.0) -> Seq(1.0, 1.0))
    ),
    KeyType("TIMESTAMP_NTZ", Seq(at("10:00").toLocalDateTime -> at("10:00").toLocalDateTime), Nil)
  )

  for (keyType <- SparkTest.part(keyTypes, every = 2))
    test(s"${keyType.ddl} keys match if they are equal, and only then") {
      running(
        job(
          hourly("left_outer", "o.k = d.k AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR")(_)
            .selectExpr("o.n AS n", "d.n AS m"),
          schema = s"k ${keyType.ddl}, t TIMESTAMP, n INT"
        )
      ) { job =>
        val pairs = keyType.same ++ keyType.different
        // Keys of different pairs may be equal, so the pairs come an hour apart.
        // At the end, W(d) = 23:00 evicts orders before 22:00.
        val out = pairs.zipWithIndex.flatMap { case ((left, right), n) =>
          val (early, late) = (at(f"${n + 1}%02d:00").toInstant, at(f"${n + 1}%02d:10"))
          job.feed("o" -> Row(left, java.sql.Timestamp.from(early), n), "d" -> Row(right, late, n))
        } ++ job.feed("o" -> Row(null, at("23:00"), 99), "d" -> Row(pairs.head._2, at("23:00"), 99))
        val same = keyType.same.indices.map(n => s"$n $n")
        val alone = "99 -" +: keyType.different.indices.map(n => s"${keyType.same.size + n} -")
        assert(out.sorted == (same ++ alone).sorted)
      }
    }

  private val equalities = Seq(
    "o.k = d.k",
    "o.k <=> d.k",
    "struct(o.k, 1) = struct(d.k, 1) AND o.one = d.one",
    "trim(o.k) = d.k"
  )

  for (equality <- SparkTest.part(equalities, every = 2))
    test(s"keys with a collation match by it: $equality") {
      val collated = "CAST(id AS STRING COLLATE UTF8_LCASE) AS k"
      running(job { streams =>
        val left =
          streams.raw("o").withWatermark("t", "0 seconds").selectExpr(collated, "t", "v", "1 AS one").as("o")
        val right =
          streams.raw("d").withWatermark("t", "0 seconds").selectExpr(collated, "t", "v", "1 AS one").as("d")
        left
          .join(right, expr(s"$equality AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"), "left_outer")
          .selectExpr("o.v", "d.v")
      }) { job =>
        // At the end, W(d) = 15:00 evicts orders before 14:00.
        val out = job.feed(o("Abc", "10:00", 1), o("x", "10:00", 2)) ++
          job.feed(d("aBC", "10:00", 3), d("y", "10:00", 4)) ++
          job.feed(o("end", "15:00", 5), d("end", "15:00", 5))
        assert(out == Seq("1 3", "2 -", "5 5"))
      }
    }

  test("in a null-safe equality, null is a key like any other") {
    running(
      job(
        hourly("full_outer", "o.id <=> d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR")(_)
          .selectExpr("o.v", "d.v")
      )
    ) { job =>
      assert(job.feed(o(null, "10:00", 1), o("a", "10:00", 2), o("", "10:00", 3)).isEmpty)
      assert(job.feed(d(null, "10:00", 4), d("b", "10:00", 5)) == Seq("1 4"))
      // W(d) = 12:00 evicts orders before 11:00, W(o) = 12:00 deliveries before 12:00.
      assert(job.feed(o("x", "12:00", 0), d("x", "12:00", 0)) == Seq("- 5", "0 0", "2 -", "3 -"))
    }
  }

  test("a key can have several columns, expressions and two types") {
    running(
      job(
        hourly(condition =
          "lower(o.id) = d.id AND CAST(o.v AS BIGINT) = d.v + 1L AND d.t - o.t BETWEEN INTERVAL 0 HOURS AND " +
            "INTERVAL 1 HOUR"
        )(_).selectExpr("o.id", "o.v", "d.id", "d.v")
      )
    ) { job =>
      assert(
        job.feed(o("A", "10:00", 2), o("A", "10:00", 3), d("a", "10:00", 1), d("b", "10:00", 1)) == Seq(
          "A 2 a 1"
        )
      )
    }
  }
}
