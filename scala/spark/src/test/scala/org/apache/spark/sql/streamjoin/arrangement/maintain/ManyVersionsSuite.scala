package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.nio.file.{Files, Path => NioPath}
import java.util.UUID

import scala.util.{Random, Using}

import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.index.{ArrangementRef, IndexRegistry, LoadStats}
import org.apache.spark.sql.streamjoin.arrangement.storage._
import org.apache.spark.sql.streamjoin.arrangement.{Item, Model}
import org.apache.spark.sql.streamjoin.state.ExecutorMemory

/**
 * An arrangement whose versions are small, without Spark's batches: hundreds of versions in `make
 * test`, 3,000 in `make test-long`, or as many as `STREAMJOIN_VERSIONS` says. Readers come and go,
 * and some of them die. What a version costs, and what is kept, depends on what can be read and not
 * on the past.
 */
class ManyVersionsSuite extends AnyFunSuite with OverwritingStore {
  private val versions =
    sys.env.get("STREAMJOIN_VERSIONS").fold(if (SparkTest.isLong) 3000 else 300)(_.toInt)
  private val items = 50

  test("files, manifests and calls of a version do not grow with the versions before it") {
    onStore {
      val table = new Table(ArrangementFolder.root(newFolder("store")))
      val stretches = (0 until 10).map(_ => table.run(versions / 10))
      info("files, bytes of manifests, calls a version, ms a version:")
      stretches.foreach(s =>
        info(f"${s.files}%6d ${s.manifestBytes}%9d ${s.callsOfBatch}%6.1f ${s.millis}%6.2f")
      )
      val (early, late) = (stretches.slice(2, 5), stretches.takeRight(3))
      def grows(what: Stretch => Double, factor: Double) =
        late.map(what).max > factor * early.map(what).max
      assert(!grows(_.files.toDouble, 1.5), stretches)
      assert(!grows(_.manifestBytes.toDouble, 1.5), stretches)
      assert(!grows(_.callsOfBatch, 1.1), stretches)
      assert(table.at(table.newest) == table.rows, "the table")
    }
  }

  testLong("a reader that stands still keeps the changes after it, and no more than three bases") {
    onStore {
      val table = new Table(ArrangementFolder.root(newFolder("store")))
      table.run(20)
      table.stuck()
      val seen = (0 until 5).map { _ =>
        table.run(52)
        assert(table.bases <= 3, "bases")
        table.newest -> table.rows
      }
      assert(table.newest - table.since > 250, "the reader keeps its version")
      seen.foreach { case (version, rows) => assert(table.at(version) == rows, s"version $version") }
    }
  }

  /** An arrangement of one partition, in which each version replaces a row or two. */
  final private class Table(root: Path) {
    private val folder = ArrangementFolder.open(root)
    private val meta =
      ArrangementMeta(UUID.randomUUID(), Item.Schema, Seq(Seq("key")), 1, InputKind.Updates, None)
    folder.create(meta)

    private val (query, runId) = (UUID.randomUUID(), UUID.randomUUID())
    private val run = new MaintainingRun
    private val write = new ArrangementWrite(root, query, run)
    run.begin(folder, meta)
    private val leases = new LeaseFiles(folder)
    private val random = new Random(5)
    private val conf = SparkSession.active.sessionState.newHadoopConf()

    private var version = 0L
    var rows: Model.Collection = Map.empty

    private def batch(): Unit = {
      run.claim(folder, Claim(query, runId))
      val key = random.nextInt(items)
      val old = rows.keys.filter(_.key.contains(key)).toSeq
      val change = old.map(_ -> -1) :+ (Item(Some(key), "x" * random.nextInt(20), version) -> 1)
      val changes = file(ArrangementFolder.Changes, change)
      val isBase = version > 0 && Base.isNeeded(folder.manifest(version - 1))
      val base =
        if (isBase)
          file(ArrangementFolder.Bases, rows.toSeq.map { case (item, copies) => item -> copies.toInt })
        else None
      write.commit(
        version,
        Array(OutputMessage(Seq(TaskOutput(changes, base, isBase, Map(Manifest.Rows -> 0L)))))
      )
      rows = Model.plus(rows, change)
      version += 1
    }

    private def file(kind: String, rows: Seq[(Item, Int)]): Option[BlockFile] = {
      val writer = new BlockFileWriter(root, s"$kind/$version", 0, runId, conf)
      rows.foreach { case (item, copies) => writer.add(0, 0, Item.row(item), copies) }
      writer.commit()
    }

    def run(number: Int): Stretch = {
      var calls = 0L
      val begun = System.nanoTime()
      val dies = version
      (0 until number).foreach { at =>
        OverwritingFileSystem.before = () => calls += 1
        try batch()
        finally OverwritingFileSystem.before = () => ()
        // One reader follows, others come for a while, and one comes once.
        if (at % 10 == 0) leases.renew("steady", version - 1)
        if (at % 10 == 5 && at < number / 2) leases.renew(s"visitor-${version / number}", version - 1)
        if (at == number / 2) leases.release(s"visitor-${version / number}")
        if (at == 0) leases.renew(s"dead-$version", version - 1)
        // Seven days later.
        if (at == number / 4) age(s"dead-${dies + 1}")
      }
      val millis = (System.nanoTime() - begun) / 1e6 / number
      val files =
        Using.resource(Files.walk(NioPath.of(root.toUri.getPath)))(_.filter(Files.isRegularFile(_)).count())
      val manifests = Using.resource(Files.list(NioPath.of(root.toUri.getPath, Manifest.Directory))) {
        _.mapToLong(Files.size(_)).sum()
      }
      Stretch(files, manifests, calls.toDouble / number, millis)
    }

    private def age(reader: String): Unit = {
      val own = new Path(new Path(root, ArrangementFolder.Readers), reader)
      folder.fs.listStatus(own).foreach(file => folder.fs.setTimes(file.getPath, 1000L, -1))
    }

    def newest: Long = version - 1
    def since: Long = folder.manifest(newest).since
    def bases: Int = folder.baseNumbers.size

    /** A reader begins, and does not come back. */
    def stuck(): Unit = leases.renew("stuck", newest)

    /** A version, as a new reader finds it. */
    def at(wanted: Long): Model.Collection = {
      val registry = new IndexRegistry(ExecutorMemory.Limit(new ExecutorMemory, Long.MaxValue))
      val index =
        registry.get(
          ArrangementRef(root.toString, meta),
          0,
          0,
          wanted,
          folder.manifest(wanted).versionId,
          conf,
          new LoadStats
        )
      Model.sum(index.rowsOf(wanted).map { case (row, copies) => Item.of(row) -> copies })
    }
  }
}

/** Figures of a stretch of versions. */
final private case class Stretch(files: Long, manifestBytes: Long, callsOfBatch: Double, millis: Double)
