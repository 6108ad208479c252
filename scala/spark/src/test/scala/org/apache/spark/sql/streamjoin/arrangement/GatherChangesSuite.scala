package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path}
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.CoalescedPartitionSpec
import org.apache.spark.sql.streamjoin.arrangement.maintain.GatherChangesExec
import org.apache.spark.sql.streamjoin.arrangement.storage.Manifest
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}

/** Arrangements with more partitions than each of their tasks may write blocks for. */
class GatherChangesSuite extends AnyFunSuite with ArrangementTest {
  private val partitions = 40

  private def many[T](body: => T): T = withConf("spark.streamjoin.partitions" -> partitions.toString)(body)

  private def blocks(manifest: Manifest) = manifest.changes.flatMap(_.blocks)

  testLong("a changelog with two keys is right through restarts and replays, in few files and blocks") {
    many {
      val it = maintainer(
        "id INT, owner INT, at LONG, op STRING",
        Seq(Seq("id"), Seq("owner")),
        op = Some("op"),
        time = Some("at")
      )
      val owners = maintainer("owner INT, name STRING, op STRING", Seq(Seq("owner")), op = Some("op"))
      val joined = deltaJoin(Seq("a" -> it, "o" -> owners), "a.owner = o.owner", Seq("a.id", "o.name"))
      val random = new Random(3)
      var rows = Map.empty[Int, Int]
      during(it, owners) {
        owners.feed((0 until 20).map(owner => Row(owner, s"n$owner", "i")): _*)
        for (batch <- 0 until (if (SparkTest.isLong) 6 else 4)) {
          val changes = random.shuffle((0 until 200).toList).take(60).map { id =>
            if (random.nextInt(4) == 0) {
              rows -= id
              Row(id, null, batch.toLong, "d")
            } else {
              val owner = random.nextInt(20)
              rows += id -> owner
              Row(id, owner, batch.toLong, "u")
            }
          }
          it.feed(changes: _*)
          assert(rowsOf(it.root).map(_.split(' ')(0).toInt).sorted == rows.keys.toSeq.sorted, s"batch $batch")
          val manifest = it.folder.manifest(it.folder.newest)
          assert(manifest.changes.size <= 2, "partitions with changes, up to 32 in a file")
          // Of two keys, and the deletions.
          val ofKeys = blocks(manifest).groupBy(_.index).view.mapValues(_.size)
          assert(ofKeys.forall(_._2 <= partitions), ofKeys.toMap)
          assert(blocks(manifest).forall(block => block.partition < partitions))
          if (batch % 2 == 1) {
            it.replay()
            forgetIndexes()
            assert(rowsOf(it.root).map(_.split(' ')(0).toInt).sorted == rows.keys.toSeq.sorted)
          }
          // By the second key, and an older change that does not count.
          if (batch == 3) it.feed(Row(rows.head._1, 99, -1L, "u")) else it.feed(Row(1000, 1, 0L, "d"))
        }
        during(joined)(joined.settle())
        val expected = rows.map { case (id, owner) => s"$id n$owner" -> 1L }
        assert(joined.sum() == expected)
      }
    }
  }

  testLong("a base, and updates") {
    many {
      val it = maintainer("text STRING, n INT", Seq(Seq("text")), diff = Some("n"))
      val random = new Random(4)
      def text() = new String(Array.fill(1 << 10)((32 + random.nextInt(90)).toChar))
      during(it) {
        val texts = Seq.fill(3000)(text())
        it.feed(texts.map(Row(_, 1)): _*)
        it.feed(texts.take(1000).map(Row(_, -1)): _*)
        it.feed(Row("x", 2))
        assert(it.folder.manifest(2).bases.nonEmpty, "no base was written")
        forgetIndexes()
        assert(rowsOf(it.root).size == 2002)
        it.replay()
        assert(rowsOf(it.root).size == 2002)
      }
    }
  }

  /** The number of tasks that are run for something. */
  private def tasksOf(body: => Unit): Int = {
    val context = spark.sparkContext
    val ended = new AtomicInteger
    val listener = new SparkListener {
      override def onTaskEnd(task: SparkListenerTaskEnd): Unit = ended.incrementAndGet(): Unit
    }
    context.listenerBus.waitUntilEmpty()
    context.addSparkListener(listener)
    body
    context.listenerBus.waitUntilEmpty()
    context.removeSparkListener(listener)
    ended.get
  }

  testLong("a partition without rows costs no task, and counts what it did before") {
    withConf("spark.streamjoin.partitions" -> "500") {
      val it = maintainer("id INT, owner INT, n INT", Seq(Seq("id"), Seq("owner")), diff = Some("n"))
      def row(id: Int, copies: Int) = Row(id, id % 3, copies)
      def negative = it.folder.manifest(it.folder.newest).counts(Manifest.NegativeRows)
      def feed(rows: Row*): Unit = {
        val tasks = tasksOf(it.feed(rows: _*))
        assert(tasks <= 12, "for the rows, the partitions that have some, and the files")
      }
      during(it) {
        feed((0 until 10).map(row(_, -1)): _*)
        assert(negative == 0, "as of the version before")
        feed(row(100, 1))
        assert(negative == 10)
        feed(row(0, 2), row(1, 1))
        it.restart()
        feed(row(101, 1))
        assert(negative == 8)
        it.replay()
        assert(negative == 8)
        feed(row(102, 1))
        assert(negative == 8)
        assert(rowsOf(it.root).map(_.split(' ')(0).toInt).sorted == Seq(0, 100, 101, 102))
      }
    }
  }

  test("a batch without rows has all counts") {
    val it = maintainer("id INT, op STRING", Seq(Seq("id")), op = Some("op"))
    during(it) {
      it.feed()
      it.feed(Row(1, "i"))
      for (version <- 0L to it.folder.newest)
        assert(
          it.folder.manifest(version).counts.keySet == it.folder.manifest(it.folder.newest).counts.keySet
        )
      assert(it.folder.manifest(it.folder.newest).counts(Manifest.Rows) == 1)
    }
  }

  test("rows with negative copies that were not counted by partition are counted anew") {
    many {
      val it = maintainer("id INT, n INT", Seq(Seq("id")), diff = Some("n"))
      during(it) {
        it.feed((0 until 10).map(Row(_, -1)): _*)
        it.feed(Row(100, 1))
      }
      // As earlier releases wrote it.
      val newest = it.folder.newest
      val file = Path.of(it.root, "versions", newest.toString)
      val text = Files.readString(file)
      val before = text.replaceFirst(",?\"negative\":\\[\\[.*?\\]\\]", "")
      assert(before.length < text.length)
      SparkTest.overwrite(file, before)
      assert(it.folder.manifest(newest).counts(Manifest.NegativeRows) == 10)
      assert(it.folder.manifest(newest).negativeRows.isEmpty)
      during(it) {
        it.feed(Row(0, 1))
        it.feed(Row(101, 1))
      }
      assert(it.folder.manifest(newest + 2).counts(Manifest.NegativeRows) == 9)
    }
  }

  test("an error of a task is the query's") {
    many {
      val it = maintainer("id INT, op STRING", Seq(Seq("id")), op = Some("op"))
      val said = rejected("STREAMJOIN_OPERATION")(during(it)(it.feed(Row(1, "upsert"))))
      assert(said.contains("upsert"))
    }
  }

  test("tasks have neighbouring partitions, at most 32 and by their size") {
    def tasks(bytes: Long*) = GatherChangesExec.tasks(bytes.toArray).toSeq.map {
      case CoalescedPartitionSpec(from, until, _) => from until until
      case other => fail(other.toString)
    }
    assert(tasks(Seq.fill(100)(1L): _*).map(_.size) == Seq(32, 32, 32, 4))
    // Those without changes do not count.
    assert(tasks(Seq.tabulate(1000)(at => if (at % 100 == 50) 1L else 0L): _*) == Seq(50 until 951))
    val megabytes = Seq(10L, 10L, 15L, 1L, 40L, 0L, 5L).map(_ << 20)
    assert(tasks(megabytes: _*) == Seq(0 until 3, 3 until 5, 6 until 7))
    assert(tasks().isEmpty)
  }
}
