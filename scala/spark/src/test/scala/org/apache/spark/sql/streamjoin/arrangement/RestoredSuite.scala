package org.apache.spark.sql.streamjoin.arrangement

import java.io.File
import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.{Files, Path}
import java.util.{Map => JMap}

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.connector.read.streaming.{Offset, ReadLimit}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, expr, timestamp_seconds}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.source.{
  ArrangementOptions,
  ArrangementScan,
  ArrangementStream,
  ReadPartition,
  RunVersions
}
import org.apache.spark.sql.streamjoin.arrangement.storage.Snapshot
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{Encoders, Row}

/**
 * What was restored from a backup, dropped, forked or replaced, while the application continues
 * with its indexes in memory: by those who maintain the arrangement and those who read it.
 */
class RestoredSuite extends AnyFunSuite with ArrangementTest {
  import ArrangementTest._
  import RestoredWorld._

  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  private def newWorld() = new RestoredWorld(spark, newFolder("world"))

  /** What all of them get, at once and after the indexes in memory are gone. */
  private def check(world: RestoredWorld, expected: Expected, isDropped: Boolean = false): Unit = {
    assert(world.outcome(isDropped) == expected)
    if (!isDropped) {
      val inMemory = world.rows
      forgetIndexes()
      assert(world.rows == inMemory)
      expected.lookUp.foreach(rows => assert(world.lookedUp() == rows))
    }
  }

  /** The folder of the worlds that have begun, and a copy of what it has then. */
  private lazy val beginning: (File, File) = {
    val (world, copy) = (newWorld(), new File(newFolder("begun")))
    world.begin(withTarget = true)
    FileUtils.copyDirectory(new File(world.home), copy)
    (new File(world.home), copy)
  }

  /** A world in the same folder each time, because checkpoints name the files of their source. */
  private def begun(): RestoredWorld = {
    val (home, copy) = beginning
    FileUtils.cleanDirectory(home)
    FileUtils.copyDirectory(copy, home)
    forgetIndexes()
    val world = new RestoredWorld(spark, home.getPath)
    assert(world.lookedUp() == Newest, "which also loads the index")
    world
  }

  private val stories =
    SparkTest.part(Stories, every = 6, from = 1) ++ (if (SparkTest.isLong) StoriesOfTargets else Nil)

  for (story <- stories) test(story.name) {
    val world = begun()
    story.happens(world)
    check(world, story.expected, story.isDropped)
    if (story.isDropped) assert(!Files.exists(Path.of(world.root)), "a folder without a version is left")
    if (story.expected.maintainer == Left("STREAMJOIN_ARRANGEMENT_RESTORED.BATCH")) {
      // Their offsets may be the same numbers.
      val said = rejected("STREAMJOIN_ARRANGEMENT_RESTORED.BATCH")(world.run())
      assert("planned at ([^ ]+) ".r.findAllMatchIn(said).map(_.group(1)).toSet.size == 2, said)
    }
  }

  testLong("an arrangement is moved to another folder") {
    val world = begun()
    val moved = new RestoredWorld(spark, world.home, "moved/arrangement")
    FileUtils.moveDirectory(Path.of(world.root).toFile, Path.of(moved.root).toFile)
    check(moved, Stories.head.expected)
    assert(!Files.exists(Path.of(world.root)))
  }

  // A writer, its definition and its folder.

  test("the same writer, started once more after its arrangement was dropped, begins another one") {
    val world = newWorld()
    val writer = world.writer()
    world.put(1 -> "old")
    world.run(writer)
    assert(world.rows == Seq("1 old"))
    world.folder.drop()
    FileUtils.cleanDirectory(Path.of(world.home, "input").toFile)
    world.put(1 -> "new", 7 -> "new")
    world.run(writer, "another")
    assert(world.rows == Seq("1 new", "7 new"))
    world.put(1 -> "newer")
    world.run(writer, "another")
    assert(world.rows == Seq("1 newer", "7 new"))
    forgetIndexes()
    assert(world.rows == Seq("1 newer", "7 new"))
  }

  test("a definition without a version does not block another one") {
    val world = newWorld()
    world.run()
    assert(world.folder.newest == -1)
    during(world.changes) {
      world.changes.settle()
      // The same definition: those who wait for the first version get it.
      world.version(1 -> "a")
      world.changes.settle()
      assert(world.changes.sum == once("1 a"))
    }

    val other = newWorld()
    other.run()
    val id = other.folder.meta.id
    during(other.changes) {
      other.changes.settle()
      other.put(1 -> "a")
      other.run(other.writer(Seq(Seq("id"), Seq("v"))))
      assert(other.folder.meta.keys == Seq(Seq("id"), Seq("v")))
      assert(other.folder.meta.id != id)
      rejected("STREAMJOIN_ARRANGEMENT_REPLACED")(other.changes.settle())
    }
    assert(other.rows == Seq("1 a"))
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(other.run())
  }

  test("two queries define an arrangement, and the one that was replaced writes nothing") {
    val world = newWorld()
    val first = MemoryStream[(Int, String, String)](
      Encoders.tuple(Encoders.scalaInt, Encoders.STRING, Encoders.STRING),
      spark
    )
    val query = Arrangements
      .arrange(
        first.toDF().toDF("id", "v", "op"),
        world.root,
        Seq(Seq("v")),
        Some("op"),
        None,
        None
      )
      .writeStream
      .format("streamjoin")
      .option("path", world.root)
      .option("checkpointLocation", newFolder())
      .start()
    try {
      query.processAllAvailable()
      world.run()
      first.addData((1, "a", "insert"))
      rejected("STREAMJOIN_ARRANGEMENT_REPLACED")(query.processAllAvailable())
      assert(world.folder.newest == -1)
    } finally query.stop()
    world.version(1 -> "b")
    assert(world.rows == Seq("1 b"))
  }

  // Queries that run while it happens.

  test("running readers notice that the version they have read is another one now") {
    val world = begun()
    val options = ArrangementOptions(new CaseInsensitiveStringMap(JMap.of("path", world.root)))
    val ref = ArrangementRef(world.root, world.folder.meta)
    val stream = new ArrangementStream(ref, options, newFolder(), () => null)(new RunVersions(ref, _))
    def next(from: Offset) = stream.latestOffset(from, ReadLimit.allAvailable())
    val seen = next(stream.initialOffset)
    assert(next(seen) == seen)
    // To the same number: nothing appears and nothing disappears.
    world.restore()
    Seq("x", "y").foreach(value => world.version(1 -> value))
    assert(world.folder.newest == Snapshot.of(seen).version)
    val said = rejected("STREAMJOIN_ARRANGEMENT_RESTORED.READER")(next(seen))
    assert(said.contains("version 2, and another version has that number"))
    world.restore()
    assert(rejected("STREAMJOIN_ARRANGEMENT_RESTORED.READER")(next(seen)).contains("the newest version is 0"))
  }

  test("a restored arrangement is not written by the run that was maintaining it") {
    val world = begun()
    val query = world
      .writer()
      .trigger(Trigger.ProcessingTime(0))
      .option("checkpointLocation", s"${world.home}/checkpoint")
      .start()
    try {
      query.processAllAvailable()
      world.restore(Seq("arrangement"))
      world.put(2 -> "new")
      val said = rejected("STREAMJOIN_ARRANGEMENT_RESTORED.ARRANGEMENT")(query.processAllAvailable())
      assert(said.contains(s"the checkpoint at file:${world.home}/checkpoint has committed batch 2"), said)
      assert(world.folder.newest == 0)
    } finally query.stop()
    assert(world.rows == Seq("1 a", "2 a"))
  }

  // What a batch has decided.

  test("a batch of look-ups that runs again finds its own version, or fails") {
    val world = begun()
    val before = world.lookUp.sum
    SparkTest.forgetCommit(world.lookUp.checkpoint)
    world.restore()
    world.version(2 -> "new")
    assert(world.seen(world.lookUp) == before, "the index of that version is in memory")
    SparkTest.forgetCommit(world.lookUp.checkpoint)
    forgetIndexes()
    rejected("STREAMJOIN_ARRANGEMENT_RESTORED.READER")(world.seen(world.lookUp))
  }

  testLong("rows that wait for a match find it in the restored table") {
    val world = begun()
    val events = MemoryStream[(Int, Int)](Encoders.tuple(Encoders.scalaInt, Encoders.scalaInt), spark)
    val reader = new world.Kept("rematch")(
      events
        .toDF()
        .toDF("second", "key")
        .withColumn("at", timestamp_seconds(col("second")))
        .withWatermark("at", "0 seconds")
        .join(world.table("rematch" -> "1 hour"), expr("key = id"), "left_outer")
        .selectExpr("key", "v", "1L AS copies")
    )
    events.addData((1, 5), (1, 3), (1, 6))
    assert(world.seen(reader) == once("3 lost", "5 -", "6 -"))
    world.restore()
    assert(world.seen(reader) == once("3 lost", "5 -", "6 -"))
    world.version(5 -> "five")
    assert(world.seen(reader) == once("3 lost", "5 -", "5 five", "6 -"))
    // To the number that has been seen, and beyond.
    world.restore()
    world.version(6 -> "six")
    world.version(7 -> "seven")
    assert(world.seen(reader) == once("3 lost", "5 -", "5 five", "6 -", "6 six"))
  }

  // What earlier releases have written.

  /** Removes all ids of versions from the files of an arrangement and of its readers. */
  private def forgetIds(world: RestoredWorld): Unit =
    files(world.home).filter(file => !file.toString.contains("saved")).foreach { file =>
      val text = Files.readString(file, ISO_8859_1)
      val without = file.getParent.getParent.getFileName.toString match {
        case "readers" => ""
        case _ => text.replaceAll(""","(id|previous)":"[0-9a-f-]{36}"""", "")
      }
      val isOurs = Seq("versions", "offsets", "tables", "readers", "caught_up.json")
        .exists(name => file.toString.contains(s"/$name"))
      if (isOurs && without != text) SparkTest.overwrite(file, without.getBytes(ISO_8859_1))
    }

  private def hasIds(world: RestoredWorld): Boolean =
    Files.readString(Path.of(world.root, "versions", world.folder.newest.toString)).contains("\"id\"")

  testLong("what an earlier release has written is continued, and gets ids from then on") {
    val world = begun()
    assert(hasIds(world))
    forgetIds(world)
    assert(!hasIds(world))
    forgetIndexes()
    val batches = world.changes.batches
    assert(world.seen(world.changes) == Newest)
    assert(world.changes.batches == batches, "a record without an id is not another offset")
    check(world, Stories.head.expected)
    assert(hasIds(world))
    assert(world.folder.manifest(3).previous.contains(world.folder.manifest(2).id))
  }

  testLong("an earlier release and this one may take turns with an arrangement") {
    val world = newWorld()
    val values = (0 to 5).map(n => s"v$n")
    values.zipWithIndex.foreach { case (value, n) =>
      world.version(1 -> value)
      assert(world.seen(world.changes) == once(s"1 $value"))
      assert(world.seen(world.deltaJoin) == once(s"1 $value"))
      assert(world.lookedUp() == once(s"1 $value"))
      // As if the earlier release had written this version, and the readers had been its.
      if (n % 2 == 1) forgetIds(world)
      if (n % 3 == 2) forgetIndexes()
    }
  }

  for (isOld <- SparkTest.part(Seq(false, true), every = 2))
    test(s"a restored arrangement${if (isOld) " of an earlier release" else ""} shows in memory, too") {
      val world = begun()
      if (isOld) {
        forgetIds(world)
        forgetIndexes()
        assert(world.seen(world.changes) == Newest)
        assert(world.rows == Seq("1 b", "2 a", "3 lost"))
      }
      world.restore()
      assert(world.rows == Seq("1 a", "2 a"))
      Seq(1 -> "x", 2 -> "y", 1 -> "z").foreach { row =>
        world.version(row)
        if (isOld) forgetIds(world)
      }
      assert(world.rows == Seq("1 z", "2 y"))
      forgetIndexes()
      assert(world.rows == Seq("1 z", "2 y"))
      assert(world.folder.manifest(3).counts("rows") == 2)
    }

  // One version in a query.

  test("a query reads an arrangement at one version, and the next one reads it anew") {
    val world = newWorld()
    world.version((1 to 4).map(_ -> "a"): _*)
    val table = spark.read.format("streamjoin").load(world.root)
    table.createOrReplaceTempView("arranged")
    val queries = Seq(
      "union" -> table.where("id % 2 = 0").union(table.where("id % 2 = 1")),
      "join" -> table.as("l").join(table.as("r"), expr("l.id = r.id")).selectExpr("l.id", "r.v"),
      "subquery" -> spark.sql("SELECT id, (SELECT max(v) FROM arranged) AS v FROM arranged WHERE v > ''"),
      "EXISTS" -> spark.sql(
        "SELECT id, v FROM arranged a WHERE EXISTS (SELECT 1 FROM arranged b WHERE b.id = a.id AND b.v = a.v)"
      ),
      "two DataFrames" -> spark.read
        .format("streamjoin")
        .load(world.root)
        .where("id < 3")
        .union(table.where("id > 2"))
    )
    SparkTest.part(queries, every = 2).zipWithIndex.foreach { case ((name, query), n) =>
      val scans = query.queryExecution.optimizedPlan
        .collectWithSubqueries { case relation: DataSourceV2ScanRelation => relation.scan }
        .collect { case scan: ArrangementScan => scan }
      assert(scans.size == 2, name)
      def versionOf(scan: ArrangementScan) = scan.planInputPartitions.collect { case part: ReadPartition =>
        part.end.version
      }.distinct
      val first = versionOf(scans.head)
      // Between the first scan and the second.
      world.version((1 to 4).map(_ -> s"b$n"): _*)
      assert(versionOf(scans(1)).sameElements(first), name)
      val seen = query.collect().map(_.getString(1)).distinct
      assert(seen.length == 1, name)
      assert(table.select("v").distinct().collect().toSeq == Seq(Row(s"b$n")), name)
    }
  }

  // Spark keeps the plan of a DataFrame, with the files that its exchanges have written.
  testLong("a DataFrame reads the version of its first action, and each one made of it reads anew") {
    val world = newWorld()
    world.version(1 -> "a", 2 -> "a")
    val table = spark.read.format("streamjoin").load(world.root)
    val frames =
      Seq(table, table.groupBy("v").count(), table.as("l").join(table.as("r"), expr("l.id = r.id")))
    val first = frames.map(_.collect().toSeq)
    for (adaptive <- Seq("true", "false")) withConf("spark.sql.adaptive.enabled" -> adaptive) {
      world.version(1 -> adaptive, 2 -> adaptive)
      assert(frames.map(_.collect().toSeq) == first)
      val anew = frames.init.map(_.select("v")) :+ frames.last.select("l.v") :+ table.groupBy("v").count()
      assert(anew.map(_.collect().map(_.getString(0)).toSet) == Seq.fill(anew.size)(Set(adaptive)))
    }
  }
}
