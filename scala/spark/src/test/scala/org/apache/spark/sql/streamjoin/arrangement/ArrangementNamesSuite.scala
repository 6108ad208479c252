package org.apache.spark.sql.streamjoin.arrangement

import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkRuntimeException
import org.apache.spark.sql.connector.catalog.{DelegatingCatalogExtension, Identifier, Table}
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.joins.table.TableTest
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** Names in a query that may be arrangements, and the errors for names that are not. */
class ArrangementNamesSuite extends AnyFunSuite with TableTest {
  private val Folder = "spark.streamjoin.arrangements"

  private def missing(text: String) =
    assert(intercept[AnalysisException](spark.sql(text)).getCondition == "TABLE_OR_VIEW_NOT_FOUND", text)

  test("tables and views resolve even if the folder of arrangements is unreachable") {
    spark.range(2).write.mode("overwrite").saveAsTable("known_table")
    spark.range(3).createOrReplaceTempView("known_view")
    try
      withConf(Folder -> "nowhere://bucket/arrangements") {
        assert(spark.sql("SELECT * FROM known_table").count() == 2)
        assert(spark.sql("SELECT * FROM known_view JOIN known_table USING (id)").count() == 2)
        missing("SELECT * FROM nobody")
        missing("SELECT * FROM known_table JOIN nobody USING (id)")
        missing("SELECT * FROM STREAM nobody")
        missing("SELECT * FROM nobody FOR SYSTEM_TIME AS OF NOW()")
      }
    finally {
      spark.sql("DROP TABLE known_table")
      spark.catalog.dropTempView("known_view"): Unit
    }
  }

  test("a folder of arrangements adds no catalog calls to a query of tables and views") {
    val session = spark.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", classOf[CountingCatalog].getName)
    spark.range(2).write.mode("overwrite").saveAsTable("counted_table")
    def calls(text: String): Int = {
      val before = CountingCatalog.calls.get
      session.sql(text).queryExecution.analyzed: Unit
      CountingCatalog.calls.get - before
    }
    try {
      session.range(2).createOrReplaceTempView("counted_view")
      val texts = Seq(
        "SELECT * FROM counted_table",
        "SELECT * FROM counted_view",
        "WITH c AS (SELECT * FROM counted_view) SELECT * FROM c WHERE id IN (SELECT id FROM counted_table)"
      )
      val without = texts.map(calls)
      assert(without.head > 0)
      assert(without(1) == 0)
      session.conf.set(Folder, newFolder("arrangements"))
      assert(texts.map(calls) == without)
    } finally spark.sql("DROP TABLE counted_table"): Unit
  }

  test("an error in a task is a SparkRuntimeException with a condition and an SQL state") {
    val error: Throwable =
      StreamJoinErrors.runtime("STREAMJOIN_ARRANGEMENT_UNREADABLE", "file" -> "f", "reason" -> "r")
    error match {
      case known: SparkRuntimeException =>
        assert(known.getCondition == "STREAMJOIN_ARRANGEMENT_UNREADABLE")
        assert(!known.isInternalError)
        assert(known.getSqlState == StreamJoinErrors.conditions(known.getCondition).sqlState)
        assert(known.getMessageParameters.get("file") == "f")
        assert(known.getMessage.startsWith("[STREAMJOIN_ARRANGEMENT_UNREADABLE] "))
        assert(known.toString.contains(known.getMessage))
      case other => fail(s"unexpected ${other.getClass}")
    }
  }

  test("joining two arrangement streams as DataFrames is rejected with a hint at sj.delta_join") {
    val folder = newFolder("arrangements")
    withConf(Folder -> folder) {
      val people = maintainer(Customers, Seq(Seq("id")), op = Some("op"), root = s"$folder/people")
      during(people)(loaded(people))
      def stream(name: String): DataFrame = spark.readStream.table("people").as(name)
      val joins = Seq[(String, () => DataFrame)](
        "a condition" -> (() => stream("a").join(stream("b"), expr("a.id = b.id"))),
        "names" -> (() => stream("a").join(stream("b"), "id")),
        "outer" -> (() => stream("a").join(stream("b"), expr("a.id = b.id"), "left_outer")),
        "anti" -> (() => stream("a").join(stream("b"), expr("a.id = b.id"), "left_anti"))
      )
      for ((name, join) <- joins) {
        val said = rejected("STREAMJOIN_DELTA.FRAMES")(join())
        assert(said.contains("join them with sj.delta_join"), name)
        assert(said.contains("sj.table"), name)
        assert(!said.contains("GROUP BY"), name)
      }
      val counted = "SELECT count(*) FROM STREAM people a JOIN STREAM people b ON a.id = b.id"
      assert(rejected("STREAMJOIN_DELTA.MORE_THAN_JOINS")(spark.sql(counted)).contains("GROUP BY"))
      assert(
        spark.sql("SELECT name FROM people ORDER BY id").collect().toSeq == Seq(Row("John"), Row("Frank"))
      )
    }
  }
}

/** Spark's own catalog, with a counter of calls. */
class CountingCatalog extends DelegatingCatalogExtension {
  override def loadTable(table: Identifier): Table = {
    CountingCatalog.calls.incrementAndGet()
    super.loadTable(table)
  }

  override def tableExists(table: Identifier): Boolean = {
    CountingCatalog.calls.incrementAndGet()
    super.tableExists(table)
  }
}

object CountingCatalog {
  val calls = new AtomicInteger
}
