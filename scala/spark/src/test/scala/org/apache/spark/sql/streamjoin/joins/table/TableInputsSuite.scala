package org.apache.spark.sql.streamjoin.joins.table

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{ArrangementTest, Frames, JoinTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Encoders, Row}

/** Which streams may look up a table, and which tables are left to Spark. */
class TableInputsSuite extends AnyFunSuite with TableTest {
  import ArrangementTest._

  test("a stream with deletions cannot look up a table, unless they are filtered out or cannot occur") {
    val people = customers
    val visits = maintainer("id INT, page STRING", Seq(Seq("id")))
    def changes(of: Maintainer) =
      spark.readStream.format("streamjoin").load(of.root).selectExpr("id AS k", "_diff")
    def query(stream: DataFrame) =
      new Reader(newFolder())(stream.join(table(people.root), expr("k = id")).select("k", "name"))
    during(people, visits) {
      loaded(people)
      visits.feed(Row(1, "/"))
      def start(stream: DataFrame): Any = during(query(stream))(())
      assert(rejected("STREAMJOIN_TABLE.STREAM_TAKES_BACK")(start(changes(people))).contains("_diff > 0"))
      def delta = Frames.delta(
        spark,
        Seq("p" -> people.root, "v" -> visits.root),
        "p.id = v.id",
        Seq("p.id AS k")
      )
      rejected("STREAMJOIN_TABLE.STREAM_TAKES_BACK")(start(delta))
      val expiring =
        maintainer("id INT, at DATE", Seq(Seq("id")), time = Some("at"), ttl = Some("100000 days"))
      during(expiring)(rejected("STREAMJOIN_TABLE.STREAM_TAKES_BACK")(start(changes(expiring))))
      val (came, kept) = (query(changes(people).where("_diff > 0")), query(changes(visits)))
      during(came, kept) {
        Seq(came, kept).foreach(_.settle())
        assert(came.batches.values.flatten.flatten.map(JoinTest.text).toSet == Set("1 John", "2 Frank"))
        assert(kept.batches.values.flatten.flatten.map(JoinTest.text).toSeq == Seq("1 John"))
      }
    }
  }

  test("the output of an aggregation is looked up as it comes") {
    withCustomers { people =>
      def run(mode: String): Seq[String] = {
        val input = MemoryStream[Int](Encoders.scalaInt, spark)
        val named = input
          .toDF()
          .groupBy("value")
          .count()
          .join(table(people.root), expr("value = id"))
          .select("name", "count")
        val name = s"counted_$mode"
        val query = named.writeStream.format("memory").queryName(name).outputMode(mode).start()
        try {
          input.addData(Seq(1, 1))
          query.processAllAvailable()
          input.addData(Seq(1, 2))
          query.processAllAvailable()
          spark.table(name).collect().map(JoinTest.text).toSeq.sorted
        } finally query.stop()
      }
      assert(run("complete") == Seq("Frank 1", "John 3"))
      assert(run("update") == Seq("Frank 1", "John 2", "John 3"))
    }
  }

  test("FOR SYSTEM_TIME AS OF a clock time is left to Spark's tables") {
    val folder = newFolder("arrangements")
    withConf("spark.streamjoin.arrangements" -> folder) {
      spark.range(1).write.mode("overwrite").saveAsTable("plain_table")
      try
        Seq("NOW()", "TIMESTAMP '2026-01-01 00:00:00'").foreach { time =>
          val error = intercept[AnalysisException] {
            spark.sql(s"SELECT * FROM plain_table FOR SYSTEM_TIME AS OF $time")
          }
          assert(error.getCondition.startsWith("UNSUPPORTED_FEATURE.TIME_TRAVEL"), error)
        }
      finally spark.sql("DROP TABLE plain_table"): Unit
      val missing = intercept[AnalysisException] {
        spark.sql("SELECT * FROM nobody FOR SYSTEM_TIME AS OF NOW()")
      }
      assert(missing.getCondition == "TABLE_OR_VIEW_NOT_FOUND")
    }
  }
}
