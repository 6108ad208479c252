package org.apache.spark.sql.streamjoin.front.sql

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.SqlTest

/** What is rejected in SQL, in which words, and where the arrows point. */
class SqlRejectionsSuite extends AnyFunSuite with SqlTest {

  test("who writes SQL is told SQL, and who writes Python is told Python") {
    views
    val python = "withWatermark|sj\\.|F\\.|df\\.|readStream".r
    val mark = "FROM t WATERMARK t DELAY OF INTERVAL 10 SECONDS"
    def said(condition: String)(frame: => org.apache.spark.sql.DataFrame) = {
      val error =
        try rejection(frame)
        catch { case early: org.apache.spark.sql.AnalysisException => early }
      assert(error.getCondition == condition, error.getMessage)
      error.getMessage
    }
    val hourly = "d.t BETWEEN raw.t AND raw.t + INTERVAL 1 HOUR"
    for (
      (text, condition, words) <- Seq(
        ("SELECT o.v FROM o JOIN d ON o.id = d.id", "UNBOUNDED", "write JOIN ... WITHIN 1h ON ..."),
        ("SELECT o.v FROM o JOIN d ON o.id = d.id", "UNBOUNDED", "d.t BETWEEN o.t - INTERVAL 1 HOUR"),
        (
          "SELECT o.v FROM o JOIN d ON o.id = d.id AND o.t >= d.t",
          "UNBOUNDED",
          "ASOF JOIN right MATCH_CONDITION"
        ),
        ("SELECT o.v FROM o, d WHERE o.id = d.id AND o.t < d.t", "UNBOUNDED", "WITHIN 10 MINUTES ON"),
        ("SELECT raw.t FROM raw JOIN d ON raw.id = d.id", "UNBOUNDED", mark),
        (s"SELECT raw.v FROM raw JOIN d ON raw.id = d.id AND $hourly", "NO_WATERMARK", mark),
        ("SELECT raw.v FROM raw JOIN d WITHIN 1h ON raw.id = d.id", "EVENT_TIME.NONE", mark),
        ("SELECT o.v FROM o JOIN raw FOR SYSTEM_TIME AS OF o.t ON o.id = raw.id", "EVENT_TIME.NONE", mark),
        (
          "SELECT o.v FROM o JOIN VERSIONS(TABLE(raw), KEY(id), TIME(t)) FOR SYSTEM_TIME AS OF o.t p ON o.id = p.id",
          "TEMPORAL_TIME",
          mark
        ),
        (
          "SELECT o.v FROM o JOIN d FOR SYSTEM_TIME AS OF o.id ON o.id = d.id",
          "COLUMN.NOT_A_TIMESTAMP",
          "to_timestamp(id)"
        )
      )
    ) {
      val message = said(s"STREAMJOIN_$condition")(spark.sql(text))
      assert(message.contains(words), message)
      assert(python.findFirstIn(message).isEmpty, message)
    }
    val ofPython = said("STREAMJOIN_UNBOUNDED") {
      spark
        .table("raw")
        .as("raw")
        .join(spark.table("d").as("d"), org.apache.spark.sql.functions.expr("raw.id = d.id"))
        .select("raw.t")
    }
    assert(ofPython.contains("left.withWatermark(\"t\", \"10 seconds\")"), ofPython)
    assert(ofPython.contains("sj.join(left, right, on, within=\"1 hour\")"), ofPython)
    assert(!ofPython.contains("WATERMARK t"), ofPython)
  }

  private val duration = "STREAMJOIN_CLAUSE_DURATION"

  private case class Case(query: String, condition: String, at: String, words: Seq[String])

  /** The errors that have one condition. */
  private def cause(condition: String)(queries: (String => Case)*): Seq[Case] = queries.map(_(condition))

  /** A query that is rejected; the arrows point at what is between the two carets. */
  private def query(text: String, words: String*)(condition: String): Case =
    Case(text.replace("^", ""), condition, text.split('^')(1), words)

  private def within(clause: String, words: String*)(condition: String): Case =
    query(s"SELECT o.v FROM o JOIN d ^$clause^ ON o.id = d.id", words :+ "WITHIN 5s": _*)(condition)

  private def over(inside: String, words: String*)(condition: String): Case = {
    val example = "OVER (RANGE INTERVAL '10' MINUTE FOLLOWING)"
    query(s"SELECT o.v FROM o JOIN d ^OVER ($inside)^ AS x ON o.id = x.id", words :+ example: _*)(condition)
  }

  private val cases = Seq(
    cause(duration)(
      within("WITHIN 5 parsecs", "parsecs is not a unit", "ms, s, m, h or d"),
      within("WITHIN 5parsecs", "parsecs is not a unit"),
      within("WITHIN '5 parsecs'", "parsecs is not a unit"),
      within("WITHIN INTERVAL 5 PARSECS", "PARSECS is not a unit"),
      within("WITHIN 5", "no unit"),
      within("WITHIN 1 MONTH", "months and years varies"),
      within("WITHIN INTERVAL '1' YEAR", "months and years varies"),
      within("WITHIN INTERVAL 1 MONTH 1 DAY", "varies"),
      within("WITHIN INTERVAL 'x' SECOND", "cannot read it"),
      within("WITHIN -5s", "negative"),
      within("WITHIN INTERVAL -5 SECONDS", "negative"),
      within("WITHIN BETWEEN 5s AND 1s", "lower limit"),
      within("WITHIN BETWEEN 5s AND 1 MONTH", "varies"),
      over("ROWS 10 PRECEDING", "counts rows"),
      over("RANGE INTERVAL '0' MINUTE FOLLOWING", "no length"),
      over("RANGE INTERVAL '-10' MINUTE FOLLOWING", "no length"),
      over("RANGE INTERVAL '1' MONTH FOLLOWING", "varies"),
      over("RANGE UNBOUNDED PRECEDING", "one duration"),
      over("RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW", "one duration"),
      over("RANGE INTERVAL '10' MINUTE", "one duration"),
      over("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "counts rows"),
      over("RANGE 10 parsecs FOLLOWING", "parsecs is not a unit", "ms, s, m, h or d"),
      over("RANGE 10 FOLLOWING", "no unit"),
      over("RANGE 0s PRECEDING", "no length"),
      over("RANGE 1 YEAR PRECEDING", "varies")
    ),
    cause("STREAMJOIN_CLAUSE.TWICE")(
      query("SELECT 1 FROM o JOIN d WITHIN 5s ON o.id = d.id ^WITHIN 6s^", "two WITHIN"),
      query("SELECT 1 FROM o JOIN d WITHIN 5s ^WITHIN 5s^ USING (id)", "two WITHIN"),
      query(
        "SELECT 1 FROM o JOIN d OVER (RANGE 5s FOLLOWING) ^OVER (RANGE 6s FOLLOWING)^ USING (id)",
        "two OVER"
      )
    ),
    cause("STREAMJOIN_CLAUSE.AFTER_LEFT_INPUT")(
      query("SELECT 1 FROM o ^WITHIN 5s^ JOIN d ON o.id = d.id", "left input"),
      query("SELECT 1 FROM o ^FOR SYSTEM_TIME AS OF d.t^ JOIN d ON o.id = d.id", "left input")
    ),
    cause("STREAMJOIN_CLAUSE.NO_JOIN")(
      query("SELECT 1 FROM o ^WITHIN 5s^", "follow an input of a join"),
      query("SELECT 1 FROM o ^OVER (RANGE 5s PRECEDING)^ AS x", "of a join"),
      query("SELECT 1 FROM o, LATERAL (SELECT o.id) ^WITHIN 5s^", "of a join")
    ),
    cause("STREAMJOIN_NOT_A_STREAM.BOUND")(
      query("SELECT 1 FROM batch b JOIN batch c ^WITHIN 5s^ ON b.id = c.id", "left input is a batch"),
      query("SELECT 1 FROM o JOIN batch c ^WITHIN 5s^ ON o.id = c.id", "right input is a batch"),
      query(
        "SELECT 1 FROM o JOIN batch ^OVER (RANGE 5s FOLLOWING)^ c ON o.id = c.id",
        "OVER takes two streams"
      ),
      query(
        "SELECT 1 FROM batch ^OVER (RANGE 5s PRECEDING)^ JOIN d ON batch.id = d.id",
        "left input is a batch"
      )
    ),
    cause("STREAMJOIN_EVENT_TIME.NONE")(
      query(
        "SELECT 1 FROM raw ^OVER (RANGE 5s PRECEDING)^ JOIN d ON raw.id = d.id",
        "left input has none",
        "WATERMARK"
      ),
      query("SELECT 1 FROM raw JOIN d ^WITHIN 5s^ ON raw.id = d.id", "left input has none", "WATERMARK")
    ),
    cause("STREAMJOIN_EVENT_TIME.SEVERAL")(
      query(
        "SELECT 1 FROM o JOIN d WITHIN 5s USING (id) JOIN r ^WITHIN 5s^ ON o.id = r.id",
        "left input has 2: o.t, d.t",
        "ON"
      )
    ),
    cause("STREAMJOIN_CLAUSE.UNKNOWN_COLUMN")(
      query("SELECT 1 FROM o JOIN d ^FOR SYSTEM_TIME AS OF o.u^ ON o.id = d.id", "no column o.u"),
      query("SELECT 1 FROM o ASOF JOIN d ^MATCH_CONDITION (o.t >= d.u)^ ON o.id = d.id", "no column d.u")
    ),
    cause("STREAMJOIN_TEMPORAL.NO_KEY")(
      query("SELECT 1 FROM o JOIN d ^FOR SYSTEM_TIME AS OF o.t^ ON o.v > d.v", "key")
    ),
    cause("STREAMJOIN_TEMPORAL.CONSTANT")(
      query(
        "SELECT 1 FROM o JOIN d ^FOR SYSTEM_TIME AS OF o.t^ ON o.id = d.id AND d.v = 2",
        "VERSIONS(TABLE(...), KEY(id, v), TIME(t)) FOR SYSTEM_TIME AS OF",
        "VERSIONS(TABLE(...), KEY(id), TIME(t))"
      )
    ),
    cause("STREAMJOIN_CLAUSE.VERSIONS_COLUMN")(
      query(
        "SELECT 1 FROM o JOIN (SELECT t, v FROM VERSIONS(TABLE(d), KEY(id), TIME(t))) ^FOR SYSTEM_TIME AS OF o.t^ x ON o.v = x.v",
        "id is declared"
      )
    ),
    cause("STREAMJOIN_TEMPORAL.KEY_NOT_TIED")(
      query(
        "SELECT 1 FROM o JOIN VERSIONS(TABLE(d), KEY(id, v)) ^FOR SYSTEM_TIME AS OF o.t^ x ON o.id = x.id",
        "no equality for v",
        "ON ... = v"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.NO_TIME")(
      query(
        "SELECT * FROM ^VERSIONS(TABLE(raw), KEY(id))^",
        "no column of its table has a watermark.",
        "STREAM prices WATERMARK since"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT")(
      query("SELECT * FROM ^VERSIONS(TABLE(d), TIME(t))^", "needs the columns that tell"),
      query("SELECT * FROM ^IMPOSE_ORDER(TABLE(raw), DESCRIPTOR(t))^", "needs a lag"),
      query("SELECT * FROM ^sj_bounds()^", "one query"),
      query("SELECT * FROM ^sj_late_rows()^", "the name of a query")
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.SEVERAL_TIMES")(
      query(
        "SELECT * FROM ^VERSIONS(TABLE(SELECT o.id, o.t, d.t AS u FROM o JOIN d WITHIN 5s ON o.id = d.id), KEY(id))^",
        "have a watermark: t, u"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.UNKNOWN_ARGUMENT")(
      query(
        "SELECT * FROM IMPOSE_ORDER(TABLE(raw), DESCRIPTOR(t), delay => ^INTERVAL 1 SECOND^)",
        "no argument delay; its arguments are data, timecol, lag"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.ARGUMENT_TWICE")(
      query("SELECT * FROM VERSIONS(TABLE(d), KEY(id), ^KEY(v)^)", "KEY twice")
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.CLAUSE")(
      query("SELECT * FROM VERSIONS(TABLE(d), KEY(id), ^LAG(t)^)", "KEY, TIME, OP, ORDER and UNAVAILABLE")
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.COLUMN_NAME")(
      query("SELECT * FROM VERSIONS(TABLE(d), KEY(^id + 1^))", "name of a column")
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.NESTED_COLUMN")(
      query(
        "SELECT * FROM ^VERSIONS(TABLE(SELECT *, array(struct(v AS w)) AS many FROM d), KEY(many.w))^",
        "many.w is in a list or a map"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.UNKNOWN_COLUMN")(
      query("SELECT * FROM ^VERSIONS(TABLE(d), KEY(nothing))^", "id, t, v"),
      query("SELECT * FROM IMPOSE_ORDER(TABLE(raw), ^'u'^, INTERVAL 1 SECOND)", "no column u among id, t, v")
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.ARGUMENT")(
      query("SELECT * FROM VERSIONS(TABLE(d), KEY(id), ^UNAVAILABLE('x', 'y')^)", "one text in UNAVAILABLE"),
      query("SELECT * FROM IMPOSE_ORDER(TABLE(raw), ^t^, INTERVAL 1 SECOND)", "DESCRIPTOR(ts)"),
      query(
        "SELECT * FROM IMPOSE_ORDER(TABLE(raw), ^DESCRIPTOR(t, v)^, INTERVAL 1 SECOND)",
        "DESCRIPTOR(ts)"
      ),
      query("SELECT * FROM sj_late_rows(^7^)", "not 7")
    ),
    cause("STREAMJOIN_TEMPORAL.JOIN_TYPE")(
      query("SELECT 1 FROM o FULL JOIN d ^FOR SYSTEM_TIME AS OF o.t^ AS x ON o.id = x.id", "FULL OUTER join")
    ),
    cause("STREAMJOIN_CLAUSE.MATCHES_ALREADY")(
      query(
        "SELECT 1 FROM o JOIN d FOR SYSTEM_TIME AS OF o.t ^WITHIN 5s^ ON o.id = d.id",
        "which rows match"
      )
    ),
    cause("STREAMJOIN_NOT_A_STREAM.VERSIONS")(
      query(
        "SELECT 1 FROM o JOIN batch AS b ^FOR SYSTEM_TIME AS OF o.t^ ON o.id = b.id",
        "leave FOR SYSTEM_TIME AS OF out"
      )
    ),
    cause("STREAMJOIN_TEMPORAL.NO_TOLERANCE")(
      query("SELECT 1 FROM o ASOF JOIN d ^MATCH_CONDITION (o.t <= d.t)^ ON o.id = d.id", "WITHIN 10 MINUTES")
    ),
    cause("STREAMJOIN_CLAUSE.ASOF_LIMITS")(
      query(
        "SELECT 1 FROM o ASOF JOIN d MATCH_CONDITION (o.t >= d.t) ^WITHIN BETWEEN -10m AND 0s^ ON o.id = d.id",
        "WITHIN 10m"
      )
    ),
    cause("STREAMJOIN_CLAUSE.FIELD")(
      query(
        "SELECT 1 FROM (SELECT struct(t) AS s, id FROM o) a ASOF JOIN d ^MATCH_CONDITION (a.s.t >= d.t)^ ON a.id = d.id",
        "a.s.t is a field"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.NO_TABLE")(
      query("SELECT * FROM IMPOSE_ORDER(^1^, DESCRIPTOR(t), INTERVAL 1 SECOND)", "table first"),
      query("SELECT * FROM sj_bounds(^'o'^)", "takes a table")
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.DIVIDED_TABLE")(
      query(
        "SELECT * FROM IMPOSE_ORDER(^TABLE(raw) PARTITION BY (id)^, DESCRIPTOR(t), INTERVAL 1 SECOND)",
        "neither partitioned nor ordered"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.COLUMN_TYPE")(
      query("SELECT * FROM IMPOSE_ORDER(TABLE(raw), ^'v'^, INTERVAL 1 SECOND)", "v is INT")
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.FIELD")(
      query(
        "SELECT * FROM IMPOSE_ORDER(TABLE(SELECT struct(t) s FROM raw), ^DESCRIPTOR(s.t)^, INTERVAL 1 SECOND)",
        "is a field"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.HAS_WATERMARK")(
      query(
        "SELECT * FROM IMPOSE_ORDER(^TABLE(o)^, 't', INTERVAL 1 SECOND)",
        "without a watermark, but this one has a watermark on t"
      )
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.NEGATIVE_LAG")(
      query("SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', ^INTERVAL -1 SECOND^)", "negative")
    ),
    cause("STREAMJOIN_TABLE_FUNCTION.LAG")(
      query("SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', ^INTERVAL 1 MONTH^)", "varies"),
      query("SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', ^5^)", "not an interval"),
      query("SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', ^rand() * INTERVAL 1 SECOND^)", "not constant"),
      query("SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', ^'10 seconds'^)", "not an interval")
    ),
    cause("STREAMJOIN_NOT_A_STREAM.BOUNDS")(query("SELECT * FROM ^sj_bounds(TABLE(batch))^", "a batch")),
    cause("STREAMJOIN_TABLE_FUNCTION.UNKNOWN_QUERY")(
      query("SELECT * FROM sj_late_rows(^'nobody'^)", "none runs")
    )
  ).flatten

  for (rejection <- cases) test(s"${rejection.condition}: ${rejection.query}") {
    val (error, at) = rejected(rejection.query)
    val message = error.getMessage
    assert(error.getCondition == rejection.condition, message)
    assert(error.getQueryContext.isEmpty)
    assert(!message.matches("(?s).*<(\\w+)>.*".r.regex), message)
    rejection.words.foreach(word => assert(message.contains(word)))
    assert(at == rejection.at, message)
    assert(message.contains("== SQL (line 1, position "), message)
  }

  private val instead = {
    val within = "SELECT o.v FROM o JOIN d WITHIN 5s ON o.id = d.id"
    val asOf = "SELECT 1 FROM o JOIN d FOR SYSTEM_TIME AS OF o.t ON o.id = d.id"
    def versions(key: String, on: String) =
      s"SELECT 1 FROM o JOIN VERSIONS(TABLE(d), KEY($key), TIME(t)) FOR SYSTEM_TIME AS OF o.t x ON $on"
    Map(
      duration -> within,
      "STREAMJOIN_CLAUSE.AFTER_LEFT_INPUT" -> within,
      "STREAMJOIN_CLAUSE.ASOF_LIMITS" ->
        "SELECT 1 FROM o ASOF JOIN d MATCH_CONDITION (o.t >= d.t) WITHIN 10m ON o.id = d.id",
      "STREAMJOIN_CLAUSE.FIELD" ->
        "SELECT 1 FROM (SELECT t AS u, id FROM o) a ASOF JOIN d MATCH_CONDITION (a.u >= d.t) ON a.id = d.id",
      "STREAMJOIN_CLAUSE.MATCHES_ALREADY" -> asOf,
      "STREAMJOIN_CLAUSE.NO_JOIN" -> within,
      "STREAMJOIN_CLAUSE.TWICE" -> within,
      "STREAMJOIN_CLAUSE.UNKNOWN_COLUMN" -> asOf,
      "STREAMJOIN_CLAUSE.VERSIONS_COLUMN" -> versions("id", "o.id = x.id"),
      "STREAMJOIN_EVENT_TIME.NONE" ->
        "SELECT 1 FROM raw WATERMARK t DELAY OF INTERVAL 10 SECONDS AS r JOIN d WITHIN 5s ON r.id = d.id",
      "STREAMJOIN_EVENT_TIME.SEVERAL" ->
        "SELECT 1 FROM (SELECT o.id, o.t FROM o JOIN d WITHIN 5s ON o.id = d.id) x JOIN r WITHIN 5s ON x.id = r.id",
      "STREAMJOIN_NOT_A_STREAM.BOUND" -> "SELECT 1 FROM o JOIN batch c ON o.id = c.id AND c.t >= o.t",
      "STREAMJOIN_NOT_A_STREAM.BOUNDS" -> s"SELECT * FROM sj_bounds(TABLE($within))",
      "STREAMJOIN_NOT_A_STREAM.VERSIONS" -> "SELECT 1 FROM o JOIN batch b ON o.id = b.id",
      "STREAMJOIN_TEMPORAL.CONSTANT" -> versions("id", "o.id = x.id AND x.v = 2"),
      "STREAMJOIN_TEMPORAL.JOIN_TYPE" -> asOf.replace("JOIN", "LEFT JOIN"),
      "STREAMJOIN_TEMPORAL.KEY_NOT_TIED" -> versions("id, v", "o.id = x.id AND o.v = x.v"),
      "STREAMJOIN_TEMPORAL.NO_KEY" -> s"$asOf AND o.v > d.v",
      "STREAMJOIN_TEMPORAL.NO_TOLERANCE" ->
        "SELECT 1 FROM o ASOF JOIN d MATCH_CONDITION (o.t <= d.t) WITHIN 10 MINUTES ON o.id = d.id"
    )
  }

  test("for each error there is a query to write instead") {
    views
    // The errors of table functions end with an example.
    assert(instead.keySet == cases.map(_.condition).filterNot(_.contains("TABLE_FUNCTION")).toSet)
    instead.values.foreach(spark.sql(_): Unit)
  }

  test("an error points at its place in a text of several lines, with parameters before it") {
    views
    val text = "SELECT 'x', :much\nFROM o\n  JOIN d WITHIN 5 parsecs\n  ON o.id = d.id"
    val error =
      intercept[org.apache.spark.sql.AnalysisException](spark.sql(text, Map("much" -> "a longer text")))
    assert(
      error.getMessage.contains(
        "== SQL (line 3, position 10) ==\n  JOIN d WITHIN 5 parsecs\n         ^^^^^^^^"
      )
    )
  }

  test("IMPOSE_ORDER leaves the rows of a static table as they are, like Spark's WATERMARK") {
    views
    val queries = Seq(
      "SELECT * FROM IMPOSE_ORDER(TABLE(batch), DESCRIPTOR(t), INTERVAL 1 SECOND)",
      "SELECT * FROM batch WATERMARK t DELAY OF INTERVAL 1 SECOND"
    )
    queries.foreach(query => assert(spark.sql(query).collect().toSeq == spark.table("batch").collect().toSeq))
  }

  test("FOR SYSTEM_TIME AS OF a time, on a batch, is Spark's time travel") {
    views
    val time = "TIMESTAMP '2024-06-01 00:00:00'"
    for (
      text <- Seq(
        s"SELECT * FROM batch FOR SYSTEM_TIME AS OF $time",
        s"SELECT 1 FROM o JOIN batch FOR SYSTEM_TIME AS OF $time b ON o.id = b.id"
      )
    ) {
      val error = intercept[org.apache.spark.sql.AnalysisException](spark.sql(text))
      assert(error.getCondition == "UNSUPPORTED_FEATURE.TIME_TRAVEL", error.getMessage)
    }
  }

  test("the error of a join without a bound suggests WITHIN") {
    val error = rejection(sql("SELECT o.v FROM o JOIN d ON o.id = d.id")(newStreams()))
    assert(error.getCondition == "STREAMJOIN_UNBOUNDED")
    assert(error.getMessage.contains("WITHIN 1h"))
  }
}
