package org.apache.spark.sql.streamjoin.front.sql

import java.util.zip.ZipFile

import scala.io.Source
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkSqlParser
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.plans.InputWithClauses

/** What Spark parses, the extension parses alike; what fails in Spark, fails alike. */
class SparkTextsSuite extends AnyFunSuite {
  private val spark: ParserInterface = new SparkSqlParser
  private val ours: ParserInterface = new StreamJoinParser(new SparkSqlParser)

  /**
   * All statements of Spark's own SQL tests. One that is cut in the middle fails in both parsers.
   */
  private lazy val statements: Seq[String] = {
    val jar = sys.props("streamjoin.sparkTexts")
    Using.resource(new ZipFile(jar)) { zip =>
      zip.entries.asScala
        .filter(entry => entry.getName.matches("sql-tests/inputs/.*\\.sql"))
        .flatMap(entry =>
          Source.fromInputStream(zip.getInputStream(entry), "UTF-8").mkString.split(";\\s*\n")
        )
        .map(_.linesIterator.filterNot(_.startsWith("--")).mkString("\n").trim)
        .filter(_.nonEmpty)
        .toVector
        .distinct
    }
  }

  /** The plan, or the error, without the ids that Spark gives to columns and queries. */
  private def read(parse: String => LogicalPlan, text: String): String =
    Try(parse(text))
      .fold(_.toString, _.treeString)
      .replaceAll("#\\d+|\\b[0-9a-f]{8}-[0-9a-f-]{27}\\b|@[0-9a-f]+", "#")

  test("statements of Spark's own SQL tests parse alike") {
    assert(statements.size > 5000)
    assert(statements.count(_.toUpperCase.contains("JOIN")) > 900)
    for (text <- SparkTest.part(statements, 24))
      assert(read(ours.parsePlan, text) == read(spark.parsePlan, text), text)
  }

  test("statements with a word of ours parse alike in our own parser, which puts look-alikes back") {
    val alike = statements.filter(text => FoundClause.mayBeIn(text) && Try(spark.parsePlan(text)).isSuccess)
    assert(alike.size > 200)
    for (text <- alike)
      assert(read(new ClauseParser(SqlText(text)).parsePlan, text) == read(spark.parsePlan, text), text)
  }

  private val lookAlikes = Seq(
    "SELECT sum(x) OVER (RANGE INTERVAL '10' MINUTE PRECEDING) FROM a JOIN b ON a.id = b.id",
    "SELECT sum(x) OVER (ROWS 1 PRECEDING), percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM a, b",
    "SELECT within.x, over.y FROM a within JOIN b over ON within.id = over.id",
    "SELECT within, over FROM a AS asof JOIN b AS match_condition (within, over)",
    "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (x, y) ON asof.x = match_condition.x",
    "SELECT * FROM a JOIN b FOR SYSTEM_TIME AS OF NOW() ON a.id = b.id",
    "SELECT * FROM a JOIN b FOR SYSTEM_TIME AS OF TIMESTAMP '2024-06-01 00:00:00' ON a.id = b.id",
    "SELECT 1 AS within, 's' AS over",
    "SELECT 'JOIN b WITHIN 5s' FROM a -- WITHIN 5s"
  )

  private val mistakes = Seq(
    "SELECT sum(x) OVER (RANGE INTERVAL '10' MINUTE PRECEDING FROM a",
    "SELECT sum(x) OVER (RANGE INTERVAL '10' MINUTE PRECEDING) FRM a JOIN b",
    "SELECT * FROM a JOIN b WITHIN ON",
    "SELECT * FROM a JOIN b OVER (PARTITION BY x) ON a.id = b.id",
    "SELECT * FROM a JOIN b WITHIN GROUP (ORDER BY x) ON a.id = b.id",
    "SELECT * FROM a LEFT ASOF b",
    ""
  )

  for (text <- lookAlikes) test(s"left to Spark: $text") {
    assert(read(ours.parsePlan, text) == read(spark.parsePlan, text))
    assert(spark.parsePlan(text) != null)
    assert(read(new ClauseParser(SqlText(text)).parsePlan, text) == read(spark.parsePlan, text))
  }

  for (text <- mistakes) test(s"the error is Spark's: $text") {
    assert(Try(spark.parsePlan(text)).isFailure)
    assert(read(ours.parsePlan, text) == read(spark.parsePlan, text))
  }

  test("next to a clause of ours, look-alikes and time travel keep their meaning") {
    val clause = "JOIN c WITHIN 5s ON a.id = c.id"
    for (text <- lookAlikes.filter(_.contains(" FROM a JOIN b "))) {
      val with3 = ours.parsePlan(text.replace("FROM a JOIN b", s"FROM a $clause JOIN b"))
      val without =
        spark.parsePlan(text.replace("FROM a JOIN b", s"FROM a ${clause.replace("WITHIN 5s", "")} JOIN b"))
      val stripped = with3.transformUp { case InputWithClauses(_, input) => input }
      assert(stripped.treeString == without.treeString, text)
    }
  }

  private val Joined = "SELECT o.v FROM o JOIN d WITHIN 5s ON o.id = d.id WITHIN 6s"

  for (
    statement <- Seq(
      s"EXPLAIN EXTENDED $Joined",
      s"INSERT INTO t $Joined",
      s"CREATE TABLE t USING parquet AS $Joined",
      s"CREATE STREAMING TABLE t AS $Joined",
      s"CREATE FLOW f AS INSERT INTO t BY NAME $Joined",
      s"CACHE TABLE t AS $Joined",
      s"SELECT * FROM x WHERE EXISTS ($Joined)",
      s"SELECT ($Joined) FROM x",
      s"$Joined UNION ALL SELECT 1",
      "SELECT v FROM IDENTIFIER('o') JOIN IDENTIFIER('d') AS d WITHIN 5s ON true WITHIN 6s",
      "SELECT v FROM o TABLESAMPLE (10 ROWS) JOIN d TABLESAMPLE (10 ROWS) AS x WITHIN 5s ON true WITHIN 6s",
      "SELECT v FROM o JOIN (VALUES (1), (2) AS d (n)) WITHIN 5s USING (n) WITHIN 6s",
      "SELECT v FROM o JOIN f(TABLE(d)) AS d WITHIN 5s USING (n) WITHIN 6s",
      "SELECT v FROM o JOIN (d JOIN e ON d.id = (SELECT max(id) FROM x)) WITHIN 5s ON o.id = d.id WITHIN 6s WHERE v > 0",
      s"BEGIN IF true THEN $Joined; END IF; END"
    )
  ) test(s"both clauses are found in: $statement") {
    val parser = new ClauseParser(SqlText(statement))
    parser.parsePlan(statement)
    assert(parser.claimed.map(_.tokens.map(_.getText).mkString(" ")) == Seq("WITHIN 5s", "WITHIN 6s"))
  }

  test("the body of a SQL function keeps its clause") {
    val body = "SELECT o.v FROM o JOIN d ON o.id = d.id WITHIN 5s"
    val plan = ours.parsePlan(s"CREATE TEMPORARY FUNCTION f() RETURNS TABLE (v INT) RETURN $body")
    assert(plan.toString.contains(body), plan)
  }
}
