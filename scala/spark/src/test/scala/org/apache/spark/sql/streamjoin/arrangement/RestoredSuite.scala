package org.apache.spark.sql.streamjoin.arrangement

import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.{Files, Path}
import java.util.{Map => JMap}

import scala.util.{Failure, Success, Try}

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.connector.read.streaming.{Offset, ReadLimit}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, expr, timestamp_seconds}
import org.apache.spark.sql.streaming.{DataStreamWriter, Trigger}
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.source.{
  ArrangementOptions,
  ArrangementScan,
  ArrangementStream,
  ReadPartition,
  RunVersions
}
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, Snapshot}
import org.apache.spark.sql.streamjoin.joins.delta.DeltaJoins
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{DataFrame, Encoders, Row}

/**
 * What was restored from a backup, dropped, forked or replaced, while the application goes on with
 * its indexes in memory: by those who maintain the arrangement and those who read it.
 */
class RestoredSuite extends AnyFunSuite with ArrangementTest {
  import ArrangementTest._
  import RestoredSuite._

  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  /** An arrangement of `id` and `v`, its maintainer, and one of each kind of reader. */
  final private class World {
    val home: String = newFolder("world")
    val root: String = s"$home/arrangement"
    private def path(of: String) = Path.of(home, of)
    Files.createDirectories(path("input"))
    private val schema = "id INT, v STRING, op STRING"

    def put(rows: (Int, String)*): Unit = {
      val file = path("input").resolve(s"${System.nanoTime()}.json")
      val lines = rows.map { case (id, v) => s"""{"id": $id, "v": "$v", "op": "update"}""" }
      Files.writeString(file, lines.mkString("\n")): Unit
    }

    def writer(keys: Seq[Seq[String]] = Seq(Seq("id"))): DataStreamWriter[Row] = {
      val rows = spark.readStream.schema(schema).json(s"$home/input")
      Arrangements
        .arrange(rows, root, keys, Some("op"), None, None)
        .writeStream
        .format("streamjoin")
        .option("path", root)
        .trigger(Trigger.AvailableNow())
    }

    def run(by: DataStreamWriter[Row] = writer(), checkpoint: String = "checkpoint"): Unit = {
      val query = by.option("checkpointLocation", s"$home/$checkpoint").start()
      query.awaitTermination()
    }

    def version(rows: (Int, String)*): Unit = {
      put(rows: _*)
      run()
    }

    private val all = Seq("arrangement", "checkpoint", "input")
    def save(of: Seq[String] = all, to: String = "saved"): Unit =
      of.foreach(name => FileUtils.copyDirectory(path(name).toFile, path(s"$to/$name").toFile))
    def restore(of: Seq[String] = all, from: String = "saved"): Unit = of.foreach { name =>
      FileUtils.deleteDirectory(path(name).toFile)
      FileUtils.copyDirectory(path(s"$from/$name").toFile, path(name).toFile)
    }

    def folder: ArrangementFolder = ArrangementFolder.open(ArrangementFolder.root(root))

    val changes = new Reader(s"$home/changes")(
      spark.readStream.format("streamjoin").load(root).drop("_version")
    )
    val deltaJoin = new Reader(s"$home/delta-join")(
      DeltaJoins.of(
        spark,
        Seq("a" -> root, "b" -> root),
        "a.id = b.id",
        Seq("a.id", "b.v"),
        Set.empty,
        Map.empty[String, String]
      )
    )

    private val probes = MemoryStream[(Int, Int)](Encoders.tuple(Encoders.scalaInt, Encoders.scalaInt), spark)
    def table(options: (String, String)*): DataFrame =
      spark.read.format("streamjoin").option("streamjoin.table", true).options(options.toMap).load(root)
    val lookUp = new Reader(s"$home/look-up")(
      probes
        .toDF()
        .toDF("probe", "key")
        .join(table(), expr("key = id"))
        .selectExpr("probe", "id", "v", "1L AS copies")
    )
    private var probe = 0

    /** The rows that look-ups find now. */
    def lookedUp(): Map[String, Long] = {
      probe += 1
      probes.addData((1 to 9).map(probe -> _))
      seen(lookUp).collect { case (row, copies) if row.startsWith(s"$probe ") => row.drop(2) -> copies }
    }

    def rows: Seq[String] = rowsOf(root)
  }

  private def seen(reader: Reader): Map[String, Long] =
    during(reader) {
      reader.settle()
      reader.sum()
    }

  private def once(rows: String*): Map[String, Long] = rows.map(_ -> 1L).toMap

  private def outcome[T](body: => T): Either[String, T] = Try(body) match {
    case Success(found) => Right(found)
    case Failure(error) =>
      Left(SparkTest.errorClass(error).getOrElse(throw error).stripPrefix("STREAMJOIN_ARRANGEMENT_"))
  }

  private def check(world: World, expected: Expected): Unit = {
    val got = Expected(
      outcome {
        world.put(2 -> "new")
        world.run()
        world.rows
      },
      outcome(seen(world.changes)),
      outcome(world.lookedUp()),
      outcome(seen(world.deltaJoin))
    )
    assert(got == expected)
    // What memory says, and what a new process finds.
    val inMemory = world.rows
    forgetIndexes()
    assert(world.rows == inMemory)
    expected.lookUp.foreach { rows =>
      assert(world.lookedUp() == rows)
    }
  }

  /** Versions 0 to 2, with a copy of version 0; all have read version 2. */
  private def begun(): World = {
    val world = new World
    world.version(1 -> "a", 2 -> "a")
    world.save()
    world.version(1 -> "b")
    world.version(3 -> "lost")
    assert(world.folder.newest == 2)
    val rows = once("1 b", "2 a", "3 lost")
    assert(seen(world.changes) == rows)
    assert(seen(world.deltaJoin) == rows)
    assert(world.lookedUp() == rows)
    world
  }

  private val newest = once("1 b", "2 a", "3 lost")
  private val newerRows = Seq("1 b", "2 new", "3 lost")
  private val newer = once(newerRows: _*)
  private val restored = once("1 a", "2 new")

  private val stories = Seq[(String, World => Unit, Expected)](
    (
      "nothing happened",
      _ => (),
      Expected(Right(newerRows), Right(newer), Right(newer), Right(newer))
    ),
    (
      "the arrangement is restored",
      _.restore(Seq("arrangement")),
      Expected(
        Left("RESTORED.ARRANGEMENT"),
        Left("RESTORED.READER"),
        Right(once("1 a", "2 a")),
        Left("RESTORED.READER")
      )
    ),
    (
      "the checkpoint is restored",
      _.restore(Seq("checkpoint")),
      Expected(Left("RESTORED.CHECKPOINT"), Right(newest), Right(newest), Right(newest))
    ),
    (
      "both are restored",
      _.restore(),
      Expected(
        Right(Seq("1 a", "2 new")),
        Left("RESTORED.READER"),
        Right(restored),
        Left("RESTORED.READER")
      )
    ),
    (
      "both are restored, and continued to the number that readers have seen",
      { world =>
        world.restore()
        world.version(1 -> "a")
      },
      Expected(
        Right(Seq("1 a", "2 new")),
        Left("RESTORED.READER"),
        Right(restored),
        Left("RESTORED.READER")
      )
    ),
    (
      "both are restored, and continued far beyond",
      { world =>
        world.restore()
        (1 to 4).foreach(_ => world.version(1 -> "a"))
      },
      Expected(
        Right(Seq("1 a", "2 new")),
        Left("RESTORED.READER"),
        Right(restored),
        Left("RESTORED.READER")
      )
    ),
    (
      "both and the checkpoints of the readers are restored",
      { world =>
        world.restore()
        val readers = Seq("changes", "delta-join")
        readers.foreach(name => FileUtils.deleteDirectory(Path.of(world.home, name).toFile))
        Seq(world.changes, world.deltaJoin).foreach(_.batches.clear())
      },
      Expected(Right(Seq("1 a", "2 new")), Right(restored), Right(restored), Right(restored))
    ),
    (
      "the arrangement is a fork with another version of the same number",
      { world =>
        // The fork: version 1 is another one, version 2 is its second.
        world.save(Seq("arrangement", "checkpoint", "input"), "line")
        world.restore()
        world.version(1 -> "fork")
        world.version(4 -> "fork")
        world.restore(Seq("checkpoint", "input"), "line")
      },
      Expected(
        Left("RESTORED.BATCH"),
        Left("RESTORED.READER"),
        Right(once("1 fork", "2 a", "4 fork")),
        Left("RESTORED.READER")
      )
    ),
    (
      "the arrangement is dropped",
      world => world.folder.drop(),
      Expected(
        Left("RESTORED.ARRANGEMENT"),
        Left("STREAMJOIN_NO_ARRANGEMENT"),
        Left("STREAMJOIN_NO_ARRANGEMENT"),
        Left("STREAMJOIN_NO_ARRANGEMENT")
      )
    ),
    (
      "the arrangement is dropped and begun again",
      { world =>
        world.folder.drop()
        FileUtils.deleteDirectory(Path.of(world.home, "checkpoint").toFile)
        // All files are one batch, in which each key may change once.
        FileUtils.cleanDirectory(Path.of(world.home, "input").toFile)
        world.put(1 -> "b", 3 -> "lost")
      },
      Expected(Right(newerRows), Left("REPLACED"), Left("REPLACED"), Left("REPLACED"))
    )
  )

  for ((name, happens, expected) <- stories) test(name) {
    val world = begun()
    happens(world)
    if (name.endsWith("dropped")) {
      // There are no rows to compare.
      val got = Expected(
        outcome { world.run(); world.rows },
        outcome(seen(world.changes)),
        outcome(world.lookedUp()),
        outcome(seen(world.deltaJoin))
      )
      assert(got == expected)
      assert(!Files.exists(Path.of(world.root)), "a folder without a version is left")
    } else check(world, expected)
    if (expected.maintainer == Left("RESTORED.BATCH")) {
      // Their offsets may be the same numbers.
      val said = refused("STREAMJOIN_ARRANGEMENT_RESTORED.BATCH")(world.run())
      assert("planned at ([^ ]+) ".r.findAllMatchIn(said).map(_.group(1)).toSet.size == 2, said)
    }
  }

  // A writer, its definition and its folder.

  test("the same writer, started once more after its arrangement was dropped, begins another one") {
    val world = new World
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
    val world = new World
    world.run()
    assert(world.folder.newest == -1)
    during(world.changes) {
      world.changes.settle()
      // The same definition: those who wait for the first version get it.
      world.version(1 -> "a")
      world.changes.settle()
      assert(world.changes.sum() == once("1 a"))
    }

    val other = new World
    other.run()
    val id = other.folder.meta.id
    during(other.changes) {
      other.changes.settle()
      other.put(1 -> "a")
      other.run(other.writer(Seq(Seq("id"), Seq("v"))))
      assert(other.folder.meta.keys == Seq(Seq("id"), Seq("v")))
      assert(other.folder.meta.id != id)
      refused("STREAMJOIN_ARRANGEMENT_REPLACED")(other.changes.settle())
    }
    assert(other.rows == Seq("1 a"))
    refused("STREAMJOIN_ARRANGEMENT_CHANGED")(other.run())
  }

  test("two queries define an arrangement, and the one that was replaced writes nothing") {
    val world = new World
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
      refused("STREAMJOIN_ARRANGEMENT_REPLACED")(query.processAllAvailable())
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
    val said = refused("STREAMJOIN_ARRANGEMENT_RESTORED.READER")(next(seen))
    assert(said.contains("version 2, and another version has that number"))
    world.restore()
    assert(refused("STREAMJOIN_ARRANGEMENT_RESTORED.READER")(next(seen)).contains("the newest version is 0"))
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
      val error = intercept[Exception](query.processAllAvailable())
      assert(SparkTest.errorClass(error).exists(_.startsWith("STREAMJOIN_ARRANGEMENT")), error)
      assert(world.folder.newest == 0)
    } finally query.stop()
    assert(world.rows == Seq("1 a", "2 a"))
  }

  // What a batch has decided.

  test("a batch of look-ups that runs again finds its own version, or fails") {
    val world = begun()
    val before = world.lookUp.sum()
    forgetCommit(world.lookUp.checkpoint)
    world.restore()
    world.version(2 -> "new")
    assert(seen(world.lookUp) == before, "the index of that version is in memory")
    forgetCommit(world.lookUp.checkpoint)
    forgetIndexes()
    refused("STREAMJOIN_ARRANGEMENT_RESTORED.READER")(seen(world.lookUp))
  }

  test("rows that wait for a match find it in the restored table") {
    val world = begun()
    val events = MemoryStream[(Int, Int)](Encoders.tuple(Encoders.scalaInt, Encoders.scalaInt), spark)
    val reader = new Reader(s"${world.home}/rematch")(
      events
        .toDF()
        .toDF("second", "key")
        .withColumn("at", timestamp_seconds(col("second")))
        .withWatermark("at", "0 seconds")
        .join(world.table("rematch" -> "1 hour"), expr("key = id"), "left_outer")
        .selectExpr("key", "v", "1L AS copies")
    )
    events.addData((1, 5), (1, 3), (1, 6))
    assert(seen(reader) == once("3 lost", "5 -", "6 -"))
    world.restore()
    assert(seen(reader) == once("3 lost", "5 -", "6 -"))
    world.version(5 -> "five")
    assert(seen(reader) == once("3 lost", "5 -", "5 five", "6 -"))
    // To the number that has been seen, and beyond.
    world.restore()
    world.version(6 -> "six")
    world.version(7 -> "seven")
    assert(seen(reader) == once("3 lost", "5 -", "5 five", "6 -", "6 six"))
  }

  // What earlier releases have written.

  /** Removes all ids of versions from the files of an arrangement and of its readers. */
  private def forgetIds(world: World): Unit =
    files(world.home).filter(file => !file.toString.contains("saved")).foreach { file =>
      val text = Files.readString(file, ISO_8859_1)
      val without = file.getParent.getParent.getFileName.toString match {
        case "readers" => ""
        case _ => text.replaceAll(""","(id|previous)":"[0-9a-f-]{36}"""", "")
      }
      val isOurs = Seq("versions", "offsets", "tables", "readers", "caught_up.json")
        .exists(name => file.toString.contains(s"/$name"))
      if (isOurs && without != text) {
        Files.writeString(file, without, ISO_8859_1)
        Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
      }
    }

  private def hasIds(world: World): Boolean =
    Files.readString(Path.of(world.root, "versions", world.folder.newest.toString)).contains("\"id\"")

  test("what an earlier release has written is continued, and gets ids from then on") {
    val world = begun()
    assert(hasIds(world))
    forgetIds(world)
    assert(!hasIds(world))
    forgetIndexes()
    val batches = world.changes.batches.size
    assert(seen(world.changes) == newest)
    assert(world.changes.batches.size == batches, "a record without an id is not another offset")
    check(world, Expected(Right(newerRows), Right(newer), Right(newer), Right(newer)))
    assert(hasIds(world))
    assert(world.folder.manifest(3).previous.contains(world.folder.manifest(2).id))
  }

  test("an earlier release and this one may take turns with an arrangement") {
    val world = new World
    val values = (0 to 5).map(n => s"v$n")
    values.zipWithIndex.foreach { case (value, n) =>
      world.version(1 -> value)
      assert(seen(world.changes) == once(s"1 $value"))
      assert(seen(world.deltaJoin) == once(s"1 $value"))
      assert(world.lookedUp() == once(s"1 $value"))
      // As if the earlier release had written this version, and the readers had been its.
      if (n % 2 == 1) forgetIds(world)
      if (n % 3 == 2) forgetIndexes()
    }
  }

  for (isOld <- Seq(false, true))
    test(s"a restored arrangement${if (isOld) " of an earlier release" else ""} shows in memory, too") {
      val world = begun()
      if (isOld) {
        forgetIds(world)
        forgetIndexes()
        assert(seen(world.changes) == newest)
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
    val world = new World
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
    queries.zipWithIndex.foreach { case ((name, query), n) =>
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
}

object RestoredSuite {

  /** What each of them gets: rows, or the condition of an error. */
  final case class Expected(
      maintainer: Either[String, Seq[String]],
      changes: Either[String, Map[String, Long]],
      lookUp: Either[String, Map[String, Long]],
      deltaJoin: Either[String, Map[String, Long]]
  )
}
