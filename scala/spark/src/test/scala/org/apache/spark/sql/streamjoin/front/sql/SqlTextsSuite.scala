package org.apache.spark.sql.streamjoin.front.sql

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.streamjoin.{JoinTest, SqlTest}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.{AnalysisException, DataFrame, SparkSessionExtensions}

/**
 * Everything that holds a query as text: views, parameters, scripts, another extension's parser.
 */
class SqlTextsSuite extends AnyFunSuite with SqlTest {
  import JoinTest._

  override protected def extensions: String =
    Seq(classOf[DeafParser].getName, super.extensions, classOf[LoudParser].getName).mkString(",")

  private def rows(query: Streams => DataFrame): Seq[String] =
    running(job(query))(
      _.feed(o("a", "10:00:10", 1), d("a", "10:00:05", 2), d("a", "10:00:15", 3), d("b", "10:00:15", 4))
    )

  private val within = "SELECT o.v AS a, d.v AS b FROM o JOIN d WITHIN BETWEEN 0s AND 5s ON o.id = d.id"

  test("a temporary view may use WITHIN") {
    assert(rows { streams =>
      sql(s"CREATE OR REPLACE TEMPORARY VIEW pairs AS $within")(streams)
      spark.sql("SELECT b, a FROM pairs")
    } == Seq("3 1"))
  }

  test("a persistent view keeps the whole text of its query, including a clause at its end") {
    val query = "SELECT a.id FROM default.x a JOIN default.y b ON a.id = b.id WITHIN /* or so */ 5s"
    // A table is not a stream, which is reported when the view is created; the clause is parsed
    // before.
    spark.sql("CREATE TABLE IF NOT EXISTS default.x (id STRING, t TIMESTAMP) USING parquet")
    spark.sql("CREATE TABLE IF NOT EXISTS default.y (id STRING, t TIMESTAMP) USING parquet")
    try {
      val error = intercept[AnalysisException](spark.sql(s"CREATE VIEW kept AS $query"))
      assert(error.getCondition == "STREAMJOIN_NOT_A_STREAM.BOUND")
      val plan = spark.sessionState.sqlParser.parsePlan(s"CREATE VIEW kept AS $query")
      assert(plan.toString.contains("or so */ 5s"), plan)
    } finally Seq("x", "y").foreach(name => spark.sql(s"DROP TABLE default.$name"))
  }

  test("named parameters work in the clause and around it") {
    val query = "SELECT o.v, d.v, :word FROM o JOIN d WITHIN BETWEEN INTERVAL :least SECOND AND :most " +
      "ON o.id = d.id AND o.id = :id"
    val parameters = Map[String, Any]("word" -> "WITHIN 5s?", "least" -> 0, "most" -> "5s", "id" -> "a")
    assert(rows { streams =>
      sql("SELECT 1")(streams)
      spark.sql(query, parameters)
    } == Seq("1 3 WITHIN 5s?"))
  }

  test("positional parameters work in the clause and around it") {
    val query = "SELECT ?, o.v, d.v FROM o JOIN d WITHIN BETWEEN ? AND ? ON o.id = d.id AND o.id = ?"
    val parameters = Array[Any]("x", java.time.Duration.ZERO, java.time.Duration.ofSeconds(5), "a")
    assert(rows { streams =>
      sql("SELECT 1")(streams)
      spark.sql(query, parameters)
    } == Seq("x 1 3"))
  }

  test("parameters work although another extension's parser does not know them") {
    assert(spark.sql("SELECT :x + ?".replace("?", ":y"), Map("x" -> 1, "y" -> 2)).head().getInt(0) == 3)
    assert(spark.sql("SELECT a FROM (SELECT ? AS a) WHERE a = (SELECT ?)", Array(4, 4)).head().getInt(0) == 4)
    // If it is the outer one, the values are lost.
    val inner = new StreamJoinParser(spark.sessionState.sqlParser)
    val error =
      intercept[AnalysisException](inner.parsePlan("SELECT 1 FROM o JOIN d WITHIN :x ON o.id = d.id"))
    assert(error.getCondition == "STREAMJOIN_CLAUSE_PARAMETER")
    assert(error.getMessage.contains("last in spark.sql.extensions"))
  }

  test("durations may have fractions, and several parts in one string") {
    views
    def bound(written: String): Seq[String] = spark
      .sql(s"SELECT bound FROM sj_bounds(TABLE(SELECT 1 FROM o JOIN d WITHIN $written ON o.id = d.id))")
      .collect()
      .map(_.getString(0))
      .toSeq
    val hours = bound("90m")
    assert(hours.head.contains("1 hour 30 minutes"), hours)
    for (
      written <- Seq(
        "1.5 HOURS",
        "1.5h",
        "'1h30m'",
        "'1.5 hours'",
        "INTERVAL 1.5 HOURS",
        "'1 hour 30 minutes'"
      )
    )
      assert(bound(written) == hours, written)
    assert(bound("0.25 SECONDS") == bound("250ms"))
    assert(bound("'1m.5s'") == bound("60500ms"))
  }

  test("aliases, tables and columns may have the names of keywords that come before operands") {
    views
    spark.table("d").createOrReplaceTempView("offset")
    val texts = Seq(
      "SELECT o.v FROM o JOIN d offset WITHIN 5s ON o.id = offset.id",
      "SELECT o.v FROM o JOIN offset WITHIN 5s ON o.id = offset.id",
      "SELECT o.v FROM o JOIN d AS values WITHIN 5s ON o.id = values.id",
      "SELECT o.v FROM (SELECT id, t, v, v AS offset FROM o) o JOIN d ON d.id = o.id AND d.v = offset WITHIN 5s",
      "SELECT o.v FROM o JOIN d set OVER (RANGE 5s FOLLOWING) ON o.id = set.id".replace(
        "d set OVER (RANGE 5s FOLLOWING)",
        "d OVER (RANGE 5s FOLLOWING) set"
      )
    )
    texts.foreach(text => assert(spark.sql(text).isStreaming, text))
    assert(spark.sql("SELECT within FROM (SELECT 7 AS within) LIMIT 5").head().getInt(0) == 7)
    val error = intercept[ParseException](spark.sql("SELECT o.v FROM o JOIN d offset WITHIN 5s ON o.id = )"))
    assert(error.getMessage.contains("WITHIN") || error.getMessage.contains("')'"), error.getMessage)
  }

  test("with double-quoted identifiers, FOR SYSTEM_TIME takes them") {
    views
    withConf("spark.sql.ansi.enabled" -> "true", "spark.sql.ansi.doubleQuotedIdentifiers" -> "true") {
      val text =
        "SELECT \"o o\".v FROM o AS \"o o\" JOIN d FOR SYSTEM_TIME AS OF \"o o\".\"t\" AS x ON \"o o\".id = x.id"
      assert(spark.sql(text).queryExecution.analyzed.toString.contains("StreamAsOfJoin"))
    }
  }

  test("IMPOSE_ORDER accepts named arguments") {
    views
    for (
      arguments <- Seq(
        "data => TABLE(raw), timecol => DESCRIPTOR(t), lag => INTERVAL 1 SECOND",
        "TABLE(raw), lag => INTERVAL 1 SECOND, TIMECOL => DESCRIPTOR(t)"
      )
    ) {
      val plan = spark.sql(s"SELECT * FROM IMPOSE_ORDER($arguments)").queryExecution.analyzed
      assert(plan.toString.contains("EventTimeWatermark"), plan)
    }
  }

  test("Spark reports a parameter without a value") {
    views
    val text = "SELECT 1 FROM o JOIN d WITHIN 5s ON o.id = :id"
    val error = intercept[AnalysisException](spark.sql(text, Map("other" -> 1)))
    assert(error.getCondition == "UNBOUND_SQL_PARAMETER")
    assert(error.getQueryContext.head.fragment == ":id")
  }

  test("scripts and EXECUTE IMMEDIATE may use WITHIN") {
    assert(rows { streams =>
      sql("SELECT 1")(streams)
      spark.sql(s"BEGIN DECLARE n INT DEFAULT 1; CREATE OR REPLACE TEMPORARY VIEW p AS $within; END")
      spark.sql("SELECT b, a FROM p")
    } == Seq("3 1"))
    assert(rows { streams =>
      sql("SELECT 1")(streams)
      spark.sql(s"EXECUTE IMMEDIATE '$within AND o.id = ?' USING 'a'")
    } == Seq("1 3"))
  }

  test("variables are substituted inside a clause") {
    withConf("streamjoin.test.most" -> "5s", "spark.sql.variable.substitute" -> "true") {
      assert(rows(sql(within.replace("5s", s"$${streamjoin.test.most}"))) == Seq("1 3"))
    }
  }

  test("an error after a character of two UTF-16 units points at the right place") {
    val (error, at) = rejected("SELECT '\uD83D\uDE00', o.v FROM o JOIN d WITHIN 5 parsecs ON o.id = d.id")
    assert(error.getCondition == "STREAMJOIN_CLAUSE_DURATION")
    assert(at == "WITHIN 5 parsecs")
  }

  test("an error inside MATCH_CONDITION points at its place in the statement") {
    views
    def error(condition: String) = intercept[AnalysisException](
      spark.sql(s"SELECT o.v\n  FROM o ASOF JOIN d\n  MATCH_CONDITION ($condition) ON o.id = d.id")
    )
    val open = error("o.t >= ")
    assert(open.getCondition == "PARSE_SYNTAX_ERROR")
    assert(open.line.contains(3), open.getMessage)
    assert(open.startPosition.contains(26), open.getMessage)
    assert(open.getMessage.contains("FROM o ASOF JOIN d"), open.getMessage)
    val twice = error("o.t >= >= d.t")
    assert(twice.line.contains(3), twice.getMessage)
    assert(twice.startPosition.contains(26), twice.getMessage)
    val interval = error("o.t >= d.t - INTERVAL 1 FORTNIGHT")
    assert(interval.line.contains(3), interval.getMessage)
  }

  test("columns may be named like the words of an as-of join") {
    views
    val text = "SELECT o.asof, match_condition, o.within - 1 AS w, over FROM " +
      "(SELECT id, t, v AS asof, v AS within FROM o) o ASOF JOIN " +
      "(SELECT id, t, v AS match_condition, v AS over FROM d) d MATCH_CONDITION (o.t >= d.t) WITHIN 5m " +
      "ON o.id = d.id WHERE o.asof + 1 > match_condition AND (asof) > 0 AND within BETWEEN 1 AND 5"
    val frame = spark.sql(text)
    assert(frame.columns.toSeq == Seq("asof", "match_condition", "w", "over"))
    assert(frame.queryExecution.analyzed.toString.contains("StreamAsOfJoin"), frame.queryExecution.analyzed)
  }

  test("IMPOSE_ORDER and WATERMARK set the watermarks of a WITHIN join") {
    val lag = "INTERVAL 10 SECONDS"
    for (
      (left, right) <- Seq(
        s"IMPOSE_ORDER(TABLE(x), DESCRIPTOR(t), $lag) AS o" -> s"y WATERMARK t DELAY OF $lag AS d",
        s"impose_order(TABLE(SELECT * FROM x), 't', $lag) o" -> s"IMPOSE_ORDER(TABLE(y), DESCRIPTOR(y.t), $lag) AS d",
        s"IMPOSE_ORDER(TABLE(x), 't', INTERVAL 5 SECONDS * 2) o" -> s"(SELECT * FROM y) WATERMARK t DELAY OF $lag AS d"
      )
    ) {
      val seen = rows { streams =>
        streams.raw("o").createOrReplaceTempView("x")
        streams.raw("d").createOrReplaceTempView("y")
        spark.sql(s"SELECT o.v, d.v FROM $left JOIN $right WITHIN BETWEEN 0s AND 5s ON o.id = d.id")
      }
      assert(seen == Seq("1 3"), left)
    }
  }

  test("another extension's parser keeps its own words, and ours keeps our clauses") {
    assert(spark.sql("LOUD SELECT 1 AS n").columns.toSeq == Seq("n"))
    assert(rows(sql(within)) == Seq("1 3"))
    val error = intercept[ParseException](spark.sql("SELEKT 1"))
    assert(error.getCondition == "PARSE_SYNTAX_ERROR")
  }

  test("with another mistake in the text, the error points at the mistake, not at the clause") {
    views
    val error = intercept[ParseException](spark.sql("SELECT o.v FROM o JOIN d WITHIN 5s ON o.id = )"))
    assert(error.getMessage.contains("line 1, pos 45"), error.getMessage)
    val named = "SELECT v AS within FROM o JOIN d WITHIN 5s ON o.id = d.id WHERE within + 5 = )"
    val column = intercept[ParseException](spark.sql(named))
    assert(column.startPosition.contains(named.indexOf(")")), column.getMessage)
    val unknown = intercept[AnalysisException](spark.sql("SELECT o.x FROM o JOIN d WITHIN 5s ON o.id = d.id"))
    assert(unknown.getCondition.startsWith("UNRESOLVED_COLUMN"))
    assert(unknown.getQueryContext.head.fragment == "o.x")
    val on = intercept[AnalysisException](spark.sql("SELECT o.v FROM o JOIN d WITHIN 5s ON o.id = d.y"))
    assert(on.getCondition.startsWith("UNRESOLVED_COLUMN"))
    val using = intercept[AnalysisException](spark.sql("SELECT o.v FROM o JOIN d WITHIN 5s USING (y)"))
    assert(using.getCondition == "UNRESOLVED_USING_COLUMN_FOR_JOIN")
  }
}

/** An extension whose parser does not know parameters, as Delta's. */
class DeafParser extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectParser((_, other) =>
      new LoudParser.Parser(other) {
        override def parsePlanWithParameters(
            sqlText: String,
            parameters: org.apache.spark.sql.catalyst.parser.ParameterContext
        ): LogicalPlan = parsePlan(sqlText)
      }
    )
}

/** An extension whose parser accepts statements that begin with `LOUD`. */
class LoudParser extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectParser((_, other) => new LoudParser.Parser(other))
}

object LoudParser {
  private val Word = "LOUD "

  private[sql] class Parser(protected val other: ParserInterface) extends ForwardingParser {
    private def quiet(text: String) = text.stripPrefix(Word)
    override def parsePlan(sqlText: String): LogicalPlan = other.parsePlan(quiet(sqlText))
    override def parseExpression(sqlText: String): Expression = other.parseExpression(sqlText)
    override def parseTableIdentifier(sqlText: String): TableIdentifier = other.parseTableIdentifier(sqlText)
    override def parseFunctionIdentifier(sqlText: String): FunctionIdentifier =
      other.parseFunctionIdentifier(sqlText)
    override def parseMultipartIdentifier(sqlText: String): Seq[String] =
      other.parseMultipartIdentifier(sqlText)
    override def parseQuery(sqlText: String): LogicalPlan = other.parseQuery(sqlText)
    override def parseRoutineParam(sqlText: String): StructType = other.parseRoutineParam(sqlText)
    override def parseDataType(sqlText: String): DataType = other.parseDataType(sqlText)
    override def parseTableSchema(sqlText: String): StructType = other.parseTableSchema(sqlText)
    override def parsePlanWithParameters(
        sqlText: String,
        parameters: org.apache.spark.sql.catalyst.parser.ParameterContext
    ): LogicalPlan = other.parsePlanWithParameters(quiet(sqlText), parameters)
  }
}
