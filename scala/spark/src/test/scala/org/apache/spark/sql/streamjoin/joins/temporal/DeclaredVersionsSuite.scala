package org.apache.spark.sql.streamjoin.joins.temporal

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.constraints.Constraint
import org.apache.spark.sql.connector.expressions.{FieldReference, NamedReference, Transform}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.execution.ExplainMode
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.{IntegerType, StringType, StructType, TimestampType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{DataFrame, Row}

/** What identifies a row of the table behind `FOR SYSTEM_TIME AS OF`, and who says so. */
class DeclaredVersionsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  private val schema = "code STRING, region STRING, t TIMESTAMP, v INT, op STRING, n INT"

  private def event(input: String)(code: String, region: String, time: String, v: Int, op: String, n: Int) =
    input -> Row(code, region, at(time), v, op, n)

  private def price(code: String, region: String, time: String, v: Int, op: String = "insert", n: Int = 0) =
    event("p")(code, region, time, v, op, n)

  private def sale(code: String, region: String, time: String, v: Int) =
    event("s")(code, region, time, v, null, 0)

  private val end =
    Seq("11:00", "11:01").map(time => Seq(sale("-", "-", time, 999), price("-", "+", time, 999)))

  private def rows(text: String, before: String*)(events: (String, Row)*): Seq[String] = {
    def query(streams: Streams): DataFrame = {
      Seq("s", "p").foreach(name => streams.marked(name).createOrReplaceTempView(name))
      streams.raw("p").createOrReplaceTempView("log")
      before.foreach(spark.sql)
      spark.sql(text)
    }
    running(job(query, schema)) { job =>
      job.feed(events: _*)
      end.foreach(rows => job.feed(rows: _*))
      withoutClosingRows(job.seen.flatMap(_.rows), "999").sorted
    }
  }

  private val declared = "VERSIONS(TABLE(p), KEY(code, region), TIME(t))"

  private val german = Seq(
    price("a", "DE", "10:00", 1),
    price("a", "FR", "10:05", 2),
    sale("a", "DE", "10:10", 7)
  )

  test("a version of another row does not hide the one of a constant, however the declaration is reached") {
    val on = "ON s.code = p.code AND p.region = 'DE'"
    def query(input: String) = s"SELECT s.v, p.v FROM s LEFT JOIN $input FOR SYSTEM_TIME AS OF s.t AS p $on"
    for (
      (text, before) <- SparkTest.part(
        Seq(
          query(declared) -> Nil,
          query("versions(table(select * from p), key('code', region))") -> Nil,
          query(s"(SELECT region, v, code, t FROM $declared)") -> Nil,
          query("prices") -> Seq(s"CREATE OR REPLACE TEMPORARY VIEW prices AS SELECT * FROM $declared"),
          s"WITH q AS (SELECT code, region, t, v FROM p), r AS (SELECT * FROM ${declared.replace("(p)", "(q)")}) " +
            query("r") -> Nil
        ),
        every = 2
      )
    ) assert(rows(text, before: _*)(german: _*) == Seq("7 1"), text)
  }

  test("an equality of a column outside the declared key chooses no older version") {
    def query(key: String) =
      s"SELECT s.v, p.v FROM s LEFT JOIN VERSIONS(TABLE(p), KEY($key)) FOR SYSTEM_TIME AS OF s.t p " +
        "ON s.code = p.code AND s.region = p.region"
    // At 10:10 the row is in FR.
    assert(rows(query("code"))(german: _*) == Seq("7 -"))
    assert(rows(query("code, region"))(german: _*) == Seq("7 1"))
  }

  testLong("OP and ORDER say what a change is, and which of one time is the last") {
    val text =
      "SELECT s.v, p.v FROM s LEFT JOIN VERSIONS(TABLE(p), KEY(code), TIME(t), OP(op), `ORDER`(n)) " +
        "FOR SYSTEM_TIME AS OF s.t AS p ON s.code = p.code"
    assert(
      rows(text)(
        price("a", "DE", "10:00", 2, n = 2),
        price("a", "DE", "10:00", 3, n = 1),
        price("a", "DE", "10:05", 0, "delete", 3),
        sale("a", "DE", "10:01", 7),
        sale("a", "DE", "10:06", 8)
      ) == Seq("7 2", "8 -")
    )
    assert(rows(text.replace("`ORDER`", "ORDER"))(german: _*) == Seq("7 2"))
  }

  testLong("UNAVAILABLE says what stands for a value that was not sent") {
    def query(input: String) =
      s"SELECT s.v, p.region FROM s LEFT JOIN $input FOR SYSTEM_TIME AS OF s.t AS p ON s.code = p.code"
    def versions(more: String) = s"VERSIONS(TABLE(p), KEY(code), TIME(t), OP(op)$more)"
    val debezium = "__debezium_unavailable_value"
    def view(more: String) = s"CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT * FROM ${versions(more)}"
    for (
      (text, before, sent, found) <- SparkTest.part(
        Seq(
          (query(versions(", UNAVAILABLE('?')")), Nil, "?", "DE"),
          (
            query("(SELECT region AS r, code, t, op FROM kept)").replace("p.region", "p.r"),
            Seq(view(", UNAVAILABLE('?')")),
            "?",
            "DE"
          ),
          (query(versions(", UNAVAILABLE('?')")), Nil, debezium, debezium),
          (query(versions("")), Nil, debezium, "DE"),
          (query(versions(", unavailable(NULL)")), Nil, debezium, debezium),
          (query("kept"), Seq(view(", UNAVAILABLE(NULL)")), debezium, debezium)
        ),
        every = 2,
        from = 1
      )
    )
      assert(
        rows(text, before: _*)(
          price("a", "DE", "10:00", 1),
          price("a", sent, "10:05", 2, "update"),
          sale("a", "-", "10:06", 7)
        ) == Seq(s"7 $found"),
        text
      )
  }

  test("an envelope of Debezium is flattened") {
    val row = "STRUCT(code, region, v)"
    val text = "SELECT s.v, p.v, p.region FROM s JOIN VERSIONS(TABLE(SELECT IF(op = 'd', " +
      s"$row, NULL) AS before, IF(op = 'd', NULL, $row) AS after, op, t FROM p), KEY(code)) FOR SYSTEM_TIME AS OF s.t AS p " +
      "ON s.code = p.code"
    assert(
      rows(text)(
        price("a", "DE", "10:00", 2, "c"),
        price("a", "DE", "10:05", 2, "d"),
        sale("a", "DE", "10:01", 7),
        sale("a", "DE", "10:06", 8)
      ) == Seq("7 2 DE")
    )
    // Without its key it would be a flat log, whose deletes have no key.
    val ofField = intercept[org.apache.spark.sql.AnalysisException] {
      rows(text.replace("KEY(code)", "KEY(after.code)").replace("= p.code", "= p.after.code"))()
    }
    assert(
      ofField.getCondition == "STREAMJOIN_COLUMN.KEY_OF_ENVELOPE" && ofField.getMessage.contains(
        "Name it as the table does: code."
      )
    )
  }

  private def explained(input: String, on: String): String = {
    val streams = newStreams(schema)
    Seq("s", "p").foreach(name => streams.marked(name).createOrReplaceTempView(name))
    spark
      .sql(s"SELECT s.v AS a, p.v AS b FROM s JOIN $input FOR SYSTEM_TIME AS OF s.t AS p ON $on")
      // Spark explains what it knows to be a stream before it is analyzed.
      .select("*")
      .queryExecution
      .explainString(ExplainMode.fromString("simple"))
  }

  test("EXPLAIN shows the key of the versions, and where it comes from") {
    assert(
      explained("p", "s.code = p.code AND s.region = p.region")
        .contains("key of the versions (code, region), as ON compares them")
    )
    assert(
      explained(declared, "s.code = p.code AND p.region = 'DE'").contains(
        "(code, region), as VERSIONS declares"
      )
    )
  }

  private def query(condition: String, input: String): String =
    s"SELECT s.v, p.v FROM s LEFT JOIN $input FOR SYSTEM_TIME AS OF s.t AS p ON s.code = p.code AND $condition"

  private val extended =
    "(SELECT *, region = 'DE' AS active, struct(region) AS place FROM p)"

  test("a column that may have one value is not left out of the key in silence, however that is written") {
    val streams = newStreams(schema)
    Seq("s", "p").foreach(name => streams.marked(name).createOrReplaceTempView(name))
    spark.udf.register("constant_region", (text: String) => text)
    def rejected(condition: String, arguments: Map[String, Any] = Map.empty) = {
      val error = intercept[org.apache.spark.sql.AnalysisException](
        spark.sql(query(condition, extended), arguments)
      )
      assert(error.getCondition == "STREAMJOIN_TEMPORAL.CONSTANT", condition)
      error.getMessage.replace("REGION", "region")
    }
    for (
      condition <- Seq(
        "p.region = 'DE'",
        "'DE' = p.region",
        "p.REGION IN ('DE')",
        "p.`region` IN ('DE', upper('de'), NULL)",
        "p.region <=> 'DE'",
        "p.region = CAST('DE' AS STRING)",
        "p.region = upper('de')",
        "p.region = constant_region('DE')",
        "p.region LIKE 'DE'",
        "NOT (p.region <> 'DE')",
        "(p.v > 0 AND p.region = 'DE')",
        "p.region COLLATE UTF8_LCASE = 'de'"
      )
    ) assert(rejected(condition).contains("VERSIONS(TABLE(...), KEY(code, region), TIME(t))"), condition)
    assert(rejected("p.region = :r", Map("r" -> "DE")).contains("KEY(code, region)"))
    assert(rejected("p.region IN (:r)", Map("r" -> "DE")).contains("KEY(code, region)"))
    for (
      condition <- Seq("p.active", "NOT p.active", "p.active IS TRUE", "p.active <> false", "p.active = true")
    )
      assert(rejected(condition).contains("KEY(code, active)"), condition)
    assert(rejected("p.place.region = 'DE'").contains("KEY(code, place.region)"))
    for (
      condition <- Seq(
        "p.region IN ('DE', 'FR')",
        "p.region LIKE 'D%'",
        "p.region IS NOT NULL",
        "p.region <> 'DE'",
        "s.region = 'DE'",
        "s.region IN ('DE')",
        "p.v > 0",
        "lower(p.region) = 'de'"
      )
    ) assert(spark.sql(query(condition, extended)).isStreaming, condition)
  }

  test("a column of the declared key may have one value, however that is written") {
    val ofRegion = "VERSIONS(TABLE(p), KEY(code, region), TIME(t))"
    val conditions = Seq("p.region IN ('DE')", "p.region <=> upper('de')", "p.region LIKE 'DE'")
    for (condition <- SparkTest.part(conditions, every = 3))
      assert(rows(query(condition, ofRegion))(german: _*) == Seq("7 1"), condition)
    val ofActive = s"VERSIONS(TABLE$extended, KEY(code, active), TIME(t))"
    assert(rows(query("p.active", ofActive))(german: _*) == Seq("7 1"))
    assert(rows(query("NOT p.active", ofActive))(german: _*) == Seq("7 2"))
  }

  private val payloads =
    "SELECT *, code AS x FROM (SELECT struct(code, region, t AS since, v) AS payload, struct(n AS lsn) AS source, " +
      "struct(op AS `the op`) AS kind, code FROM log) WATERMARK payload.since DELAY OF INTERVAL 0 SECONDS"

  testLong("fields of columns are declared, and selected") {
    val declared =
      s"VERSIONS(TABLE($payloads), KEY(payload.code), TIME(payload.since), OP(kind.`the op`), ORDER(source.lsn))"
    val selected = s"(SELECT payload.code AS c, payload.v AS v, since, lsn, `the op` FROM $declared)"
    val on = "FOR SYSTEM_TIME AS OF s.t AS p ON s.code ="
    def of(input: String, v: String, key: String) = s"SELECT s.v, p.$v FROM s LEFT JOIN $input $on p.$key"
    for (
      (text, before) <- SparkTest.part(
        Seq(
          of(declared, "payload.v", "payload.code") -> Nil,
          of(declared.replace("payload.code", "PAYLOAD.`Code`"), "payload.v", "payload.code") -> Nil,
          of(selected, "v", "c") -> Nil,
          of("prices", "v", "c") -> Seq(
            s"CREATE OR REPLACE TEMPORARY VIEW prices AS SELECT * FROM $selected"
          ),
          s"WITH r AS (SELECT payload, since, lsn, `the op` AS o FROM $declared) " +
            of("(SELECT o, lsn, since, payload.* FROM r)", "v", "code") -> Nil
        ),
        every = 2
      )
    )
      assert(
        rows(text, before: _*)(
          price("a", "DE", "10:00", 2, n = 2),
          price("a", "DE", "10:00", 3, n = 1),
          price("a", "FR", "10:05", 0, "delete", 3),
          sale("a", "DE", "10:01", 7),
          sale("a", "DE", "10:06", 8)
        ) == Seq("7 2", "8 -"),
        text
      )
    val missing = intercept[org.apache.spark.sql.AnalysisException] {
      spark.sql(of("(SELECT payload.v AS v, since, lsn, `the op` FROM " + declared + ")", "v", "v"))
    }
    assert(missing.getMessage.contains("payload.code is declared"), missing.getMessage)
  }

  test("a declaration replaces an earlier one of the same rows") {
    val text = query("p.region = s.region", "VERSIONS(TABLE(prices), KEY(code), TIME(t))")
    val before = s"CREATE OR REPLACE TEMPORARY VIEW prices AS SELECT region, v, t, code FROM $declared"
    assert(rows(text, before)(german: _*) == Seq("7 -"))
  }

  test("the primary key of a catalog's table is the key of its versions") {
    spark.conf.set("spark.sql.catalog.keyed", classOf[KeyedCatalog].getName)
    val changes = "STREAM keyed.shop.prices WATERMARK t DELAY OF INTERVAL 0 SECONDS"
    spark.sql(
      s"CREATE OR REPLACE TEMPORARY VIEW keyed_prices AS SELECT code AS c, region, t, v FROM $changes"
    )
    val key = "key of the versions (code, region), the PRIMARY KEY"
    assert(explained(changes, "s.code = p.code AND p.region = 'DE'").contains(key))
    val ofView = explained("keyed_prices", "s.code = p.c AND p.region = s.region AND p.v = 1")
    assert(ofView.contains(key.replace("code", "c")), ofView)
    assert(ofView.contains("condition (prices.v = 1)"), ofView)
    val missing = intercept[org.apache.spark.sql.AnalysisException] {
      spark.sql(
        s"SELECT 1 FROM s JOIN (SELECT code, t FROM $changes) FOR SYSTEM_TIME AS OF s.t p ON s.code = p.code"
      )
    }
    assert(missing.getCondition == "STREAMJOIN_CLAUSE.VERSIONS_COLUMN")
    assert(missing.getMessage.contains("region is declared"))
  }
}

/** A catalog with one table of changes, which has a primary key. */
class KeyedCatalog extends TableCatalog {
  private val table = new Table with SupportsRead {
    override def name: String = "prices"
    override def columns: Array[Column] = CatalogV2Util.structTypeToV2Columns(
      new StructType()
        .add("code", StringType)
        .add("region", StringType)
        .add("t", TimestampType)
        .add("v", IntegerType)
    )
    override def capabilities: java.util.Set[TableCapability] = Set(TableCapability.MICRO_BATCH_READ).asJava
    override def constraints: Array[Constraint] = Array(
      Constraint
        .primaryKey("pk", Array[NamedReference](FieldReference("code"), FieldReference("region")))
        .build()
    )
    override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
      new org.apache.spark.sql.connector.read.Scan {
        override def readSchema: StructType = CatalogV2Util.v2ColumnsToStructType(columns)
      }
  }

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = ()
  override def name: String = "keyed"
  override def listTables(namespace: Array[String]): Array[Identifier] = Array(
    Identifier.of(namespace, "prices")
  )
  override def loadTable(identifier: Identifier): Table = table
  override def createTable(
      identifier: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: java.util.Map[String, String]
  ): Table = throw new UnsupportedOperationException
  override def alterTable(identifier: Identifier, changes: TableChange*): Table =
    throw new UnsupportedOperationException
  override def dropTable(identifier: Identifier): Boolean = false
  override def renameTable(from: Identifier, to: Identifier): Unit = ()
}
