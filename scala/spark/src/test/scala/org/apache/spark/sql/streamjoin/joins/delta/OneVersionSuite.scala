package org.apache.spark.sql.streamjoin.joins.delta

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.connector.read.streaming.ReadLimit
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.source.{ArrangementOptions, ArrangementStream, RunVersions}
import org.apache.spark.sql.streamjoin.arrangement.storage.Snapshot
import org.apache.spark.sql.streamjoin.joins.table.TableTest
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{DataFrame, Row}

/** A batch sees one version of an arrangement, however often its query reads it. */
class OneVersionSuite extends AnyFunSuite with TableTest {
  import ArrangementTest._

  private def stock(): Maintainer = maintainer(
    "id INT, place INT, n INT, op STRING",
    Seq(Seq("id"), Seq("place")),
    op = Some("op")
  )

  /** Goods move between ten places, each time from one to another: the total does not change. */
  private class Moves(chance: scala.util.Random) {
    private val n = Array.fill(10)(100)
    private def row(id: Int, op: String) = Row(id, 1, n(id), op)
    def first: Seq[Row] = n.indices.map(row(_, "c"))
    def next(): Seq[Row] = {
      val from = chance.nextInt(10)
      val to = (from + 1 + chance.nextInt(9)) % 10
      val moved = 1 + chance.nextInt(5)
      n(from) -= moved
      n(to) += moved
      Seq(row(from, "u"), row(to, "u"))
    }
  }

  private val On = "a.place = b.place AND a.id <= b.id"
  private val Select = Seq("a.id", "a.n", "b.id", "b.n")

  /** The expected join at a version. */
  private def joined(it: Maintainer, version: Long): Map[String, Long] = {
    val rows = spark.read.format("streamjoin").option("version", version).load(it.root).collect()
    val pairs = for {
      a <- rows
      b <- rows
      if a.getInt(1) == b.getInt(1) && a.getInt(0) <= b.getInt(0)
    } yield s"${a.getInt(0)} ${a.getInt(2)} ${b.getInt(0)} ${b.getInt(2)}"
    pairs.groupMapReduce(identity)(_ => 1L)(_ + _)
  }

  testLong("a self-join of an arrangement sees whole versions while the arrangement is written") {
    val it = stock()
    val moves = new Moves(new scala.util.Random(7))
    val self = deltaJoin(Seq("a" -> it, "b" -> it), On, Select)
    during(it) {
      it.feed(moves.first: _*)
      during(self) {
        val writer = new Thread(() => (1 to 25).foreach(_ => it.feed(moves.next(): _*)))
        writer.start()
        Thread.sleep(1000)
        self.stop()
        self.start()
        writer.join()
        self.settle()
        assert(it.folder.newest == 25)
        val seen = self.batches.keys.toSeq.map { batch =>
          val Some(Seq(ofA, ofB)) = self.versions(batch, 2): @unchecked
          assert(ofA == ofB, s"batch $batch")
          assert(self.sum(batch) == joined(it, ofA), s"batch $batch, version $ofA")
          ofA
        }
        assert(seen.size > 2, seen)
        assert(seen.last == 25, seen)
      }
    }
  }

  // The streams of one run, polled without Spark.

  private def options(it: Maintainer, more: (String, String)*) = {
    val all = (("path" -> it.root) +: more).toMap
    ArrangementOptions(new CaseInsensitiveStringMap(scala.jdk.javaapi.CollectionConverters.asJava(all)))
  }

  /** A run with a stream for each of these options. */
  private class Run(it: Maintainer, starts: Seq[Snapshot], options: ArrangementOptions*) {
    private val ref = ArrangementRef(it.root, it.folder.meta)
    private val versions = new RunVersions(ref, it.folder)
    private val seen = scala.collection.mutable.Map.empty[ArrangementStream, Snapshot]
    val streams: Seq[ArrangementStream] = options.map { each =>
      new ArrangementStream(ref, each, newFolder(), () => null, seen(_))(_ => versions)
    }
    streams.zip(starts).foreach { case (stream, start) => seen(stream) = start }

    /** The end offset of each stream, polled in Spark's order; `between` runs after each. */
    def batch(between: => Unit = ()): Seq[Snapshot] = {
      val next = streams.map { stream =>
        val offset = stream.latestOffset(seen(stream), ReadLimit.allAvailable())
        between
        stream -> Option(offset).fold(Snapshot.Nothing)(Snapshot.of(_))
      }
      next.foreach { case (stream, offset) => seen(stream) = offset }
      next.map(_._2)
    }

    def versionsOf(between: => Unit = ()): Seq[Long] = batch(between).map(_.version)
  }

  private def at(it: Maintainer, version: Long) = Snapshot(version, None, Some(it.folder.meta.id))

  private def grown(versions: Int)(body: Maintainer => Unit): Unit = {
    val it = stock()
    val moves = new Moves(new scala.util.Random(1))
    during(it) {
      it.feed(moves.first: _*)
      (1 until versions).foreach(_ => it.feed(moves.next(): _*))
      body(it)
    }
  }

  test("a version that arrives while the streams are polled waits for the next batch") {
    grown(2) { it =>
      val moves = new Moves(new scala.util.Random(2))
      val run = new Run(it, Seq.fill(3)(Snapshot.Nothing), Seq.fill(3)(options(it)): _*)
      assert(run.versionsOf(it.feed(moves.next(): _*)) == Seq(1, 1, 1))
      assert(run.versionsOf(it.feed(moves.next(): _*)) == Seq(4, 4, 4))
      assert(run.versionsOf() == Seq(7, 7, 7))
      assert(run.versionsOf() == Seq(7, 7, 7), "there is no new version")
    }
  }

  test("streams wait for the one with the lowest limit, and for one that reads in slices") {
    grown(6) { it =>
      val limited = options(it, "maxVersionsPerTrigger" -> "2")
      val run = new Run(it, Seq(at(it, 1), at(it, 1)), options(it), limited)
      assert(Seq.fill(3)(run.versionsOf()) == Seq(Seq(3, 3), Seq(5, 5), Seq(5, 5)))
      val sliced = options(it, "maxRowsPerTrigger" -> "4")
      val moves = new Moves(new scala.util.Random(2))
      val begun = new Run(it, Seq.fill(2)(Snapshot.Nothing), options(it), sliced)
      val batches = Seq.fill(4)(begun.batch(it.feed(moves.next(): _*)))
      assert(batches.map(_.map(_.version)) == Seq(Seq(5, 5), Seq(5, 5), Seq(5, 5), Seq(11, 11)))
      assert(batches.map(_(1).slices) == Seq(Some((1, 3)), Some((2, 3)), None, None))
    }
  }

  testLong("streams wait for one that is behind until it has caught up") {
    grown(9) { it =>
      val two = options(it, "maxVersionsPerTrigger" -> "2")
      val run = new Run(it, Seq(at(it, 1), at(it, 4)), two, two)
      assert(Seq.fill(4)(run.versionsOf()) == Seq(Seq(3, 4), Seq(5, 5), Seq(7, 7), Seq(8, 8)))
      val all = new Run(it, Seq(at(it, 6), at(it, 2)), options(it), options(it))
      assert(all.versionsOf() == Seq(8, 8))
      val begins = new Run(it, Seq(at(it, 3), Snapshot.Nothing), two, options(it))
      assert(Seq.fill(3)(begins.versionsOf()) == Seq(Seq(5, 5), Seq(7, 7), Seq(8, 8)))
    }
  }

  test("an availableNow run ends at the same version for all streams") {
    grown(3) { it =>
      val moves = new Moves(new scala.util.Random(2))
      val run = new Run(it, Seq.fill(2)(Snapshot.Nothing), options(it), options(it))
      run.streams.foreach { stream =>
        stream.prepareForTriggerAvailableNow()
        it.feed(moves.next(): _*)
      }
      assert(Seq.fill(2)(run.versionsOf()) == Seq(Seq(2, 2), Seq(2, 2)))
    }
  }

  test("a run that resumes from a checkpoint with two versions gets to one") {
    val it = stock()
    val moves = new Moves(new scala.util.Random(3))
    val self = deltaJoin(Seq("a" -> it, "b" -> it), On, Select)
    during(it) {
      it.feed(moves.first: _*)
      during(self) {
        self.settle()
        self.stop()
        // Offsets of an older build, which polled each stream separately: a has read what is new, b
        // has not.
        (1 to 2).foreach(_ => it.feed(moves.next(): _*))
        val offsets = java.nio.file.Path.of(self.checkpoint, "offsets")
        val lines = java.nio.file.Files.readAllLines(offsets.resolve("0"))
        assert(lines.get(2) == lines.get(3))
        lines.set(2, at(it, 2).json)
        java.nio.file.Files.write(offsets.resolve("1"), lines)
        self.start()
        self.settle()
        assert(self.versions(1, 2).contains(Seq(2, 0)))
        assert(self.versions(2, 2).contains(Seq(2, 2)))
        assert(self.sum(2) == joined(it, 2))
      }
    }
  }

  test("a look-up sees the same version of a table as the query's streams of it") {
    val it = maintainer("id INT, n INT", Seq(Seq("id")))
    def query(options: Map[String, String]): DataFrame = {
      val changes = spark.readStream.format("streamjoin").options(options).load(it.root)
      val rows = table(it.root).select(col("id").as("key"), col("n").as("there"))
      changes.join(rows, col("id") === col("key")).select(col("_version"), col("there"))
    }
    val reader = new Reader(newFolder())(
      query(Map("maxVersionsPerTrigger" -> "1")).selectExpr("_version", "there", "1L AS copies")
    )
    during(it) {
      it.feed(Row(1, 0))
      during(reader) {
        reader.settle()
        reader.stop()
        (1 to 3).foreach(n => it.feed(Row(1, n)))
        reader.start()
        reader.settle()
        // Not 3 for all: each version's row matches the rows of that version.
        assert(reader.sum() == (for (version <- 0 to 3; n <- 0 to version) yield s"$version $n" -> 1L).toMap)
      }
    }
  }
}
