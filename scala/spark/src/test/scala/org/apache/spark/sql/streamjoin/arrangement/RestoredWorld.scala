package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path}
import java.sql.DriverManager
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.{Failure, Success, Try, Using}

import org.apache.commons.io.FileUtils

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.{DataStreamWriter, StreamingQuery, Trigger}
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.streamjoin.{ArrangementTest, Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.Upsert

/**
 * An arrangement of `id` and `v`, its maintainer, and one of each kind of reader. All that they
 * have is below one folder, so that another process can continue it.
 */
final private[arrangement] class RestoredWorld(
    spark: ClassicSession,
    val home: String,
    name: String = "arrangement"
) {
  import RestoredWorld._

  val root: String = s"$home/$name"
  private def path(of: String) = Path.of(home, of)
  Seq("input", "probes").foreach(name => Files.createDirectories(path(name)): Unit)
  private val schema = "id INT, v STRING, op STRING"

  def folder: ArrangementFolder = ArrangementFolder.open(ArrangementFolder.root(root))

  def rows: Seq[String] =
    spark.read.format("streamjoin").load(root).collect().map(JoinTest.text).sorted.toSeq

  // Its maintainer.

  def put(rows: (Int, String)*): Unit = {
    val file = Files.createDirectories(path("input")).resolve(s"${System.nanoTime()}.json")
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

  def run(by: DataStreamWriter[Row] = writer(), checkpoint: String = "checkpoint"): Unit =
    by.option("checkpointLocation", s"$home/$checkpoint").start().awaitTermination()

  def version(rows: (Int, String)*): Unit = {
    put(rows: _*)
    run()
  }

  // Its files.

  def save(of: Seq[String] = OfMaintainer, to: String = "saved"): Unit =
    of.foreach(name => FileUtils.copyDirectory(path(name).toFile, path(s"$to/$name").toFile))

  def restore(of: Seq[String] = OfMaintainer, from: String = "saved"): Unit = of.foreach { name =>
    delete(name)
    FileUtils.copyDirectory(path(s"$from/$name").toFile, path(name).toFile)
  }

  /** A query that runs may write into a folder while it is deleted, so that it is moved first. */
  def delete(names: String*): Unit = names.foreach { name =>
    if (Files.exists(path(name))) {
      val gone = Files.createDirectories(path("gone")).resolve(UUID.randomUUID().toString)
      Files.move(path(name), gone)
      FileUtils.deleteQuietly(gone.toFile)
    }
  }

  // Its readers.

  /** Keeps the changes that each batch emits, the last column of which is a number of copies. */
  final class Kept(name: String)(frame: => DataFrame) extends ArrangementTest.Job(s"$home/$name") {
    private def seen = Path.of(checkpoint, "seen")

    override protected def begin(): StreamingQuery = frame.writeStream
      .foreachBatch { (rows: DataFrame, batch: Long) =>
        val (text, file) = (rows.collect().map(JoinTest.text).sorted.mkString("\n"), seen.resolve(s"$batch"))
        if (Files.exists(file)) assert(Files.readString(file) == text, s"batch $batch gave other rows")
        Files.createDirectories(seen)
        Files.writeString(file, text): Unit
      }
      .option("checkpointLocation", checkpoint)
      .start()

    private def files =
      if (!Files.exists(seen)) Nil
      else Using.resource(Files.list(seen))(_.iterator.asScala.toList)

    def batches: Int = files.size

    /** The sum of copies, by the text of the row. */
    def sum: Map[String, Long] = files
      .flatMap(Files.readAllLines(_).asScala)
      .map(line => line.splitAt(line.lastIndexOf(' ')))
      .groupMapReduce(_._1)(_._2.trim.toLong)(_ + _)
      .filter(_._2 != 0)
  }

  def seen(reader: Kept): Map[String, Long] =
    try {
      reader.start().settle()
      reader.sum
    } finally reader.stop()

  private def streamed = spark.readStream.format("streamjoin").load(root).drop("_version")
  val changes = new Kept("changes")(streamed)

  val deltaJoin = new Kept("delta-join")(
    Frames.delta(
      spark,
      Seq("a" -> root, "b" -> root),
      "a.id = b.id",
      Seq("a.id", "b.v")
    )
  )

  def table(options: (String, String)*): DataFrame =
    spark.read.format("streamjoin").option("streamjoin.table", true).options(options.toMap).load(root)

  val lookUp = new Kept("look-up")(
    spark.readStream
      .schema("probe INT, key INT")
      .json(s"$home/probes")
      .join(table(), expr("key = id"))
      .selectExpr("probe", "id", "v", "1L AS copies")
  )

  /** The rows that look-ups find now. */
  def lookedUp(): Map[String, Long] = {
    val probe = Using.resource(Files.list(path("probes")))(_.filter(Files.isRegularFile(_)).count()) + 1
    val lines = (1 to 9).map(key => s"""{"probe": $probe, "key": $key}""")
    Files.writeString(path(s"probes/$probe.json"), lines.mkString("\n"))
    seen(lookUp).collect {
      case (row, copies) if row.startsWith(s"$probe ") => row.dropWhile(_ != ' ').drop(1) -> copies
    }
  }

  def inTarget[T](body: java.sql.Statement => T): T =
    Using.resource(DriverManager.getConnection(s"jdbc:h2:file:$home/target/shop")) { connection =>
      Using.resource(connection.createStatement())(body)
    }

  def createTarget(): Unit =
    inTarget(_.execute("CREATE TABLE kept (id INT PRIMARY KEY, v VARCHAR(9))"): Unit)

  /** The rows of a table that the changes keep current. */
  def upserted(): Map[String, Long] = {
    Upsert
      .into(streamed, Map("url" -> s"jdbc:h2:file:$home/target/shop", "dbtable" -> "kept"))
      .key("id")
      .writeStream
      .option("checkpointLocation", s"$home/upsert")
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
    inTarget { statement =>
      val found = statement.executeQuery("SELECT id, v FROM kept")
      once(
        Iterator
          .continually(found)
          .takeWhile(_.next())
          .map(row => s"${row.getInt(1)} ${row.getString(2)}")
          .toSeq: _*
      )
    }
  }

  // Stories.

  /** Versions 0 to 2, with a copy of version 0; all have read version 2. */
  def begin(withTarget: Boolean): Unit = {
    version(1 -> "a", 2 -> "a")
    save()
    version(1 -> "b")
    version(3 -> "lost")
    assert(folder.newest == 2)
    assert(seen(changes) == Newest)
    assert(seen(deltaJoin) == Newest)
    assert(lookedUp() == Newest)
    if (withTarget) {
      createTarget()
      assert(upserted() == Newest)
    }
  }

  /** What each of them gets; the maintainer gets a change first, unless its arrangement is gone. */
  def outcome(isDropped: Boolean): Expected = Expected(
    outcomeOf {
      if (!isDropped) put(2 -> "new")
      run()
      rows
    },
    outcomeOf(seen(changes)),
    outcomeOf(lookedUp()),
    outcomeOf(seen(deltaJoin)),
    outcomeOf(upserted())
  )

  private def outcomeOf[T](body: => T): Either[String, T] = Try(body) match {
    case Success(found) => Right(found)
    case Failure(error) =>
      Left(SparkTest.errorClass(error).getOrElse(throw error))
  }
}

private[arrangement] object RestoredWorld {
  private val OfMaintainer = Seq("arrangement", "checkpoint", "input")

  def once(rows: String*): Map[String, Long] = rows.map(_ -> 1L).toMap

  /** What each of them gets: rows, or the condition of an error. */
  final case class Expected(
      maintainer: Either[String, Seq[String]],
      changes: Either[String, Map[String, Long]],
      lookUp: Either[String, Map[String, Long]],
      deltaJoin: Either[String, Map[String, Long]],
      upsert: Either[String, Map[String, Long]]
  ) {
    def text: String = productElementNames
      .zip(productIterator)
      .map {
        case (name, Left(error)) => s"$name: $error"
        case (name, Right(rows: Iterable[_])) => s"$name: ${rows.map(_.toString).toSeq.sorted.mkString(", ")}"
        case (name, other) => s"$name: $other"
      }
      .mkString("\n")
  }

  final case class Story(name: String, happens: RestoredWorld => Unit, expected: Expected) {

    /** Whether there are no rows to compare. */
    def isDropped: Boolean = name.endsWith("dropped")
  }

  val Newest: Map[String, Long] = once("1 b", "2 a", "3 lost")
  val NewerRows: Seq[String] = Seq("1 b", "2 new", "3 lost")
  private val Newer = once(NewerRows: _*)
  private val RestoredRows = Seq("1 a", "2 new")
  private val Restored = once(RestoredRows: _*)

  private val OfReader = Left("STREAMJOIN_ARRANGEMENT_RESTORED.READER")
  private val NoArrangement = Left("STREAMJOIN_NO_ARRANGEMENT")
  private val Replaced = Left("STREAMJOIN_ARRANGEMENT_REPLACED")

  val Stories: Seq[Story] = Seq(
    Story(
      "nothing happened",
      _ => (),
      Expected(Right(NewerRows), Right(Newer), Right(Newer), Right(Newer), Right(Newer))
    ),
    Story(
      "the arrangement is restored",
      _.restore(Seq("arrangement")),
      Expected(
        Left("STREAMJOIN_ARRANGEMENT_RESTORED.ARRANGEMENT"),
        OfReader,
        Right(once("1 a", "2 a")),
        OfReader,
        OfReader
      )
    ),
    Story(
      "the checkpoint is restored",
      _.restore(Seq("checkpoint")),
      Expected(
        Left("STREAMJOIN_ARRANGEMENT_RESTORED.CHECKPOINT"),
        Right(Newest),
        Right(Newest),
        Right(Newest),
        Right(Newest)
      )
    ),
    Story(
      "both are restored",
      _.restore(),
      Expected(Right(RestoredRows), OfReader, Right(Restored), OfReader, OfReader)
    ),
    Story(
      "both are restored, and continued to the number that readers have seen",
      { world =>
        world.restore()
        world.version(1 -> "a")
      },
      Expected(Right(RestoredRows), OfReader, Right(Restored), OfReader, OfReader)
    ),
    Story(
      "both are restored, and continued beyond it",
      { world =>
        world.restore()
        (1 to 2).foreach(_ => world.version(1 -> "a"))
      },
      Expected(Right(RestoredRows), OfReader, Right(Restored), OfReader, OfReader)
    ),
    Story(
      "both are restored, and the readers begin again",
      { world =>
        world.restore()
        world.delete("changes", "delta-join", "upsert", "target")
        world.createTarget()
      },
      Expected(Right(RestoredRows), Right(Restored), Right(Restored), Right(Restored), Right(Restored))
    ),
    Story(
      "the arrangement is a fork with another version of the same number",
      { world =>
        // The fork: version 1 is another one, version 2 is its second.
        world.save(to = "line")
        world.restore()
        world.version(1 -> "fork")
        world.version(4 -> "fork")
        world.restore(Seq("checkpoint", "input"), "line")
      },
      Expected(
        Left("STREAMJOIN_ARRANGEMENT_RESTORED.BATCH"),
        OfReader,
        Right(once("1 fork", "2 a", "4 fork")),
        OfReader,
        OfReader
      )
    ),
    Story(
      "the arrangement is dropped",
      _.folder.drop(),
      Expected(
        Left("STREAMJOIN_ARRANGEMENT_RESTORED.ARRANGEMENT"),
        NoArrangement,
        NoArrangement,
        NoArrangement,
        NoArrangement
      )
    ),
    Story(
      "the arrangement is dropped and begun again",
      { world =>
        world.folder.drop()
        // All files are one batch, in which each key may change once.
        world.delete("checkpoint", "input")
        world.put(1 -> "b", 3 -> "lost")
      },
      Expected(Right(NewerRows), Replaced, Replaced, Replaced, Replaced)
    )
  )

  private val More = Newer ++ once("4 more")

  /** What happens to the target of the upsert, or to its checkpoint, is nothing to the others. */
  private def ofTarget(name: String, upsert: Either[String, Map[String, Long]])(
      happens: RestoredWorld => Unit
  ): Story = Story(
    name,
    { world =>
      world.save(Seq("target", "upsert"), "before")
      world.version(4 -> "more")
      assert(world.upserted().contains("4 more"))
      happens(world)
    },
    Expected(Right(NewerRows :+ "4 more"), Right(More), Right(More), Right(More), upsert)
  )

  val StoriesOfTargets: Seq[Story] = Seq(
    ofTarget("the target is restored", Left("STREAMJOIN_UPSERT_BATCH.TARGET_RESTORED"))(
      _.restore(Seq("target"), "before")
    ),
    ofTarget("the checkpoint of the upsert is restored", Left("STREAMJOIN_UPSERT_BATCH.CHECKPOINT_RESTORED"))(
      _.restore(Seq("upsert"), "before")
    ),
    ofTarget("the target and its checkpoint are restored", Right(More)) {
      _.restore(Seq("target", "upsert"), "before")
    },
    ofTarget("the table of the target is removed", Left("STREAMJOIN_UPSERT.NO_TABLE")) {
      _.inTarget(_.execute("DROP TABLE kept"): Unit)
    },
    ofTarget("the target is replaced", Left("STREAMJOIN_UPSERT_BATCH.NO_BATCH")) { world =>
      world.delete("target")
      world.createTarget()
    },
    ofTarget("the target and the checkpoint of the upsert begin again", Right(More)) { world =>
      world.delete("target", "upsert")
      world.createTarget()
    }
  )
}
