package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.concurrent.atomic.AtomicReference

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.source.SnapshotDiffReader
import org.apache.spark.sql.streamjoin.arrangement.storage.{RowKey, Snapshot}
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementFiles, Item, Model}

/** The rows that the indexes of a process have at each version. */
class IndexRegistrySuite extends AnyFunSuite with IndexTest {

  private val limits = Seq("enough memory" -> Long.MaxValue, "little memory" -> 2000L, "no memory" -> 0L)

  for ((name, limit) <- SparkTest.part(limits, every = 3))
    test(s"versions can be read in any order, by each key, with $name") {
      for (seed <- 0 until seeds) withFiles() { files =>
        val random = new Random(seed)
        val indexes = registry(limit)
        grow(files, random, 10)
        for (step <- 0 until 25) {
          val high = random.nextInt(files.newest.toInt + 1).toLong
          val low = random.nextInt(high.toInt + 1).toLong
          val version = low + random.nextInt((high - low).toInt + 1)
          val index = random.nextInt(2)
          val found = Model.sum((0 until files.partitions).iterator.flatMap { partition =>
            indexes
              .get(files.ref, index, partition, low, files.idOf(high), files.conf, new LoadStats)
              .rowsOf(version)
              .map { case (row, copies) => Item.of(row) -> copies }
          })
          assert(found == files.collections(version.toInt), s"step $step, seed $seed")
          if (random.nextInt(3) == 0) grow(files, random, 1 + random.nextInt(3))
          if (random.nextInt(10) == 0) indexes.clear()
          if (random.nextInt(10) == 0) indexes.sweep(0, 0)
        }
        indexes.clear()
        assert(indexes.bytes == 0, s"seed $seed")
        assert(indexes.size == 0, s"seed $seed")
      }
    }

  for ((name, limit) <- SparkTest.part(limits.take(2), every = 2, from = 1))
    test(s"readers with any number of partitions read files with any other, with $name") {
      for (seed <- 0 until seeds) withFiles() { files =>
        val random = new Random(seed)
        val indexes = registry(limit)
        for (_ <- 0 until 6) {
          files.written = 1 + random.nextInt(8)
          grow(files, random, 1 + random.nextInt(3))
          for (of <- Seq(2, 1 + random.nextInt(8))) {
            val ref = files.refOf(of)
            val low = random.nextInt(files.newest.toInt + 1).toLong
            val index = random.nextInt(2)
            val key = files.rowKey(index)
            val found = Model.sum((0 until of).iterator.flatMap { partition =>
              val high = files.idOf(files.newest)
              val own = indexes.get(ref, index, partition, low, high, files.conf, new LoadStats)
              own.rowsOf(low).map { case (row, copies) =>
                assert(key.partition(row, of) == partition, s"$of partitions, seed $seed")
                Item.of(row) -> copies
              }
            })
            assert(found == files.collections(low.toInt), s"$of partitions, version $low, seed $seed")
            checkChanges(files, ref, low, indexes)
          }
          if (random.nextInt(3) == 0) indexes.clear()
        }
        indexes.clear()
        assert(indexes.bytes == 0, s"seed $seed")
      }
    }

  /** The changes after a version lead to the newest one. */
  private def checkChanges(
      files: ArrangementFiles,
      ref: ArrangementRef,
      low: Long,
      indexes: IndexRegistry
  ): Unit = {
    def snapshot(version: Long) = Snapshot(version, id = Some(files.idOf(version).id))
    val reader = new SnapshotDiffReader(ref, indexes, files.conf)
    val changes = (0 until ref.meta.partitions).flatMap { partition =>
      reader.changes(partition, snapshot(low), snapshot(files.newest)).map { change =>
        Item.of(change.row) -> change.copies.toInt
      }
    }
    assert(Model.plus(files.collections(low.toInt), changes) == files.collections.last)
  }

  test("a partition reads only the blocks that can have its rows, and has only its rows in memory") {
    withFiles() { files =>
      files.written = 4
      files.add((0 until 40).map(at => Item(Some(at), "", 0) -> 1))
      def loaded(of: Int, partition: Int = 0) = {
        val stats = new LoadStats
        registry().get(files.refOf(of), 0, partition, 0, files.idOf(0), files.conf, stats)
        (stats.rows, stats.bytes)
      }
      assert(loaded(1)._1 == 40)
      val (quarter, quarterBytes) = loaded(4)
      assert(quarter < 20)
      assert(loaded(8)._1 + loaded(8, 4)._1 == quarter)
      assert(loaded(8)._2 == quarterBytes, "a part of the same block")
      assert((0 until 3).map(loaded(3, _)._1).sum == 40)
      assert(loaded(3)._2 > quarterBytes)
    }
  }

  test("an executor reads each block once for all partitions of a reader") {
    withFiles() { files =>
      files.written = 4
      files.add((0 until 40).map(at => Item(Some(at), "", 0) -> 1))
      val (indexes, ref) = (registry(), files.refOf(7))
      def rows(partitions: Range) = partitions.map { partition =>
        indexes.get(ref, 0, partition, 0, files.idOf(0), files.conf, new LoadStats).rowsOf(0).size
      }.sum
      def changes() =
        new SnapshotDiffReader(ref, indexes, files.conf)
          .changes(6, Snapshot(0, id = Some(files.idOf(0).id)), Snapshot(1, id = Some(files.idOf(1).id)))
          .size
      val first = rows(0 to 0)
      files.removeChanges(0)
      assert(first + rows(1 to 6) == 40)
      indexes.sweep(0, 0)
      assert(indexes.bytes == 0)
      files.add((40 until 80).map(at => Item(Some(at), "", 0) -> 1))
      val read = changes()
      files.removeChanges(1)
      assert(changes() == read)
    }
  }

  test("an index advances by the changes, and is replaced if it cannot") {
    withFiles() { files =>
      val random = new Random(1)
      grow(files, random, 5, bases = false)
      val indexes = registry()
      def get(low: Long, high: Long) = {
        val stats = new LoadStats
        (indexes.get(files.ref, 0, 0, low, files.idOf(high), files.conf, stats), stats)
      }
      val (first, built) = get(2, 2)
      assert(built.rebuilt)
      assert(get(1, 2)._1.eq(first))
      val (next, advanced) = get(2, 4)
      assert(next.eq(first))
      assert(!advanced.rebuilt)
      assert(first.newest == 4)
      // A base, so that an index of the newest version need not start at the beginning.
      files.add(Nil, base = true)
      indexes.clear()
      val (later, _) = get(5, 5)
      assert(later.oldest == 4)
      val held = later.rowsOf(5).map { case (row, copies) => Item.of(row) -> copies }.toSeq
      val (earlier, rebuilt) = get(2, 3)
      assert(rebuilt.rebuilt)
      assert(earlier.ne(later))
      assert(earlier.covers(2, 5))
      // Tasks that hold the old index keep using it.
      assert(later.oldest == 4)
      assert(later.newest == 5)
      assert(later.rowsOf(5).map { case (row, copies) => Item.of(row) -> copies }.toSeq == held)
      assert(get(5, 5)._1.eq(earlier))
    }
  }

  test("a row that changes in every version is found in the same time after many versions") {
    withFiles() { files =>
      def item(version: Long) = Item(Some(1), "", version)
      val partition = files.rowKey(0).partition(Item.row(item(0)), files.partitions)
      val indexes = registry()
      val entries = (0L until 100L).map { version =>
        files.add(
          (item(version) -> 1) +: Option.when(version > 0)(item(version - 1) -> -1).toSeq,
          since = math.max(0, version - 1)
        )
        val index = get(files, indexes, 0, partition, version)
        (1 to 20).foreach { _ =>
          assert(files.find(index, Some(1), version) == Map(item(version) -> 1L))
        }
        index.entryCount
      }
      assert(entries.max < 50, "each of them would be in the way of all later look-ups")
    }
  }

  test("a version older than what is retained is rejected") {
    withFiles() { files =>
      grow(files, new Random(5), 6)
      files.add(Nil, base = true, since = 4)
      val indexes = registry()
      assert(files.rows(indexes, 6, low = Some(4)) == files.collections(6))
      indexes.clear()
      val error = intercept[Exception](files.rows(indexes, 6, low = Some(3)))
      assert(SparkTest.errorClass(error).contains("STREAMJOIN_ARRANGEMENT_RETENTION"), error)
      assert(files.rows(indexes, 6, low = Some(5)) == files.collections(6))
    }
  }

  test("indexes by different keys of one number are different") {
    withFiles() { files =>
      files.add((0 until 40).map(at => Item(Some(at), s"n${at % 7}", at.toLong) -> 1))
      val indexes = registry()
      // As if a query had failed before its first version, and had then continued with another key.
      for (added <- Seq("name", "value")) {
        val meta = files.meta.copy(keys = files.keys :+ Seq(added), addedKeys = 1)
        val key = RowKey.of(meta, 2)
        val ref = ArrangementRef(files.root.toString, meta)
        val found = (0 until files.partitions).map { partition =>
          val own = indexes.get(ref, 2, partition, 0, files.idOf(0), files.conf, new LoadStats)
          own.rowsOf(0).count { case (row, _) => key.partition(row, files.partitions) == partition }
        }
        assert(found.sum == 40, added)
      }
    }
  }

  test("tasks can read different versions at the same time") {
    for (seed <- 0 until seeds) withFiles() { files =>
      val random = new Random(seed)
      grow(files, random, 20)
      val indexes = registry(if (seed % 2 == 0) Long.MaxValue else 3000L)
      val failure = new AtomicReference[Throwable]
      val tasks = Seq.tabulate(4)(task =>
        new Thread(() =>
          try
            for (version <- (task % 2 * 5) to 19)
              assert(
                files.rows(indexes, version, low = Some(math.max(0, version - 1))) ==
                  files.collections(version),
                s"version $version, seed $seed"
              )
          catch { case error: Throwable => failure.set(error) }
        )
      )
      tasks.foreach(_.start())
      tasks.foreach(_.join())
      Option(failure.get).foreach(error => fail(s"seed $seed", error))
      indexes.clear()
      assert(indexes.bytes == 0, s"seed $seed")
    }
  }
}
