package org.apache.spark.sql.streamjoin.upsert

import java.util.UUID

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, lit, map}
import org.apache.spark.sql.jdbc.JdbcDialects
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Encoders, Row}

import streamjoin.Upsert

/** What a batch adds up to, options, the SQL of a database, and tables that take MERGE. */
class UpsertSuite extends AnyFunSuite with ArrangementTest {
  private val schema = StructType.fromDDL("k INT, `other.key` STRING, v DOUBLE, _diff INT")

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark.conf.set("spark.sql.catalog.memory", classOf[SharedTables].getName)
  }

  private def options(keys: Seq[String], diff: String = "_diff") =
    UpsertOptions(keys, diff, TargetKind.Table("memory.t"))

  private def frame(schema: StructType, rows: Row*): DataFrame =
    spark.createDataFrame(java.util.List.of(rows: _*), schema)

  private def net(keys: Seq[String], rows: Row*): NetChanges =
    NetChanges.of(frame(schema, rows: _*), options(keys))

  private def text(changes: NetChanges): Set[String] =
    changes.rows.select(changes.named :+ col(NetChanges.Gone): _*).collect().map(_.toString).toSet

  test("a batch adds up to one row of each key, or to none") {
    val changes = net(
      Seq("K"),
      Row(1, "came", 1.0, 1),
      Row(2, "went", 1.0, -1),
      Row(3, "was", 1.0, -1),
      Row(3, "is", 2.0, 1),
      Row(4, "came and went", 1.0, 1),
      Row(4, "came and went", 1.0, -1),
      // In and out, and in again.
      Row(5, "again", 1.0, -2),
      Row(5, "again", 1.0, 3),
      Row(6, "several went", 1.0, -1),
      Row(6, "several went", 2.0, -3),
      Row(null, null, null, 1),
      // As where Spark groups.
      Row(7, "zero", 0.0, 1),
      Row(7, "zero", -0.0, -1)
    )
    assert(changes.columns.names.toSeq == Seq("k", "other.key", "v"))
    assert(
      text(changes).map(row => if (row.contains("several")) "[6]" else row) == Set(
        "[1,came,1.0,false]",
        "[2,went,1.0,true]",
        "[3,is,2.0,false]",
        "[5,again,1.0,false]",
        "[6]",
        "[null,null,null,false]"
      )
    )
    val figures = changes.figures
    assert(figures.copy(nullKeys = Nil) == Figures(4, 2, hasNullDiff = false, None, Nil))
    assert(figures.nullKeys.toSet == Set(Seq(true), Seq(false)))
  }

  test("a key of two columns, one with a dot, and the null patterns that occur") {
    val changes =
      net(Seq("other.key", "k"), Row(1, "x", 1.0, 1), Row(1, null, 2.0, 1), Row(null, null, 2.0, -1))
    assert(changes.figures.nullKeys.toSet == Set(Seq(false, false), Seq(true, false), Seq(true, true)))
    assert(
      changes.rows.select(changes.keyJson).collect().map(_.getString(0)).toSet ==
        Set("""{"other.key":"x","k":1}""", """{"other.key":null,"k":1}""", """{"other.key":null,"k":null}""")
    )
  }

  test("two rows of one key that are left, and a null number of copies") {
    assert(net(Seq("k"), Row(1, "x", 1.0, 1), Row(1, "y", 1.0, 1)).figures.double.contains("""{"k":1}"""))
    assert(net(Seq("k"), Row(2, "x", 1.0, 2)).figures.double.contains("""{"k":2}"""))
    assert(net(Seq("k", "other.key"), Row(1, "x", 1.0, 1), Row(1, "y", 1.0, 1)).figures.double.isEmpty)
    assert(net(Seq("k"), Row(1, "x", 1.0, null)).figures.hasNullDiff)
  }

  test("an empty batch") {
    assert(net(Seq("k")).figures == Figures(0, 0, hasNullDiff = false, None, Nil))
  }

  test("times and versions of changes are no part of a row") {
    val timed = StructType.fromDDL("k INT, _time BIGINT, _version BIGINT, _diff INT")
    val changes = NetChanges.of(frame(timed, Row(1, 5L, 1L, 1), Row(1, 9L, 2L, -1)), options(Seq("k")))
    assert(changes.columns.names.toSeq == Seq("k"))
    assert(text(changes).isEmpty)
  }

  test("the key of a topic does not depend on the time zone of the session") {
    val timed = StructType.fromDDL("t TIMESTAMP, _diff INT")
    val row = Row(java.sql.Timestamp.from(java.time.Instant.parse("2026-01-01T10:00:00Z")), 1)
    val keys = Seq("UTC", "America/Los_Angeles").map { zone =>
      withConf("spark.sql.session.timeZone" -> zone) {
        val changes = NetChanges.of(frame(timed, row), options(Seq("t")))
        changes.rows.select(changes.keyJson).head().getString(0)
      }
    }
    assert(keys.distinct == Seq("""{"t":"2026-01-01T10:00:00.000Z"}"""))
  }

  test("strings that only a collation makes equal are two values") {
    val collated = StructType.fromDDL("k INT, v STRING COLLATE UTF8_LCASE, _diff INT")
    val changes = NetChanges.of(frame(collated, Row(1, "a", -1), Row(1, "A", 1)), options(Seq("k")))
    assert(text(changes) == Set("[1,A,false]"))
    assert(
      refused("STREAMJOIN_UPSERT")(NetChanges.of(frame(collated), options(Seq("v")))).contains("collation")
    )
  }

  test("columns that cannot be what they are named for") {
    def said(df: DataFrame, keys: Seq[String] = Seq("k"), diff: String = "_diff") =
      refused("STREAMJOIN_UPSERT")(NetChanges.of(df, options(keys, diff)))
    val df = frame(schema)
    assert(said(df, diff = "n").contains("no column n"))
    assert(said(df, diff = "v").contains("the column v is DOUBLE"))
    assert(said(df, Seq("none")).contains("the key none is no column"))
    assert(said(df, Seq("k", "K")).contains("a column twice"))
    assert(said(df.withColumn("k", map(lit(1), lit(2)))).contains("MAP<INT, INT>"))
    assert(said(df.select(col("*"), lit(1).as("_DIFF"))).contains("two columns _diff"))
    assert(said(df.select(col("*"), lit(1).as("V"))).contains("two columns have the name"))
  }

  test("options") {
    val jdbc = Map("url" -> "jdbc:x:", "dbtable" -> "t", "user" -> "me")
    val kafka = Map("kafka.bootstrap.servers" -> "x", "topic" -> "t")
    val keys = Map("Keys" -> """["a", "b"]""")
    val ofQuery = Map("checkpointLocation" -> "c", "queryName" -> "q", "path" -> "p")
    assert(
      UpsertOptions(keys ++ ofQuery + ("TABLE" -> "t")) ==
        UpsertOptions(Seq("a", "b"), "_diff", TargetKind.Table("t"))
    )
    assert(UpsertOptions(keys ++ ofQuery ++ jdbc).target == TargetKind.Jdbc(jdbc))
    assert(
      UpsertOptions(keys ++ kafka + ("diff" -> "n")) == UpsertOptions(
        Seq("a", "b"),
        "n",
        TargetKind.Kafka(kafka)
      )
    )
    for (wrong <- Seq(keys, keys ++ jdbc - "dbtable", keys ++ kafka - "topic", keys ++ jdbc ++ kafka, jdbc))
      refused("STREAMJOIN_UPSERT")(UpsertOptions(wrong))
    for (wrong <- Seq("a", "1", "[1]", "[\"a\"", "{}"))
      refused("STREAMJOIN_OPTION")(UpsertOptions(jdbc + ("keys" -> wrong)))
  }

  test("a table beside another one") {
    import JdbcStatements.beside
    assert(beside("t", "s") == "s")
    assert(beside("a.t", "s") == "a.s")
    assert(beside("""db."a.b"."t.u"""", "s") == """db."a.b".s""")
    assert(beside("[x.y].[t]", "s") == "[x.y].s")
    assert(beside("`t.u`", "s") == "s")
  }

  test("a batch follows the last one that the target has") {
    val query = UUID.randomUUID()
    def has(last: Option[(Long, Long)], now: (Long, Long)) =
      BatchTable.has(
        "t",
        last.map { case (of, at) => UpsertBatch(query, of, at) },
        UpsertBatch(query, now._1, now._2)
      )
    assert(!has(None, (0, 5)))
    assert(!has(None, (7, 5)))
    assert(!has(Some((6, 4)), (7, 5)))
    assert(has(Some((7, 5)), (7, 5)))
    for (wrong <- Seq((7L, 6L), (8L, 9L), (5L, 1L)))
      refused("STREAMJOIN_UPSERT_BATCH")(has(Some(wrong), (7, 5)))
  }

  test("the SQL of a batch uses the index of the key for each combination of nulls") {
    val dialect = JdbcDialects.get("jdbc:postgresql:x")
    val sql = JdbcStatements(dialect, "t", "s", Seq("a", "b", "v"), Seq(0, 1), Seq(4L, 7L), replaces = true)
    assert(
      sql.applyStaged(Seq(Seq(true, false), Seq(false, false))) == Seq(
        """DELETE FROM t WHERE EXISTS (SELECT 1 FROM s s WHERE s.a = t.a AND s.b = t.b AND s."streamjoin_change" = 0 AND s."streamjoin_attempt" IN (4, 7))""",
        """DELETE FROM t WHERE EXISTS (SELECT 1 FROM s s WHERE s.a IS NULL AND t.a IS NULL AND s.b = t.b AND s."streamjoin_attempt" IN (4, 7))""",
        """INSERT INTO t (a, b, v) SELECT a, b, v FROM s WHERE "streamjoin_change" = 1 AND "streamjoin_attempt" IN (4, 7) ON CONFLICT (a, b) DO UPDATE SET v = EXCLUDED.v"""
      )
    )
    assert(sql.copy(columns = Seq("a", "b")).applyStaged(Nil).last.endsWith("ON CONFLICT (a, b) DO NOTHING"))
    assert(!sql.copy(replaces = false).applyStaged(Seq(Seq(false, false))).exists(_.contains(" = 0")))
  }

  /** A stream whose rows are batches of the test, and the table that it keeps current. */
  private class Merged(table: String, keys: Seq[String]) {
    private val memory = MemoryStream[Row](Encoders.row(schema), spark)
    val checkpoint: String = newFolder()

    def batch(rows: Row*): Unit = {
      memory.addData(rows)
      again()
    }

    def again(): Unit = Upsert
      .intoTable(memory.toDF(), table)
      .key(keys.head, keys.tail: _*)
      .writeStream
      .option("checkpointLocation", checkpoint)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()

    def rows: Seq[String] = spark.table(table).collect().map(_.toString).toSeq.sorted
  }

  private def created(table: String): String = {
    spark.sql(s"CREATE TABLE $table (V DOUBLE, note STRING, K INT, `other.key` STRING)")
    table
  }

  test("a table that takes MERGE") {
    val table = created("memory.shop.merged")
    val it = new Merged(table, Seq("k", "other.key"))
    it.batch(Row(1, "x", 1.0, 1), Row(1, null, 2.0, 1), Row(2, "y", 3.0, 1))
    spark.sql(s"UPDATE $table SET note = 'mine' WHERE v = 2.0")
    it.batch(
      Row(1, null, 2.0, -1),
      Row(1, null, 5.0, 1),
      Row(2, "y", 3.0, -1),
      Row(9, "not there", 1.0, -1)
    )
    val after = Seq("[1.0,null,1,x]", "[5.0,mine,1,null]")
    assert(it.rows == after)
    ArrangementTest.forgetCommit(it.checkpoint)
    it.again()
    assert(it.rows == after)
    val error = refused("STREAMJOIN_UPSERT")(it.batch(Row(3, "z", 1.0, 1), Row(3, "z", 2.0, 1)))
    assert(error.contains("""{"k":3,"other.key":"z"}"""))
    assert(it.rows == after)
  }

  test("a table whose columns are its key, and names relative to the current catalog") {
    spark.sql("CREATE TABLE memory.shop.pairs (k INT, `other.key` STRING)")
    spark.sql("USE memory.shop")
    try {
      val memory = MemoryStream[Row](Encoders.row(schema), spark)
      def run() = Upsert
        .intoTable(memory.toDF().drop("v"), "pairs")
        .key("k", "other.key")
        .writeStream
        .option("checkpointLocation", folder)
        .trigger(Trigger.AvailableNow())
        .start()
        .awaitTermination()
      lazy val folder = newFolder()
      memory.addData(Row(1, "x", 1.0, 1), Row(2, "x", 1.0, 1))
      run()
      memory.addData(Row(2, "x", 1.0, -1))
      run()
      assert(spark.table("memory.shop.pairs").collect().toSeq == Seq(Row(1, "x")))
    } finally spark.sql("USE spark_catalog.default")
  }

  test("start() knows the table") {
    val table = created("memory.shop.known")
    spark.sql(s"ALTER TABLE $table DROP COLUMN V")
    val memory = MemoryStream[Row](Encoders.row(schema), spark)
    def start(table: String): Unit = Upsert
      .intoTable(memory.toDF(), table)
      .key("k")
      .writeStream
      .option("checkpointLocation", newFolder())
      .start()
      .stop()
    assert(refused("STREAMJOIN_UPSERT")(start(table)).contains("has no column v"))
    val missing = intercept[Exception](start("memory.shop.nothing"))
    assert(SparkTest.messages(missing).exists(_.contains("TABLE_OR_VIEW_NOT_FOUND")))
  }

  test("random changes in random batches, some of which run again") {
    val table = created("memory.shop.random")
    for (seed <- 0 until SparkTest.seeds(2)) {
      spark.sql(s"DELETE FROM $table WHERE true")
      val chance = new Random(seed)
      val it = new Merged(table, Seq("k", "other.key"))
      val current = mutable.Map.empty[(Any, Any), Any]
      def pick(values: Any*) = values(chance.nextInt(values.size))
      for (_ <- 0 until 5) {
        val changes = Seq
          .fill(chance.nextInt(10)) {
            val key = (pick(null, 1, 2), pick(null, "x", "y"))
            val went = current.remove(key).map(v => Row(key._1, key._2, v, -1))
            val came = Option.when(chance.nextBoolean()) {
              current(key) = pick(null, 1.0, 2.0, 3.0)
              Row(key._1, key._2, current(key), 1)
            }
            went ++ came
          }
          .flatten
        it.batch(chance.shuffle(changes): _*)
        if (chance.nextBoolean() && changes.nonEmpty) {
          ArrangementTest.forgetCommit(it.checkpoint)
          it.again()
        }
        val expected = current.map { case ((k, other), v) => s"[$v,null,$k,$other]" }.toSeq.sorted
        assert(it.rows == expected, s"seed $seed")
      }
    }
  }
}
