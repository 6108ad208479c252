package org.apache.spark.sql.streamjoin.upsert

import java.nio.file.{Files, Path}
import java.sql.{Connection, DriverManager, SQLException}
import java.time.ZoneId
import java.util.{Properties, UUID}

import scala.collection.mutable
import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.datasources.jdbc.JdbcOptionsInWrite
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.jdbc.JdbcDialects
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Encoders, Row}

import streamjoin.Upsert

/**
 * Upserts into databases that run in this JVM: their SQL, names, types, and what a checkpoint
 * belongs to.
 */
class JdbcUpsertSuite extends AnyFunSuite with ArrangementTest {
  private val columns = "a INT, b STRING, v INT, _diff INT"

  /** A database of H2 in memory. */
  private class Shop(val name: String = s"shop${UUID.randomUUID().toString.take(8)}") {
    val url: String = s"jdbc:h2:mem:$name;DB_CLOSE_DELAY=-1"

    def run(sql: String*): Unit = Using.resource(DriverManager.getConnection(url)) { connection =>
      Using.resource(connection.createStatement())(statement => sql.foreach(statement.execute))
    }

    def rows(sql: String): Seq[String] = Using.resource(DriverManager.getConnection(url)) { connection =>
      Using.resource(connection.createStatement()) { statement =>
        val found = statement.executeQuery(sql)
        val width = found.getMetaData.getColumnCount
        Iterator
          .continually(found)
          .takeWhile(_.next())
          .map(row => (1 to width).map(row.getString).mkString(","))
          .toList
      }
    }

    def tables: Set[String] =
      rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'PUBLIC'").toSet
  }

  /** A query whose batches a test gives. */
  private class Query(ddl: String = columns) {
    private val schema = StructType.fromDDL(ddl)
    private val memory = MemoryStream[Row](Encoders.row(schema), spark)
    val checkpoint: String = newFolder()

    def batch(shop: Shop, table: String, keys: String*)(rows: Row*): Unit = {
      memory.addData(rows)
      run(shop, table, keys: _*)
    }

    def run(shop: Shop, table: String, keys: String*): Unit = start(shop, table, keys: _*).awaitTermination()

    def start(shop: Shop, table: String, keys: String*): StreamingQuery = Upsert
      .into(memory.toDF(), Map("url" -> shop.url, "dbtable" -> table))
      .key(keys.head, keys.tail: _*)
      .writeStream
      .option("checkpointLocation", checkpoint)
      .trigger(Trigger.AvailableNow())
      .start()
  }

  private val ThreeRows = Seq(Row(1, "x", 1, 1), Row(2, "y", 2, 1), Row(3, "z", 3, 1))

  test("no name of the user's is one of ours") {
    val tables = Seq("s", "streamjoin_staged", "streamjoin_target", "streamjoin_batches")
    for (table <- SparkTest.part(tables, every = 2, from = 1)) {
      val shop = new Shop
      val ours = "streamjoin_change INT, streamjoin_attempt VARCHAR(9), s INT, streamjoin_target INT"
      shop.run(
        s"CREATE TABLE $table (a INT PRIMARY KEY, b VARCHAR(9), v INT, $ours)",
        "CREATE TABLE IF NOT EXISTS streamjoin_batches (note VARCHAR(9))"
      )
      val before = shop.tables
      val query = new Query(columns.replace("_diff", "streamjoin_change INT, s INT, _diff"))
      def row(a: Int, v: Int, diff: Int) = Row(a, "x", v, a, -a, diff)
      query.batch(shop, table, "a")((1 to 3).map(row(_, 1, 1)): _*)
      query.batch(shop, table, "a")(row(1, 1, -1), row(1, 5, 1), row(2, 1, -1))
      assert(
        shop.rows(s"SELECT a, b, v, streamjoin_change, s FROM $table ORDER BY a") ==
          Seq("1,x,5,1,-1", "3,x,1,3,-3"),
        table
      )
      assert(shop.tables -- before == Set("STREAMJOIN_BATCHES_1"))
      assert(shop.rows("""SELECT "batch" FROM streamjoin_batches_1""") == Seq("1"))
    }
  }

  test("a table with the name of a staging table is not dropped") {
    val shop = new Shop
    shop.run("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9), v INT)")
    val query = new Query()
    query.batch(shop, "t", "a")(ThreeRows: _*)
    val id = shop.rows("""SELECT "query" FROM streamjoin_batches""").head.replace("-", "")
    shop.run(s"CREATE TABLE streamjoin_${id}_1 (note VARCHAR(9))")
    val error = rejected("STREAMJOIN_UPSERT.STAGING_TABLE")(query.batch(shop, "t", "a")(Row(1, "x", 1, -1)))
    assert(error.contains(s"a table streamjoin_${id}_1 that was not created by an upsert"))
    assert(shop.rows("SELECT COUNT(*) FROM t") == Seq("3"))
  }

  test("what a driver that died in start() has left is dropped by the next one") {
    val shop = new Shop
    shop.run("CREATE TABLE t (a VARCHAR(9) PRIMARY KEY, b VARCHAR(9), v INT)")
    val query = new Query("a STRING, b STRING, v INT, _diff INT")
    def left = s"file:${query.checkpoint}"
    val names = (0 to 1).map(JdbcNames.stagingOfStart("t", left, _))
    names.foreach { name =>
      shop.run(s"""CREATE TABLE $name (a INT, "streamjoin_change" BIGINT, "streamjoin_attempt" BIGINT)""")
    }
    query.batch(shop, "t", "a")(Row("x", "x", 1, 1))
    assert(shop.tables == Set("T", "STREAMJOIN_BATCHES"))
    shop.run(s"CREATE TABLE ${names.head} (note VARCHAR(9))")
    val error = rejected("STREAMJOIN_UPSERT.STAGING_TABLE")(query.run(shop, "t", "a"))
    assert(error.contains(s"a table ${names.head} that was not created by an upsert"))
  }

  /** What start() says of a target with one column besides, for the type of a key. */
  private def startWith(
      spark: String,
      key: String,
      other: String = "v INT",
      besides: String = "v INT"
  ): Unit = {
    val shop = new Shop
    shop.run(s"CREATE TABLE t (k $key, $besides)")
    val before = shop.tables
    try new Query(s"k $spark, $other, _diff INT").start(shop, "t", "k").awaitTermination()
    finally assert((shop.tables - "STREAMJOIN_BATCHES") == before)
  }

  test("keys that Spark tells apart and the database does not") {
    val apart = Seq(
      "STRING" -> "VARCHAR_IGNORECASE(20)",
      "STRING" -> "CHAR(10)",
      "BINARY" -> "BINARY(3)",
      "DECIMAL(20, 4)" -> "DECIMAL(20, 2)",
      "DECIMAL(20, 4)" -> "DOUBLE PRECISION",
      "DOUBLE" -> "REAL",
      "DOUBLE" -> "DECIMAL(20, 5)",
      "INT" -> "REAL",
      "BIGINT" -> "DOUBLE PRECISION",
      "TIMESTAMP" -> "TIMESTAMP(3)",
      "TIMESTAMP_NTZ" -> "TIMESTAMP(0)",
      "TIMESTAMP" -> "DATE"
    )
    // A third of them still has each cause.
    for ((spark, database) <- SparkTest.part(apart, every = 3)) {
      val cause = spark match {
        case "STRING" => "KEY_TEXTS"
        case "TIMESTAMP" => "KEY_TIMES"
        case _ => "KEY_VALUES"
      }
      val error = rejected(s"STREAMJOIN_UPSERT.$cause")(startWith(spark, database))
      assert(error.contains("for the same in the key K "), s"$spark $database: $error")
    }
    val alike = Seq(
      "STRING" -> "VARCHAR(20)",
      "STRING" -> "VARCHAR(1)",
      "STRING" -> "UUID",
      "BINARY" -> "VARBINARY(3)",
      "DECIMAL(20, 4)" -> "DECIMAL(30, 6)",
      "DOUBLE" -> "DOUBLE PRECISION",
      "FLOAT" -> "REAL",
      "INT" -> "BIGINT",
      "BIGINT" -> "INT",
      "BOOLEAN" -> "BOOLEAN",
      "TIMESTAMP" -> "TIMESTAMP(6) WITH TIME ZONE",
      "TIMESTAMP_NTZ" -> "TIMESTAMP(6)",
      "DATE" -> "DATE"
    )
    for ((spark, database) <- SparkTest.part(alike, every = 3)) startWith(spark, database)
  }

  test("values of keys include the hours that a clock has twice or never") {
    val zone = ZoneId.of("America/New_York")
    def local(values: Seq[Any]) = values.collect { case at: java.time.Instant =>
      at.atZone(zone).toLocalDateTime
    }
    val twice = local(ProbeValues.of(TimestampType, zone))
    assert(twice.size == 5 && twice.distinct.size == 4)
    val never = ProbeValues.of(TimestampNTZType, zone).collect { case at: java.time.LocalDateTime => at }
    assert(never.distinct.size == 5 && never.map(_.atZone(zone)).distinct.size == 4)
    assert(ProbeValues.of(TimestampType, ZoneId.of("UTC")).size == 3)
  }

  test("columns that cannot have the values of the changes") {
    for (
      (spark, database, condition, said) <- Seq(
        ("STRING", "INT", "STREAMJOIN_UPSERT.COLUMN_TYPE", "W of t is INTEGER, but the changes have STRING"),
        ("STRING", "DATE", "STREAMJOIN_UPSERT.COLUMN_TYPE", "W of t is DATE"),
        ("STRING", "BOOLEAN", "STREAMJOIN_UPSERT.COLUMN_TYPE", "W of t is BOOLEAN"),
        ("DATE", "INT", "STREAMJOIN_UPSERT.COLUMN_TYPE", "W of t is INTEGER, but the changes have DATE"),
        ("STRUCT<x: INT>", "INT", "STREAMJOIN_UPSERT.SPARK_TYPE", "the column w is STRUCT<x: INT>, which")
      )
    ) {
      val error = rejected(condition)(startWith("INT", "INT", s"v INT, w $spark", s"v INT, w $database"))
      assert(error.contains(said), error)
    }
    assert(
      rejected("STREAMJOIN_UPSERT.COLUMN_TYPE")(startWith("STRING", "BIGINT")).contains(
        "the column K of t is BIGINT"
      )
    )
    startWith("INT", "INT", "v INT, w INT", "v VARCHAR(9), w SMALLINT")
  }

  test("a database that cannot be used is one at start()") {
    val options = Map("url" -> "jdbc:sqlite:x.db", "dbtable" -> "t")
    val writer =
      Upsert.into(MemoryStream[Row](Encoders.row(StructType.fromDDL(columns)), spark).toDF(), options)
    val error =
      rejected("STREAMJOIN_UPSERT.DATABASE")(
        writer.key("a").writeStream.option("checkpointLocation", newFolder()).start()
      )
    assert(error.contains("Use DB2, Derby, H2, MariaDB, MySQL, Oracle, PostgreSQL, SQL Server, or write"))
  }

  test("a checkpoint and another target") {
    val shop = new Shop
    val create = "(a INT PRIMARY KEY, b VARCHAR(9), v INT)"
    shop.run(
      "CREATE SCHEMA green",
      s"CREATE TABLE t $create",
      s"CREATE TABLE u $create",
      s"CREATE TABLE green.t $create"
    )
    val query = new Query()
    query.batch(shop, "t", "a")(ThreeRows: _*)
    assert(
      shop.rows("""SELECT "target" FROM streamjoin_batches""") == Seq(s"${shop.name.toUpperCase}.PUBLIC.T")
    )
    // Another spelling of the same table.
    query.batch(shop, "public.T", "a")(Row(4, "x", 1, 1))
    val other = rejected("STREAMJOIN_UPSERT_BATCH.OTHER_TARGET")(query.run(shop, "u", "a"))
    assert(other.contains(s"has written to ${shop.name.toUpperCase}.PUBLIC.T so far"))
    val elsewhere = rejected("STREAMJOIN_UPSERT_BATCH.NO_BATCH")(query.run(shop, "green.t", "a"))
    assert(elsewhere.contains("the target has no batch of the query"))
    // Put back to before the first batch.
    val restored = new Shop
    restored.run(s"CREATE TABLE t $create")
    assert(
      rejected("STREAMJOIN_UPSERT_BATCH.NO_BATCH")(query.run(restored, "t", "a")).contains("lacks changes")
    )
    assert(shop.rows("SELECT COUNT(*) FROM u") ++ restored.rows("SELECT COUNT(*) FROM t") == Seq("0", "0"))
    // A copy of the current database has all batches.
    val copy = new Shop(shop.name + "copy")
    copy.run(
      s"CREATE TABLE t $create",
      "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2), (3, 'z', 3), (4, 'x', 1)"
    )
    copy.run("""CREATE TABLE streamjoin_batches ("query" VARCHAR(36), "batch" BIGINT, "planned_ms" BIGINT)""")
    val inserts =
      """SELECT '''' || "query" || ''', ' || "batch" || ', ' || "planned_ms" FROM streamjoin_batches"""
    shop.rows(inserts).foreach(row => copy.run(s"INSERT INTO streamjoin_batches VALUES ($row)"))
    // Its table of batches is one of an earlier version, too: it gets its new column.
    query.batch(copy, "t", "a")(Row(4, "x", 1, -1), Row(5, "x", 1, 1))
    assert(copy.rows("SELECT a FROM t ORDER BY a") == Seq("1", "2", "3", "5"))
    assert(
      copy.rows("""SELECT "batch", "target" FROM streamjoin_batches""") == Seq(
        s"2,${copy.name.toUpperCase}.PUBLIC.T"
      )
    )
    // The first one lacks a batch now.
    assert(
      rejected("STREAMJOIN_UPSERT_BATCH.TARGET_RESTORED")(query.run(shop, "t", "a"))
        .contains("is 1, so it lacks changes")
    )
  }

  test("a query that was killed before its first batch began is not one of an earlier version") {
    val (shop, other) = (new Shop, new Shop)
    Seq(shop, other).foreach(_.run("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9), v INT)"))
    val query = new Query()
    query.batch(shop, "t", "a")(ThreeRows: _*)
    // Only the offsets of the batch are left.
    SparkTest.forgetCommit(query.checkpoint)
    val record = Path.of(query.checkpoint, TargetLog.Directory, "0")
    SparkTest.remove(record)
    query.run(other, "t", "a")
    assert(other.rows("SELECT COUNT(*) FROM t") == Seq("3"))
    assert(Files.readString(record).contains("\"micros\":true"))
  }

  test("a batch without changes is recorded and nothing else") {
    val shop = new Shop
    shop.run("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9), v INT)")
    val query = new Query()
    query.batch(shop, "t", "a")(ThreeRows: _*)
    shop.run("ALTER TABLE t RENAME COLUMN v TO w", "ALTER TABLE t RENAME COLUMN w TO v")
    query.batch(shop, "t", "a")(Row(9, "x", 1, 1), Row(9, "x", 1, -1))
    assert(shop.rows("""SELECT "batch" FROM streamjoin_batches""") == Seq("1"))
    assert(shop.rows("SELECT COUNT(*) FROM t") == Seq("3"))
  }

  test("a database that ends idle connections while tasks write") {
    val shop = new Shop
    shop.run("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9), v INT)")
    val memory = MemoryStream[Row](Encoders.row(StructType.fromDDL(columns)), spark)
    val options = Map("url" -> shop.url, "dbtable" -> "t", "driver" -> classOf[ImpatientDriver].getName)
    val query = Upsert
      .into(memory.toDF(), options)
      .key("a")
      .writeStream
      .option("checkpointLocation", newFolder())
      .start()
    try {
      ImpatientDriver.isImpatient = true
      memory.addData(ThreeRows)
      query.processAllAvailable()
      assert(shop.rows("SELECT COUNT(*) FROM t") == Seq("3"))
      assert(shop.tables == Set("T", "STREAMJOIN_BATCHES"))
    } finally {
      ImpatientDriver.isImpatient = false
      query.stop()
    }
  }

  test("nulls in a key, in a table without an index") {
    val shop = new Shop
    shop.run("CREATE TABLE t (a INT, b VARCHAR(9), v INT)")
    val query = new Query()
    query.batch(shop, "t", "a", "b")(Row(1, null, 1, 1), Row(null, null, 2, 1), Row(1, "x", 3, 1))
    query.batch(shop, "t", "a", "b")(Row(1, null, 1, -1), Row(1, null, 7, 1), Row(null, null, 2, -1))
    assert(shop.rows("SELECT a, b, v FROM t ORDER BY v") == Seq("1,x,3", "1,null,7"))
  }

  test("a table that cannot be looked at is not taken for one of the user's") {
    val shop = new Shop
    shop.run("CREATE TABLE t (a INT, \"b\" INT)")
    val database = new Database(new JdbcOptionsInWrite(Map("url" -> shop.url, "dbtable" -> "t")))
    val connection = DriverManager.getConnection(shop.url)
    try {
      assert(database.hasColumns(connection, "t", Seq("A", "b")))
      assert(!database.hasColumns(connection, "t", Seq("b", "c")))
    } finally connection.close()
    intercept[SQLException](database.hasColumns(connection, "t", Seq("b")))
  }

  test("a table beside another one") {
    import JdbcNames.{beside, last}
    assert(beside("t", "s") == "s")
    assert(beside("a.t", "s") == "a.s")
    assert(beside("""db."a.b"."t.u"""", "s") == """db."a.b".s""")
    assert(beside("[x.y].[t]", "s") == "[x.y].s")
    assert(beside("`t.u`", "s") == "s")
    assert(last("""db."a.b"."t.u"""") == "t.u")
  }

  test("a URL without what is secret") {
    import JdbcTarget.withoutSecrets
    assert(withoutSecrets("jdbc:postgresql://h:1/db?user=u&password=p") == "jdbc:postgresql://h:1/db")
    assert(withoutSecrets("jdbc:mysql://u:p@h/db") == "jdbc:mysql://@h/db")
    assert(withoutSecrets("jdbc:mysql://u:p@ss@h/db") == "jdbc:mysql://@h/db")
    assert(
      withoutSecrets("jdbc:mysql://(host=h,user=u,password=p@ss)/db") ==
        "jdbc:mysql://(host=h,user=,password=)/db"
    )
    assert(withoutSecrets("jdbc:db2://h:1/db:password=p;user=u;") == "jdbc:db2://h:1/db:password=")
    assert(withoutSecrets("jdbc:oracle:thin:scott/tiger@//h:1/x") == "jdbc:oracle:thin:@//h:1/x")
    assert(withoutSecrets("jdbc:sqlserver://h;databaseName=d;password=p") == "jdbc:sqlserver://h")
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
    assert(!has(Some((6, 4)), (7, 5)))
    assert(has(Some((7, 5)), (7, 5)))
    for (
      (wrong, cause) <- Seq(
        Some((7L, 6L)) -> "CHECKPOINT_RESTORED",
        Some((8L, 9L)) -> "CHECKPOINT_RESTORED",
        Some((5L, 1L)) -> "TARGET_RESTORED",
        None -> "NO_BATCH"
      )
    )
      rejected(s"STREAMJOIN_UPSERT_BATCH.$cause")(has(wrong, (7, 5)))
  }

  test("the SQL of a batch begins with the staging table, for each combination of nulls") {
    def of(kind: String) = {
      val dialect = JdbcDialects.get(s"jdbc:$kind:x")
      JdbcStatements(dialect, kind, "t", "u", Seq("a", "b", "v"), Seq(0, 1), "c", "n", Seq(4L, 7L))
    }
    val sql = of("postgresql").copy(replaces = true)
    assert(
      sql.applyStaged(Seq(Seq(true, false), Seq(false, false))) == Seq(
        "DELETE FROM t streamjoin_target USING u streamjoin_staged WHERE streamjoin_staged.a = streamjoin_target.a AND streamjoin_staged.b = streamjoin_target.b AND streamjoin_staged.c = 0 AND streamjoin_staged.n IN (4, 7)",
        "DELETE FROM t streamjoin_target USING u streamjoin_staged WHERE streamjoin_staged.a IS NULL AND streamjoin_target.a IS NULL AND streamjoin_staged.b = streamjoin_target.b AND streamjoin_staged.n IN (4, 7)",
        "INSERT INTO t (a, b, v) SELECT a, b, v FROM u WHERE c = 1 AND n IN (4, 7) ON CONFLICT (a, b) DO UPDATE SET v = EXCLUDED.v"
      )
    )
    assert(sql.copy(columns = Seq("a", "b")).applyStaged(Nil).last.endsWith("ON CONFLICT (a, b) DO NOTHING"))
    def first(kind: String) = of(kind).applyStaged(Seq(Seq(false, false))).head
    assert(
      first("mysql").startsWith(
        "DELETE streamjoin_target FROM u streamjoin_staged STRAIGHT_JOIN t streamjoin_target ON "
      )
    )
    assert(first("h2").startsWith("MERGE INTO t streamjoin_target USING u streamjoin_staged ON ("))
    assert(first("sqlserver").startsWith("DELETE streamjoin_target FROM t streamjoin_target WHERE EXISTS ("))
    assert(first("oracle").startsWith("DELETE FROM t streamjoin_target WHERE EXISTS ("))
    assert(!first("derby").contains(" = 0"))
    val many = of("oracle").copy(attempts = 1L to 1001L).countStaged
    assert(
      many.startsWith("SELECT COUNT(*) FROM u WHERE (n IN (1, ") && many.endsWith(", 1000) OR n IN (1001))")
    )
  }
}

/** As soon as a task has a connection, those of the driver have been idle for too long. */
class ImpatientDriver extends org.h2.Driver {
  override def connect(url: String, info: Properties): Connection = {
    val made = super.connect(url, info)
    if (ImpatientDriver.isImpatient) ImpatientDriver.noteConnection(made)
    made
  }
}

object ImpatientDriver {
  @volatile var isImpatient: Boolean = false
  private val ofDriver = mutable.ArrayBuffer.empty[Connection]

  private def noteConnection(made: Connection): Unit = synchronized {
    if (TaskContext.get() == null) ofDriver += made
    else {
      ofDriver.foreach(_.close())
      ofDriver.clear()
    }
  }
}
