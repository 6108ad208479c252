package org.apache.spark.sql.streamjoin

import java.nio.file.{Files, Path}
import java.util.Base64

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.{Random, Using}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{
  MemoryStream,
  MicroBatchExecution,
  StreamingQueryWrapper
}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.arrangement.index.{IndexRegistry, IndexSettings}
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementTable
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, Snapshot}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Encoders, Row}

/** Queries that maintain arrangements and queries that read them; a test starts and feeds them. */
private[streamjoin] trait ArrangementTest extends SparkTest { this: AnyFunSuite =>
  import ArrangementTest._

  protected def maintainer(
      schema: String,
      keys: Seq[Seq[String]],
      op: Option[String] = None,
      diff: Option[String] = None,
      time: Option[String] = None,
      order: Option[String] = None,
      root: String = newFolder("arrangement"),
      ttl: => Option[String] = None
  ): Maintainer =
    new Maintainer(spark, schema, root, newFolder())(
      Arrangements.arrange(_, root, keys, op, diff, time, order, ttl)
    )

  protected def deltaJoin(
      inputs: Seq[(String, Maintainer)],
      on: String,
      select: Seq[String] = Nil,
      options: Map[String, String] = Map.empty,
      how: String = "inner"
  ): Reader = new Reader(newFolder())(
    Frames.delta(
      spark,
      inputs.map { case (name, input) => name -> input.root },
      on,
      select,
      how,
      options
    )
  )

  protected def memory(schema: String): MemoryStream[Row] =
    MemoryStream[Row](Encoders.row(StructType.fromDDL(schema)), spark)

  protected def rejected(condition: String)(body: => Any): String = {
    val error = intercept[Exception](body: Unit)
    assert(SparkTest.errorClass(error).contains(condition), SparkTest.messages(error).mkString("\n"))
    SparkTest.messages(error).mkString("\n")
  }

  protected def during[T](jobs: Job*)(body: => T): T =
    try {
      jobs.foreach(_.start())
      body
    } finally jobs.foreach(_.stop())

  protected def numbers(folder: String, of: String): Seq[Long] = SparkTest.numbers(Path.of(folder, of))

  /** Drops all indexes of this process from memory. */
  protected def forgetIndexes(): Unit = IndexRegistry(IndexSettings()).clear()

  /** The rows at a version; by default the newest. */
  protected def rowsOf(root: String, version: Option[Long] = None): Seq[String] =
    version
      .foldLeft(spark.read.format("streamjoin"))((reader, version) => reader.option("version", version))
      .load(root)
      .collect()
      .map(JoinTest.text)
      .toSeq
      .sorted
}

private[streamjoin] object ArrangementTest {

  /** A text that hardly compresses, of a length that is a multiple of 4. */
  def randomText(random: Random, length: Int): String = {
    val bytes = new Array[Byte](length / 4 * 3)
    random.nextBytes(bytes)
    Base64.getEncoder.encodeToString(bytes)
  }

  /** The files below a folder, except checksums. */
  def files(folder: String): Seq[Path] = Using.resource(Files.walk(Path.of(folder))) {
    _.iterator.asScala.filter(path => Files.isRegularFile(path) && !path.toString.endsWith(".crc")).toSeq
  }

  abstract class Job(val checkpoint: String) {
    private var query: Option[StreamingQuery] = None
    protected def begin(): StreamingQuery

    def start(): this.type = {
      query = Some(begin())
      this
    }

    def running: StreamingQuery = query.getOrElse(throw new IllegalStateException("not started"))
    def settle(): Unit = running.processAllAvailable()

    def stop(): Unit = {
      query.foreach(_.stop())
      query = None
    }

    def restart(): Unit = {
      stop()
      start(): Unit
    }

    /** Runs the last batch again. */
    def replay(): Unit = {
      stop()
      SparkTest.forgetCommit(checkpoint)
      start()
      settle()
    }
  }

  final class Maintainer(
      spark: ClassicSession,
      schema: String,
      val root: String,
      checkpoint: String
  )(arranged: DataFrame => DataFrame)
      extends Job(checkpoint) {
    private val fields = StructType.fromDDL(schema)
    val stream: MemoryStream[Row] = MemoryStream[Row](Encoders.row(fields), spark)

    override protected def begin(): StreamingQuery = arranged(stream.toDF()).writeStream
      .format("streamjoin")
      .option("path", root)
      .option("checkpointLocation", checkpoint)
      .start()

    def folder: ArrangementFolder = ArrangementFolder.open(ArrangementFolder.root(root))

    /** Also the base, if one is written alongside the batches: the next version names it. */
    override def settle(): Unit = {
      super.settle()
      val query = running.asInstanceOf[StreamingQueryWrapper].streamingQuery
      query.asInstanceOf[MicroBatchExecution].sink.asInstanceOf[ArrangementTable].run.awaitBase()
    }

    /** Adds rows as one version. */
    def feed(rows: Row*): Unit = {
      stream.addData(rows)
      settle()
    }
  }

  /** Collects the changes that each batch emits; their last column is the number of copies. */
  final class Reader(checkpoint: String)(frame: => DataFrame) extends Job(checkpoint) {

    /** The rows of each attempt, by batch. */
    val batches: mutable.SortedMap[Long, Seq[Seq[Row]]] = mutable.SortedMap.empty

    override protected def begin(): StreamingQuery = frame.writeStream
      .foreachBatch { (df: DataFrame, id: Long) =>
        val rows = df.collect().toSeq
        batches.synchronized(batches(id) = batches.getOrElse(id, Nil) :+ rows)
      }
      .option("checkpointLocation", checkpoint)
      .start()

    /** The sum of copies up to a batch, by the text of the row. */
    def sum(until: Long = Long.MaxValue): Map[String, Long] = batches.synchronized {
      val rows = batches.takeWhile(_._1 <= until).toSeq.flatMap { case (id, attempts) =>
        val texts = attempts.map(_.map(JoinTest.text).sorted)
        assert(texts.distinct.size == 1, s"batch $id gave other rows when it ran again: $texts")
        val sums = attempts.head.groupBy(row => JoinTest.text(Row.fromSeq(row.toSeq.init)))
        assert(sums.forall(_._2.size == 1), s"batch $id has a row twice")
        attempts.head
      }
      rows
        .groupMapReduce(row => JoinTest.text(Row.fromSeq(row.toSeq.init)))(row => row.getLong(row.size - 1))(
          _ + _
        )
        .filter(_._2 != 0)
    }

    /** The version of each input at the end of a batch; none if an input is read in slices. */
    def versions(batch: Long, inputs: Int): Option[Seq[Long]] = {
      val lines = Files.readAllLines(Path.of(checkpoint, "offsets", batch.toString)).asScala.drop(2).toSeq
      assert(lines.size == inputs, lines)
      val seen = lines.map(line => if (line == "-") Snapshot.Nothing else Snapshot.fromJson(line))
      Option.when(seen.forall(_.slices.isEmpty))(seen.map(_.version))
    }
  }
}
