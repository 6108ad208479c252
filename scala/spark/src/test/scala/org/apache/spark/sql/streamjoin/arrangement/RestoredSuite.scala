package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path}

import scala.util.{Failure, Success, Try}

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.{DataStreamWriter, Trigger}
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.streamjoin.joins.delta.DeltaJoins
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.{Encoders, Row}

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
    val root = s"$home/arrangement"
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
    private def table = spark.read.format("streamjoin").option("streamjoin.table", true).load(root)
    val lookUp = new Reader(s"$home/look-up")(
      probes
        .toDF()
        .toDF("probe", "key")
        .join(table, expr("key = id"))
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
