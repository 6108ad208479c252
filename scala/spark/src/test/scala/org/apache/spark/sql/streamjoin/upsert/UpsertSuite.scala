package org.apache.spark.sql.streamjoin.upsert

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{col, lit, map}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.Upsert

/** What a batch adds up to, options, the SQL of a database, and tables that take MERGE. */
class UpsertSuite extends AnyFunSuite with ArrangementTest {
  private val columns = "k INT, `other.key` STRING, v DOUBLE, _diff INT"
  private val schema = StructType.fromDDL(columns)

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
    val counts = changes.counts
    assert(counts.copy(nullKeys = Nil) == ChangeCounts(4, 2, hasNullDiff = false, None, Nil))
    assert(counts.nullKeys.toSet == Set(Seq(true), Seq(false)))
  }

  test("a key of two columns, one with a dot, and the null patterns that occur") {
    val changes =
      net(Seq("other.key", "k"), Row(1, "x", 1.0, 1), Row(1, null, 2.0, 1), Row(null, null, 2.0, -1))
    assert(changes.counts.nullKeys.toSet == Set(Seq(false, false), Seq(true, false), Seq(true, true)))
    assert(
      changes.rows.select(changes.keyJson).collect().map(_.getString(0)).toSet ==
        Set("""{"other.key":"x","k":1}""", """{"other.key":null,"k":1}""", """{"other.key":null,"k":null}""")
    )
  }

  test("two rows of one key that are left, and a null number of copies") {
    assert(net(Seq("k"), Row(1, "x", 1.0, 1), Row(1, "y", 1.0, 1)).counts.double.contains("""{"k":1}"""))
    assert(net(Seq("k"), Row(2, "x", 1.0, 2)).counts.double.contains("""{"k":2}"""))
    assert(net(Seq("k", "other.key"), Row(1, "x", 1.0, 1), Row(1, "y", 1.0, 1)).counts.double.isEmpty)
    assert(net(Seq("k"), Row(1, "x", 1.0, null)).counts.hasNullDiff)
  }

  test("an empty batch") {
    assert(net(Seq("k")).counts == ChangeCounts(0, 0, hasNullDiff = false, None, Nil))
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
    assert(keys.distinct == Seq("""{"t":"2026-01-01T10:00:00.000000Z"}"""))
  }

  test("times in JSON have microseconds, or milliseconds in a checkpoint of an earlier version") {
    val timed = StructType.fromDDL("t TIMESTAMP, n TIMESTAMP_NTZ, s STRUCT<t: TIMESTAMP>, _diff INT")
    def row(micros: Int) = {
      val at = java.time.LocalDateTime.of(2026, 1, 1, 10, 0, 0, 123000000 + micros * 1000)
      val instant = java.sql.Timestamp.from(at.toInstant(java.time.ZoneOffset.UTC))
      Row(instant, at, Row(instant), 1)
    }
    val changes = NetChanges.of(frame(timed, row(100), row(900)), options(Seq("t", "n")))
    def keys(of: NetChanges) = of.rows.select(of.keyJson).collect().map(_.getString(0)).toSeq.sorted
    assert(
      keys(changes) == Seq("123100", "123900").map { fraction =>
        s"""{"t":"2026-01-01T10:00:00.${fraction}Z","n":"2026-01-01T10:00:00.$fraction"}"""
      }
    )
    assert(
      changes.rows.select(changes.rowJson).head().getString(0).contains("""{"t":"2026-01-01T10:00:00.123""")
    )
    assert(
      keys(changes.copy(micros = false)).distinct ==
        Seq("""{"t":"2026-01-01T10:00:00.123Z","n":"2026-01-01T10:00:00.123"}""")
    )
  }

  test("nulls in maps, however deep, and maps whose entries have another order") {
    val deep = StructType.fromDDL(
      "k INT, m MAP<STRING, INT>, d ARRAY<STRUCT<x: MAP<STRING, MAP<INT, DOUBLE>>, y: INT>>, _diff INT"
    )
    def nested(entries: (String, Any)*) =
      Seq(
        Row(
          scala.collection.immutable.ListMap(entries.map { case (k, v) => k -> Map(1 -> v, 2 -> null) }: _*),
          5
        ),
        null
      )
    def row(k: Int, swapped: Boolean, diff: Int) = {
      val pairs = Seq[(String, Any)]("a" -> null, "b" -> 2)
      val entries = if (swapped) pairs.reverse else pairs
      Row(k, scala.collection.immutable.ListMap(entries: _*), nested("p" -> 1.5, "q" -> null), diff)
    }
    val changes = NetChanges.of(
      frame(
        deep,
        row(1, swapped = false, 1),
        row(2, swapped = false, -1),
        row(2, swapped = true, 1),
        Row(3, null, null, 1)
      ),
      options(Seq("k"))
    )
    assert(changes.rows.schema.map(_.dataType.asNullable).take(3) == deep.map(_.dataType.asNullable).take(3))
    assert(
      changes.rows.select(changes.rowJson).collect().map(_.getString(0)).toSet == Set(
        """{"k":1,"m":{"a":null,"b":2},"d":[{"x":{"p":{"1":1.5,"2":null},"q":{"1":null,"2":null}},"y":5},null]}""",
        """{"k":3,"m":null,"d":null}"""
      )
    )
  }

  test("geometries in JSON are well-known binary") {
    val wkb = "X'0101000000000000000000F03F0000000000000040'"
    withConf("spark.sql.geospatial.enabled" -> "true") {
      val df = spark.sql(
        s"SELECT 1 AS k, g, named_struct('g', g, 'a', array(g)) AS s, map('g', g) AS m, 1 AS _diff FROM (SELECT ST_GeomFromWKB($wkb) AS g)"
      )
      val changes = NetChanges.of(df, options(Seq("k")))
      val text = "AQEAAAAAAAAAAADwPwAAAAAAAABA"
      assert(
        changes.rows.select(changes.rowJson).head().getString(0) ==
          s"""{"k":1,"g":"$text","s":{"g":"$text","a":["$text"]},"m":{"g":"$text"}}"""
      )
    }
  }

  test("strings that only a collation makes equal are two values") {
    val collated = StructType.fromDDL("k INT, v STRING COLLATE UTF8_LCASE, _diff INT")
    val changes = NetChanges.of(frame(collated, Row(1, "a", -1), Row(1, "A", 1)), options(Seq("k")))
    assert(text(changes) == Set("[1,A,false]"))
    assert(
      rejected("STREAMJOIN_UPSERT.KEY_TYPE")(NetChanges.of(frame(collated), options(Seq("v"))))
        .contains("collation")
    )
  }

  test("columns that cannot be what they are named for") {
    def said(
        condition: String,
        words: String,
        df: DataFrame,
        keys: Seq[String] = Seq("k"),
        diff: String = "_diff"
    ) = assert(rejected(condition)(NetChanges.of(df, options(keys, diff))).contains(words))
    val df = frame(schema)
    said("STREAMJOIN_UPSERT.NO_DIFF", "no column n", df, diff = "n")
    said("STREAMJOIN_UPSERT.DIFF_TYPE", "the column v is DOUBLE", df, diff = "v")
    said("STREAMJOIN_UPSERT.UNKNOWN_KEY", "the key none is not a column", df, Seq("none"))
    said("STREAMJOIN_UPSERT.KEY_COLUMN_TWICE", "a column twice", df, Seq("k", "K"))
    said("STREAMJOIN_UPSERT.KEY_TYPE", "MAP<INT, INT>", df.withColumn("k", map(lit(1), lit(2))))
    said("STREAMJOIN_UPSERT.DIFF_TWICE", "two columns _diff", df.select(col("*"), lit(1).as("_DIFF")))
    said("STREAMJOIN_UPSERT.COLUMN_TWICE", "two columns", df.select(col("*"), lit(1).as("V")))
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
    for (wrong <- Seq(keys, keys ++ jdbc - "dbtable", keys ++ kafka - "topic", keys ++ jdbc ++ kafka))
      rejected("STREAMJOIN_UPSERT.TARGET")(UpsertOptions(wrong))
    rejected("STREAMJOIN_UPSERT.NO_KEY")(UpsertOptions(jdbc))
    for (wrong <- Seq("a", "1", "[1]", "[\"a\"", "{}"))
      rejected("STREAMJOIN_OPTION")(UpsertOptions(jdbc + ("keys" -> wrong)))
  }

  /** Starts a query that keeps a table current, and ends by itself. */
  private def start(changes: DataFrame, table: String, keys: Seq[String], checkpoint: String) = Upsert
    .intoTable(changes, table)
    .key(keys.head, keys.tail: _*)
    .writeStream
    .option("checkpointLocation", checkpoint)
    .trigger(Trigger.AvailableNow())
    .start()

  /** Starts it, and stops it if the table is not rejected. */
  private def startOnly(table: String): Unit =
    start(memory(columns).toDF(), table, Seq("k"), newFolder()).stop()

  /** A stream whose rows are batches of the test, and the table that it keeps current. */
  private class Merged(table: String, keys: Seq[String]) {
    private val changes = memory(columns)
    val checkpoint: String = newFolder()

    def batch(rows: Row*): Unit = {
      changes.addData(rows)
      again()
    }

    def again(): Unit = into(table)

    def into(table: String): Unit = start(changes.toDF(), table, keys, checkpoint).awaitTermination()

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
    SparkTest.forgetCommit(it.checkpoint)
    it.again()
    assert(it.rows == after)
    val error = rejected("STREAMJOIN_UPSERT.TWO_ROWS")(it.batch(Row(3, "z", 1.0, 1), Row(3, "z", 2.0, 1)))
    assert(error.contains("""{"k":3,"other.key":"z"}"""))
    assert(it.rows == after)
  }

  test("a table whose columns are its key, and names relative to the current catalog") {
    spark.sql("CREATE TABLE memory.shop.pairs (k INT, `other.key` STRING)")
    spark.sql("USE memory.shop")
    try {
      val (changes, checkpoint) = (memory(columns), newFolder())
      def run() =
        start(changes.toDF().drop("v"), "pairs", Seq("k", "other.key"), checkpoint).awaitTermination()
      changes.addData(Row(1, "x", 1.0, 1), Row(2, "x", 1.0, 1))
      run()
      changes.addData(Row(2, "x", 1.0, -1))
      run()
      assert(spark.table("memory.shop.pairs").collect().toSeq == Seq(Row(1, "x")))
    } finally spark.sql("USE spark_catalog.default")
  }

  test("start() knows the table") {
    val table = created("memory.shop.known")
    spark.sql(s"ALTER TABLE $table DROP COLUMN V")
    assert(rejected("STREAMJOIN_UPSERT.NO_COLUMN")(startOnly(table)).contains("has no column v"))
    val missing = intercept[Exception](startOnly("memory.shop.nothing"))
    assert(SparkTest.messages(missing).exists(_.contains("TABLE_OR_VIEW_NOT_FOUND")))
  }

  test("a table without MERGE, and columns of other types, at start()") {
    spark.sql("CREATE TABLE no_merge (k INT, `other.key` STRING, v DOUBLE) USING parquet")
    try assert(rejected("STREAMJOIN_UPSERT.MERGE")(startOnly("no_merge")).contains("a MERGE into the table"))
    finally spark.sql("DROP TABLE no_merge")
    spark.sql("CREATE TABLE memory.shop.typed (k INT, `other.key` INT, v DOUBLE)")
    val error = rejected("STREAMJOIN_UPSERT.MERGE")(startOnly("memory.shop.typed"))
    assert(error.contains("cannot be planned") && error.contains("other.key"))
  }

  test("a batch without changes is no commit of the table") {
    val table = created("memory.shop.quiet")
    val it = new Merged(table, Seq("k", "other.key"))
    it.batch(Row(1, "x", 1.0, 1))
    def version = SharedTables.versionOf("shop", "quiet")
    val before = version
    it.batch(Row(2, "y", 1.0, 1), Row(2, "y", 1.0, -1))
    assert(version == before)
    it.batch(Row(2, "y", 1.0, 1))
    assert(version != before)
  }

  test("a checkpoint and another table") {
    val table = created("memory.shop.first")
    val it = new Merged(table, Seq("k", "other.key"))
    it.batch(Row(1, "x", 1.0, 1))
    val other = created("memory.shop.second")
    val error = rejected("STREAMJOIN_UPSERT_TARGET")(it.into(other))
    assert(error.contains("memory.shop.first") && error.contains("memory.shop.second"))
    // One of an earlier version adopts the table that it finds.
    val record = java.nio.file.Path.of(it.checkpoint, TargetLog.Directory)
    val files = java.nio.file.Files.list(record)
    try files.forEach(file => java.nio.file.Files.delete(file))
    finally files.close()
    java.nio.file.Files.delete(record)
    it.batch(Row(2, "y", 1.0, 1))
    assert(java.nio.file.Files.exists(record.resolve("0")))
    rejected("STREAMJOIN_UPSERT_TARGET")(it.into(other))
    // The same name, and not the same table.
    spark.sql(s"DROP TABLE $table")
    created("memory.shop.first")
    rejected("STREAMJOIN_UPSERT_TARGET")(it.again())
    assert(it.rows.isEmpty)
  }

  test("what tells a target from others") {
    def of(name: String, ids: (String, String)*) = TargetIdentity("table", name, ids.toMap)
    assert(of("a").isSame(of("a")) && !of("a").isSame(of("b")))
    assert(of("a", "id" -> "1").isSame(of("b", "id" -> "1")))
    assert(!of("a", "id" -> "1").isSame(of("a", "id" -> "2")))
    // A catalog that says more than it did, or less.
    assert(of("a", "id" -> "1").isSame(of("a", "other" -> "2")))
    assert(!of("a").isSame(of("a").copy(kind = "kafka")))
    // A topic that was created again, and one that its cluster had not created yet.
    val topic = of("t", "topic" -> "t", "cluster" -> "c", "topic id" -> "1")
    assert(!topic.isSame(of("t", "topic" -> "t", "cluster" -> "c", "topic id" -> "2")))
    assert(topic.isSame(of("t", "topic" -> "t", "cluster" -> "c")))
    assert(!topic.isSame(of("u", "topic" -> "u", "cluster" -> "c")))
    // Records of other keys, whose earlier ones would stay. The cluster is unknown here.
    def records(columns: String, keys: String*) = {
      val none = spark.createDataFrame(java.util.List.of[Row](), StructType.fromDDL(s"$columns, _diff INT"))
      val options = Map("topic" -> "t")
      new KafkaTarget(options)
        .identity(NetChanges.of(none, UpsertOptions(keys, "_diff", TargetKind.Kafka(options))))
    }
    val known = records("a INT, b STRING", "a", "b")
    assert(known.isSame(records("a BIGINT, b STRING, c INT", "A", "b")))
    for (
      other <- Seq(
        records("a INT, b STRING", "b", "a"),
        records("a INT, b STRING", "a"),
        records("A INT, b STRING", "a", "b"),
        records("a STRING, b STRING", "a", "b")
      )
    ) assert(!known.isSame(other))
    assert(known.isSame(of("t", "topic" -> "t").copy(kind = "kafka")), "as an earlier version recorded it")
  }

  test("a MERGE is tried again as long as its failure may pass") {
    class CommitFailedException extends RuntimeException("stale")
    def tries(fails: Int, error: => Throwable): Int = {
      var count = 0
      try
        CatalogTableTarget.attempt(4) {
          count += 1
          if (count <= fails) throw error
        }
      catch { case _: Exception => count = -count }
      count
    }
    assert(tries(3, new CommitFailedException) == 4)
    assert(tries(4, new CommitFailedException) == -4)
    assert(tries(1, new RuntimeException("aborted", new java.util.ConcurrentModificationException)) == 2)
    assert(tries(1, new IllegalArgumentException("null")) == -1)
  }

  testLong("random changes in random batches, some of which run again") {
    val table = created("memory.shop.random")
    for (seed <- 0 until SparkTest.seeds(1)) {
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
          SparkTest.forgetCommit(it.checkpoint)
          it.again()
        }
        val expected = current.map { case ((k, other), v) => s"[$v,null,$k,$other]" }.toSeq.sorted
        assert(it.rows == expected, s"seed $seed")
      }
    }
  }
}
