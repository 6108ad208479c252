package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.scheduler.{SparkListener, SparkListenerJobStart}
import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming.{DataStreamWriter, StreamingQuery, Trigger}
import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, BaseRef, Manifest}
import org.apache.spark.sql.types.StructType

/** Bases that are written alongside the batches of the query, and those that its batches write. */
class BaseInBackgroundSuite extends AnyFunSuite with ArrangementTest {
  private val random = new Random(7)

  /** Enough bytes for a base. */
  private def large(from: Int, rows: Int = 60): Seq[Row] =
    Seq.tabulate(rows)(i => Row(from + i, ArrangementTest.randomText(random, 30000), "i"))

  private def rows(root: String) = maintainer(
    "id INT, name STRING, op STRING",
    Seq(Seq("id"), Seq("name")),
    op = Some("op"),
    root = root
  )

  private val schema = StructType.fromDDL("id INT, name STRING, op STRING")

  private def add(folder: String, rows: Seq[Row]): Unit =
    spark.createDataFrame(rows.asJava, schema).coalesce(1).write.mode("append").parquet(folder)

  private def ofFiles(root: String, folder: String): DataStreamWriter[Row] = Arrangements
    .arrange(
      spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder),
      root,
      Seq(Seq("id")),
      Some("op"),
      None,
      None
    )
    .writeStream
    .format("streamjoin")
    .option("path", root)

  private def ids(root: String, version: Option[Long] = None) =
    rowsOf(root, version).map(_.takeWhile(_ != ' ').toInt).sorted

  test("the next version names a base that has been written beside the batches, with all that came before") {
    val it = rows(newFolder("a"))
    val counter = new TasksOfBases
    spark.sparkContext.addSparkListener(counter)
    try
      during(it) {
        it.feed(large(0): _*)
        it.feed(Row(1000, "x", "i"))
        val manifest = it.folder.manifest(1)
        assert(manifest.bases == Seq(BaseRef(0, 1)))
        assert(manifest.baseFiles.nonEmpty)
        assert(manifest.counts(Manifest.ChangeBytes) == manifest.changes.map(_.bytes).sum, "since the base")
        // Two indexes, and each has all rows of version 0.
        assert(manifest.baseFiles.flatMap(_.blocks).map(_.rows).sum == 2 * 60)
        for (version <- 0 to 1) {
          forgetIndexes()
          assert(ids(it.root, Some(version.toLong)) == (0 until 60) ++ Seq.fill(version)(1000))
        }
        spark.sparkContext.listenerBus.waitUntilEmpty()
        assert(counter.most == 1, "of two cores, one is left to the batches")
      }
    finally spark.sparkContext.removeSparkListener(counter)
  }

  test("a base whose tasks fail is begun again, and the query goes on") {
    val it = rows(newFolder("a"))
    during(it) {
      it.feed(large(0): _*)
      it.feed(Row(1000, "x", "i"))
      // There is no room for the next base: a file has the name of its folder.
      val inTheWay = Path.of(it.root, "bases", BaseRef.folder(2).toString)
      Files.createFile(inTheWay)
      it.feed(large(100, rows = 40): _*)
      Files.delete(inTheWay)
      it.feed(Row(1001, "x", "i"))
      assert(it.folder.manifest(3).bases == Seq(BaseRef(0, 1)), "that of version 2 has failed")
      it.feed(Row(1002, "x", "i"))
      assert(it.folder.manifest(4).bases == Seq(BaseRef(0, 1), BaseRef(3, 4)))
      forgetIndexes()
      assert(ids(it.root) == (0 until 60) ++ (100 until 140) ++ (1000 to 1002))
    }
  }

  test("a base is written while the arrangement is restored to the version that the query has written") {
    val it = rows(newFolder("a"))
    val saved = newFolder("saved")
    during(it) {
      it.feed(large(0): _*)
      val files = Path.of(it.root, "bases", BaseRef.folder(0).toString)
      assert(ArrangementTest.files(files.toString).nonEmpty, "no version names it yet")
      FileUtils.copyDirectory(Path.of(it.root).toFile, Path.of(saved).toFile)
      // The copy was made before the base was there.
      FileUtils.deleteDirectory(Path.of(saved, "bases").toFile)
      restore(it.root, saved)
      it.feed(Row(1000, "x", "i"))
      assert(it.folder.manifest(1).bases.isEmpty)
      it.feed(Row(1001, "x", "i"))
      assert(it.folder.manifest(2).bases == Seq(BaseRef(1, 2)))
      forgetIndexes()
      assert(ids(it.root) == (0 until 60) ++ (1000 to 1001))
    }
  }

  test(
    "a base is written while the arrangement, and then its checkpoint, is restored to an earlier version"
  ) {
    val (root, folder, checkpoint) = (newFolder("a"), newFolder("input"), newFolder("checkpoint"))
    val saved = Seq(root, checkpoint).map(_ -> newFolder("saved"))
    def started() = ofFiles(root, folder).option("checkpointLocation", checkpoint).start()
    def running(body: StreamingQuery => Unit): Unit = {
      val query = started()
      try body(query)
      finally query.stop()
    }
    running { query =>
      add(folder, Seq(Row(1, "x", "i")))
      query.processAllAvailable()
    }
    saved.foreach { case (from, to) => FileUtils.copyDirectory(Path.of(from).toFile, Path.of(to).toFile) }
    running { query =>
      // Its base is being written.
      add(folder, large(100))
      query.processAllAvailable()
      restore(root, saved.head._2)
      add(folder, Seq(Row(2, "x", "i")))
      rejected("STREAMJOIN_ARRANGEMENT_RESTORED.ARRANGEMENT")(query.processAllAvailable())
    }
    def arrangement = ArrangementFolder.open(ArrangementFolder.root(root))
    assert(arrangement.newest == 0)
    saved.foreach { case (to, from) => restore(to, from) }
    (3 to 4).foreach { id =>
      add(folder, Seq(Row(id, "y", "i")))
      running(_.processAllAvailable())
    }
    val named = (0L to arrangement.newest).flatMap(arrangement.manifest(_).baseFiles).map(_.path).toSet
    val there = ArrangementTest.files(root).map(file => Path.of(root).relativize(file).toString)
    assert(there.filter(_.startsWith("bases")).toSet.subsetOf(named))
    forgetIndexes()
    assert(ids(root) == (1 to 4) ++ (100 until 160))
  }

  private def restore(folder: String, from: String): Unit = {
    // A base that is being written makes its folder again.
    while (!FileUtils.deleteQuietly(Path.of(folder).toFile) && Path.of(folder).toFile.exists()) {}
    FileUtils.copyDirectory(Path.of(from).toFile, Path.of(folder).toFile)
  }

  test("a query that ends by itself writes bases in its batches") {
    val root = newFolder("a")
    val folder = newFolder("input")
    val checkpoint = newFolder("checkpoint")
    def run(rows: Seq[Row]): Unit = {
      add(folder, rows)
      ofFiles(root, folder)
        .option("checkpointLocation", checkpoint)
        .trigger(Trigger.AvailableNow())
        .start()
        .awaitTermination()
    }
    def bases = {
      val arrangement = ArrangementFolder.open(ArrangementFolder.root(root))
      arrangement.manifest(arrangement.newest).bases
    }
    run(large(0))
    run(large(100))
    assert(bases == Seq(BaseRef(0, 1)))
    assert(ids(root) == (0 until 60) ++ (100 until 160))
    def runWithOne(id: Int): Unit = run(Seq(Row(id, "x", "i")))
    runWithOne(1000)
    runWithOne(1001)
    assert(bases.last == BaseRef(1, 2))
    // The files of a new number of partitions begin with a base.
    withConf("spark.streamjoin.partitions" -> "5")(runWithOne(1002))
    assert(bases.last == BaseRef(3, 4))
    runWithOne(1003)
    assert(bases.last == BaseRef(3, 4))
    forgetIndexes()
    assert(ids(root) == (0 until 60) ++ (100 until 160) ++ (1000 to 1003))
  }

  /** How many tasks of bases run at once. */
  private class TasksOfBases extends SparkListener {
    @volatile var most = 0
    override def onJobStart(job: SparkListenerJobStart): Unit =
      if (Option(job.properties.getProperty("spark.job.description")).exists(_.startsWith("base of")))
        most = math.max(most, job.stageInfos.map(_.numTasks).sum)
  }
}
