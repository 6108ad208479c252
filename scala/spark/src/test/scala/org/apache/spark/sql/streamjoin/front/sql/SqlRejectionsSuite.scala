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

  private case class Case(query: String, condition: String, at: String, words: String*)

  private def within(clause: String, at: String, words: String*) =
    Case(s"SELECT o.v FROM o JOIN d $clause ON o.id = d.id", duration, at, words :+ "WITHIN 5s": _*)

  private def over(inside: String, words: String*) =
    Case(
      s"SELECT o.v FROM o JOIN d OVER ($inside) AS x ON o.id = x.id",
      duration,
      s"OVER ($inside)",
      words :+ "OVER (RANGE INTERVAL '10' MINUTE FOLLOWING)": _*
    )

  private val cases = Seq(
    within("WITHIN 5 parsecs", "WITHIN 5 parsecs", "parsecs is no unit", "ms, s, m, h or d"),
    within("WITHIN 5parsecs", "WITHIN 5parsecs", "parsecs is no unit"),
    within("WITHIN '5 parsecs'", "WITHIN '5 parsecs'", "parsecs is no unit"),
    within("WITHIN INTERVAL 5 PARSECS", "WITHIN INTERVAL 5 PARSECS", "PARSECS is no unit"),
    within("WITHIN 5", "WITHIN 5", "no unit"),
    within("WITHIN 1 MONTH", "WITHIN 1 MONTH", "months and years varies"),
    within("WITHIN INTERVAL '1' YEAR", "WITHIN INTERVAL '1' YEAR", "months and years varies"),
    within("WITHIN INTERVAL 1 MONTH 1 DAY", "WITHIN INTERVAL 1 MONTH 1 DAY", "varies"),
    within("WITHIN INTERVAL 'x' SECOND", "WITHIN INTERVAL 'x' SECOND", "cannot read it"),
    within("WITHIN -5s", "WITHIN -5s", "negative"),
    within("WITHIN INTERVAL -5 SECONDS", "WITHIN INTERVAL -5 SECONDS", "negative"),
    within("WITHIN BETWEEN 5s AND 1s", "WITHIN BETWEEN 5s AND 1s", "lower limit"),
    within("WITHIN BETWEEN 5s AND 1 MONTH", "WITHIN BETWEEN 5s AND 1 MONTH", "varies"),
    over("ROWS 10 PRECEDING", "counted"),
    over("RANGE INTERVAL '0' MINUTE FOLLOWING", "no length"),
    over("RANGE INTERVAL '-10' MINUTE FOLLOWING", "no length"),
    over("RANGE INTERVAL '1' MONTH FOLLOWING", "varies"),
    over("RANGE UNBOUNDED PRECEDING", "one duration"),
    over("RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW", "one duration"),
    over("RANGE INTERVAL '10' MINUTE", "one duration"),
    over("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "counted"),
    over("RANGE 10 parsecs FOLLOWING", "parsecs is no unit", "ms, s, m, h or d"),
    over("RANGE 10 FOLLOWING", "no unit"),
    over("RANGE 0s PRECEDING", "no length"),
    over("RANGE 1 YEAR PRECEDING", "varies"),
    Case(
      "SELECT 1 FROM o JOIN d WITHIN 5s ON o.id = d.id WITHIN 6s",
      "STREAMJOIN_CLAUSE.TWICE",
      "WITHIN 6s",
      "two WITHIN"
    ),
    Case(
      "SELECT 1 FROM o JOIN d WITHIN 5s WITHIN 5s USING (id)",
      "STREAMJOIN_CLAUSE.TWICE",
      "WITHIN 5s",
      "two WITHIN"
    ),
    Case(
      "SELECT 1 FROM o JOIN d OVER (RANGE 5s FOLLOWING) OVER (RANGE 6s FOLLOWING) USING (id)",
      "STREAMJOIN_CLAUSE.TWICE",
      "OVER (RANGE 6s FOLLOWING)",
      "two OVER"
    ),
    Case(
      "SELECT 1 FROM o WITHIN 5s JOIN d ON o.id = d.id",
      "STREAMJOIN_CLAUSE.AFTER_LEFT_INPUT",
      "WITHIN 5s",
      "left input"
    ),
    Case("SELECT 1 FROM o WITHIN 5s", "STREAMJOIN_CLAUSE.NO_JOIN", "WITHIN 5s", "at an input of a join"),
    Case(
      "SELECT 1 FROM o OVER (RANGE 5s PRECEDING) AS x",
      "STREAMJOIN_CLAUSE.NO_JOIN",
      "OVER (RANGE 5s PRECEDING)",
      "of a join"
    ),
    Case(
      "SELECT 1 FROM o, LATERAL (SELECT o.id) WITHIN 5s",
      "STREAMJOIN_CLAUSE.NO_JOIN",
      "WITHIN 5s",
      "of a join"
    ),
    Case(
      "SELECT 1 FROM batch b JOIN batch c WITHIN 5s ON b.id = c.id",
      "STREAMJOIN_NOT_A_STREAM.BOUND",
      "WITHIN 5s",
      "left input is a batch"
    ),
    Case(
      "SELECT 1 FROM o JOIN batch c WITHIN 5s ON o.id = c.id",
      "STREAMJOIN_NOT_A_STREAM.BOUND",
      "WITHIN 5s",
      "right input is a batch"
    ),
    Case(
      "SELECT 1 FROM o JOIN batch OVER (RANGE 5s FOLLOWING) c ON o.id = c.id",
      "STREAMJOIN_NOT_A_STREAM.BOUND",
      "OVER (RANGE 5s FOLLOWING)",
      "OVER takes two streams"
    ),
    Case(
      "SELECT 1 FROM batch OVER (RANGE 5s PRECEDING) JOIN d ON batch.id = d.id",
      "STREAMJOIN_NOT_A_STREAM.BOUND",
      "OVER (RANGE 5s PRECEDING)",
      "left input is a batch"
    ),
    Case(
      "SELECT 1 FROM raw OVER (RANGE 5s PRECEDING) JOIN d ON raw.id = d.id",
      "STREAMJOIN_EVENT_TIME.NONE",
      "OVER (RANGE 5s PRECEDING)",
      "left one has none",
      "WATERMARK"
    ),
    Case(
      "SELECT 1 FROM raw JOIN d WITHIN 5s ON raw.id = d.id",
      "STREAMJOIN_EVENT_TIME.NONE",
      "WITHIN 5s",
      "left one has none",
      "WATERMARK"
    ),
    Case(
      "SELECT 1 FROM o JOIN d WITHIN 5s USING (id) JOIN r WITHIN 5s ON o.id = r.id",
      "STREAMJOIN_EVENT_TIME.SEVERAL",
      "WITHIN 5s",
      "left one has 2: o.t, d.t",
      "ON"
    ),
    Case(
      "SELECT 1 FROM o JOIN d FOR SYSTEM_TIME AS OF o.u ON o.id = d.id",
      "STREAMJOIN_CLAUSE.UNKNOWN_COLUMN",
      "FOR SYSTEM_TIME AS OF o.u",
      "no column o.u"
    ),
    Case(
      "SELECT 1 FROM o JOIN d FOR SYSTEM_TIME AS OF o.t ON o.v > d.v",
      "STREAMJOIN_TEMPORAL.NO_KEY",
      "FOR SYSTEM_TIME AS OF o.t",
      "key"
    ),
    Case(
      "SELECT 1 FROM o JOIN d FOR SYSTEM_TIME AS OF o.t ON o.id = d.id AND d.v = 2",
      "STREAMJOIN_TEMPORAL.CONSTANT",
      "FOR SYSTEM_TIME AS OF o.t",
      "VERSIONS(TABLE(...), KEY(id, v), TIME(t)) FOR SYSTEM_TIME AS OF",
      "VERSIONS(TABLE(...), KEY(id), TIME(t))"
    ),
    Case(
      "SELECT 1 FROM o JOIN (SELECT t, v FROM VERSIONS(TABLE(d), KEY(id), TIME(t))) FOR SYSTEM_TIME AS OF o.t x ON o.v = x.v",
      "STREAMJOIN_CLAUSE.VERSIONS_COLUMN",
      "FOR SYSTEM_TIME AS OF o.t",
      "id is declared"
    ),
    Case(
      "SELECT 1 FROM o JOIN VERSIONS(TABLE(d), KEY(id, v)) FOR SYSTEM_TIME AS OF o.t x ON o.id = x.id",
      "STREAMJOIN_TEMPORAL.KEY_NOT_TIED",
      "FOR SYSTEM_TIME AS OF o.t",
      "no equality for v",
      "ON ... = v"
    ),
    Case(
      "SELECT * FROM VERSIONS(TABLE(raw), KEY(id))",
      "STREAMJOIN_TABLE_FUNCTION.NO_TIME",
      "VERSIONS(TABLE(raw), KEY(id))",
      "no column of its table has a watermark.",
      "STREAM prices WATERMARK since"
    ),
    Case(
      "SELECT * FROM VERSIONS(TABLE(d), TIME(t))",
      "STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT",
      "VERSIONS(TABLE(d), TIME(t))",
      "needs the columns that tell"
    ),
    Case(
      "SELECT * FROM VERSIONS(TABLE(d), KEY(id), KEY(v))",
      "STREAMJOIN_TABLE_FUNCTION.ARGUMENT_TWICE",
      "KEY(v)",
      "KEY twice"
    ),
    Case(
      "SELECT * FROM VERSIONS(TABLE(d), KEY(id), LAG(t))",
      "STREAMJOIN_TABLE_FUNCTION.CLAUSE",
      "LAG(t)",
      "KEY, TIME, OP, ORDER and UNAVAILABLE"
    ),
    Case(
      "SELECT * FROM VERSIONS(TABLE(d), KEY(id + 1))",
      "STREAMJOIN_TABLE_FUNCTION.COLUMN_NAME",
      "id + 1",
      "name of a column"
    ),
    Case(
      "SELECT * FROM VERSIONS(TABLE(d), KEY(nothing))",
      "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_COLUMN",
      "VERSIONS(TABLE(d), KEY(nothing))",
      "id, t, v"
    ),
    Case(
      "SELECT * FROM VERSIONS(TABLE(d), KEY(id), UNAVAILABLE('x', 'y'))",
      "STREAMJOIN_TABLE_FUNCTION.ARGUMENT",
      "UNAVAILABLE('x', 'y')",
      "one text in UNAVAILABLE"
    ),
    Case(
      "SELECT 1 FROM o FULL JOIN d FOR SYSTEM_TIME AS OF o.t AS x ON o.id = x.id",
      "STREAMJOIN_TEMPORAL.JOIN_TYPE",
      "FOR SYSTEM_TIME AS OF o.t",
      "FULL OUTER join"
    ),
    Case(
      "SELECT 1 FROM o JOIN d FOR SYSTEM_TIME AS OF o.t WITHIN 5s ON o.id = d.id",
      "STREAMJOIN_CLAUSE.MATCHES_ALREADY",
      "WITHIN 5s",
      "which rows match"
    ),
    Case(
      "SELECT 1 FROM o FOR SYSTEM_TIME AS OF d.t JOIN d ON o.id = d.id",
      "STREAMJOIN_CLAUSE.AFTER_LEFT_INPUT",
      "FOR SYSTEM_TIME AS OF d.t",
      "left input"
    ),
    Case(
      "SELECT 1 FROM o JOIN batch AS b FOR SYSTEM_TIME AS OF o.t ON o.id = b.id",
      "STREAMJOIN_NOT_A_STREAM.VERSIONS",
      "FOR SYSTEM_TIME AS OF o.t",
      "leave FOR SYSTEM_TIME AS OF out"
    ),
    Case(
      "SELECT 1 FROM o ASOF JOIN d MATCH_CONDITION (o.t <= d.t) ON o.id = d.id",
      "STREAMJOIN_TEMPORAL.NO_TOLERANCE",
      "MATCH_CONDITION (o.t <= d.t)",
      "WITHIN 10 MINUTES"
    ),
    Case(
      "SELECT 1 FROM o ASOF JOIN d MATCH_CONDITION (o.t >= d.t) WITHIN BETWEEN -10m AND 0s ON o.id = d.id",
      "STREAMJOIN_CLAUSE.ASOF_LIMITS",
      "WITHIN BETWEEN -10m AND 0s",
      "WITHIN 10m"
    ),
    Case(
      "SELECT 1 FROM o ASOF JOIN d MATCH_CONDITION (o.t >= d.u) ON o.id = d.id",
      "STREAMJOIN_CLAUSE.UNKNOWN_COLUMN",
      "MATCH_CONDITION (o.t >= d.u)",
      "no column d.u"
    ),
    Case(
      "SELECT 1 FROM (SELECT struct(t) AS s, id FROM o) a ASOF JOIN d MATCH_CONDITION (a.s.t >= d.t) ON a.id = d.id",
      "STREAMJOIN_CLAUSE.FIELD",
      "MATCH_CONDITION (a.s.t >= d.t)",
      "a.s.t is a field"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), DESCRIPTOR(t))",
      "STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT",
      "IMPOSE_ORDER(TABLE(raw), DESCRIPTOR(t))",
      "needs a lag"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(1, DESCRIPTOR(t), INTERVAL 1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.NO_TABLE",
      "1",
      "table first"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), t, INTERVAL 1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.ARGUMENT",
      "t",
      "DESCRIPTOR(ts)"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), 'u', INTERVAL 1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_COLUMN",
      "'u'",
      "no column u among id, t, v"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), 'v', INTERVAL 1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.COLUMN_TYPE",
      "'v'",
      "v is INT"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(SELECT struct(t) s FROM raw), DESCRIPTOR(s.t), INTERVAL 1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.FIELD",
      "DESCRIPTOR(s.t)",
      "is a field"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), DESCRIPTOR(t, v), INTERVAL 1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.ARGUMENT",
      "DESCRIPTOR(t, v)",
      "DESCRIPTOR(ts)"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(o), 't', INTERVAL 1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.HAS_WATERMARK",
      "TABLE(o)",
      "without a watermark, and this one has one on t"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', INTERVAL -1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.NEGATIVE_LAG",
      "INTERVAL -1 SECOND",
      "negative"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', INTERVAL 1 MONTH)",
      "STREAMJOIN_TABLE_FUNCTION.LAG",
      "INTERVAL 1 MONTH",
      "varies"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', 5)",
      "STREAMJOIN_TABLE_FUNCTION.LAG",
      "5",
      "no interval"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', rand() * INTERVAL 1 SECOND)",
      "STREAMJOIN_TABLE_FUNCTION.LAG",
      "rand() * INTERVAL 1 SECOND",
      "not constant"
    ),
    Case(
      "SELECT * FROM IMPOSE_ORDER(TABLE(raw), 't', '10 seconds')",
      "STREAMJOIN_TABLE_FUNCTION.LAG",
      "'10 seconds'",
      "no interval"
    ),
    Case("SELECT * FROM sj_bounds('o')", "STREAMJOIN_TABLE_FUNCTION.NO_TABLE", "'o'", "takes a table"),
    Case(
      "SELECT * FROM sj_bounds()",
      "STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT",
      "sj_bounds()",
      "one query"
    ),
    Case(
      "SELECT * FROM sj_bounds(TABLE(batch))",
      "STREAMJOIN_NOT_A_STREAM.BOUNDS",
      "sj_bounds(TABLE(batch))",
      "a batch"
    ),
    Case(
      "SELECT * FROM sj_late_rows()",
      "STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT",
      "sj_late_rows()",
      "the name of a query"
    ),
    Case("SELECT * FROM sj_late_rows(7)", "STREAMJOIN_TABLE_FUNCTION.ARGUMENT", "7", "not 7"),
    Case(
      "SELECT * FROM sj_late_rows('nobody')",
      "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_QUERY",
      "'nobody'",
      "none runs"
    )
  )

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
