package org.apache.spark.sql.streamjoin

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path, StandardCopyOption}
import java.time.{Instant, LocalDateTime, ZoneOffset}
import java.util.Base64

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession

/**
 * The streams of the parity suite: one folder per stream, one JSON file per batch. Consecutive
 * files overlap by less than the delay, so no row is later than the delay of its own column; the
 * last file lies days past all bounds.
 */
private[streamjoin] object ParityInputs {
  val Delay = "10 minutes"
  val Columns = "id STRING, t TIMESTAMP, v INT"
  val AllColumns: String = Columns + ", type STRING, s STRUCT<id: STRING, n: INT>, arr ARRAY<INT>, " +
    "m MAP<STRING, INT>, dec DECIMAL(20, 4), day DATE, bin BINARY, dbl DOUBLE, flag BOOLEAN, long BIGINT, text STRING"

  private val Start = LocalDateTime.parse("2024-06-01T10:00:00")
  private val Overlapping = 2
  private val RowsOfFile = 14
  private val Seed = 13

  /** Files per stream, including the last one. */
  val FileCount: Int = Overlapping + 1

  final private case class Event(id: String, t: Option[LocalDateTime], v: Int, kind: String = "order")

  def write(root: Path): Unit =
    for ((name, files) <- streams) {
      val folder = Files.createDirectory(root.resolve(name))
      for ((events, number) <- files.zipWithIndex) {
        val file = Files.write(folder.resolve(s"$number.json"), events.map(json).asJava)
        // Spark takes files in the order of their modification times.
        Files.setLastModifiedTime(file, FileTime.from(Instant.EPOCH.plusSeconds(1000000000L + number)))
      }
    }

  private def streams: Map[String, Seq[Seq[Event]]] = {
    val random = new Random(Seed)
    val named = Seq("o", "d", "e").map(name => name -> (events(name, random) :+ last(name))).toMap
    val ahead = named("d").map(_.map(event => event.copy(t = event.t.map(_.plusDays(5)), kind = "delivery")))
    val corrupt = Event("a", Some(LocalDateTime.parse("2099-01-01T00:00:00")), -1)
    named ++ Map(
      // One topic with two kinds of events, whose clocks are days apart.
      "mixed" -> longer(named("o").zip(ahead).map { case (some, others) => some ++ others }),
      // With a row that a filter removes.
      "corrupt" -> longer(
        named("o").zipWithIndex.map { case (some, at) => if (at == 0) some :+ corrupt else some }
      ),
      // A single file.
      "short" -> named("d").take(1),
      // No event time in the first file.
      "belated" -> (Seq(Event("none", None, 0)) +: named("d").tail),
      // Across the night in which Berlin sets its clocks back.
      "autumn" -> named("o").map(_.map(moved)),
      "autumn2" -> named("d").map(_.map(moved))
    )
  }

  /**
   * Splits the second file in two: a row is late by the watermark of two batches before, which the
   * first file sets.
   */
  private def longer(files: Seq[Seq[Event]]): Seq[Seq[Event]] = {
    val second = files(1).sortBy(event => (event.kind, event.t))
    val (earlier, later) = second.zipWithIndex.partition(_._2 % (RowsOfFile + 4) < RowsOfFile / 2)
    Seq(files.head, earlier.map(_._1), later.map(_._1)) ++ files.drop(2)
  }

  private def moved(event: Event): Event = event.copy(t = event.t.map(_.plusDays(148).minusHours(11)))

  /** Ties, duplicates, nulls in keys and times, and keys that only this stream has. */
  private def events(name: String, random: Random): Seq[Seq[Event]] =
    for (file <- 0 until Overlapping) yield {
      val some = Seq.fill(RowsOfFile) {
        val id = Seq("a", "a", "b", "b", "c", "A", s"only-$name")(random.nextInt(7))
        Event(id, Some(Start.plusMinutes(15L * file + random.nextInt(24))), random.nextInt(6))
      }
      some ++ Seq(some.head, some(1).copy(v = 9), Event(null, some(2).t, 1), Event("b", None, 2))
    }

  private def last(name: String): Seq[Event] =
    Seq("end", s"end-$name").map(id => Event(id, Some(Start.plusDays(20)), 6))

  private def json(event: Event): String = {
    def text(value: String) = if (value == null) "null" else s"\"$value\""
    val t = event.t.map(_.toInstant(ZoneOffset.UTC).toString)
    val fields = Seq(
      "id" -> text(event.id),
      "t" -> text(t.orNull),
      "v" -> event.v.toString,
      "type" -> text(event.kind),
      "s" -> s"""{"id": ${text(event.id)}, "n": ${event.v}}""",
      "arr" -> s"[${event.v}, 1]",
      "m" -> s"""{"k": ${event.v}}""",
      "dec" -> s"${event.v}.2500",
      "day" -> text(event.t.map(_.toLocalDate.toString).orNull),
      "bin" -> text(Option(event.id).map(id => Base64.getEncoder.encodeToString(id.getBytes)).orNull),
      "dbl" -> s"${event.v}.5",
      "flag" -> (event.v % 2 == 0).toString,
      "long" -> s"${event.t.fold("null")(_.toEpochSecond(ZoneOffset.UTC).toString)}",
      "text" -> text(event.t.map(_.toString.replace("T", " ")).orNull)
    )
    fields.map { case (name, value) => s"\"$name\": $value" }.mkString("{", ", ", "}")
  }

  /** Copies the first files of each stream into a folder that may receive the others later. */
  def release(from: Path, to: Path, files: Int): Unit =
    for (stream <- Files.list(from).iterator().asScala; number <- 0 until files) {
      val file = Path.of(stream.getFileName.toString, s"$number.json")
      Files.createDirectories(to.resolve(file).getParent)
      if (Files.exists(from.resolve(file)))
        Files.copy(
          from.resolve(file),
          to.resolve(file),
          StandardCopyOption.COPY_ATTRIBUTES,
          StandardCopyOption.REPLACE_EXISTING
        )
    }
}

/** What a query of the suite reads. The first run is run 0, the one after a restart is run 1. */
final private[streamjoin] class ParityInputs(
    val session: SparkSession,
    folder: Path,
    val run: Int = 0,
    streaming: Boolean = true
) {
  import ParityInputs._

  def raw(name: String, columns: String = Columns): DataFrame = {
    val path = folder.resolve(name).toString
    if (streaming) session.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(path)
    else session.read.schema(columns).json(path)
  }

  def marked(name: String, delay: String = Delay, columns: String = Columns): DataFrame =
    raw(name, columns).withWatermark("t", delay).as(name)

  def o: DataFrame = marked("o")
  def d: DataFrame = marked("d")
  def e: DataFrame = marked("e")

  /** With columns of all types. */
  def wide(name: String): DataFrame = marked(name, columns = AllColumns)

  /** A static table. */
  def names: DataFrame =
    session.createDataFrame(Seq("a" -> "Anna", "b" -> "Berta", "x" -> "Xaver")).toDF("id", "name")

  /**
   * Creates a view of each stream under its name (`wide_o` with all columns, `raw_o` without a
   * watermark) and of the static table.
   */
  def views(): ParityInputs = {
    for (name <- Seq("o", "d", "e")) {
      raw(name).withWatermark("t", Delay).createOrReplaceTempView(name)
      raw(name, AllColumns).withWatermark("t", Delay).createOrReplaceTempView(s"wide_$name")
      raw(name).createOrReplaceTempView(s"raw_$name")
    }
    names.createOrReplaceTempView("names")
    this
  }

  def sql(statements: String*): DataFrame = {
    views()
    statements.map(session.sql(_)).last
  }
}
