package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.Path

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.arrangement.storage.{BlockFile, VersionLog}
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}

import streamjoin.StreamJoin

/** A changelog with a time is applied in the order of that time, however it is cut into batches. */
class ChangelogOrderSuite extends AnyFunSuite with ArrangementTest {
  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  private def prices(root: String = newFolder("arrangement")) = maintainer(
    "id INT, price INT, at LONG, op STRING",
    Seq(Seq("id"), Seq("price")),
    op = Some("op"),
    time = Some("at"),
    root = root
  )

  private def count(it: ArrangementTest.Maintainer, name: String): Long =
    it.folder.manifest(it.folder.newest).counts.getOrElse(name, 0L)

  test("an older update in a later batch does not overwrite a newer row") {
    val it = prices()
    during(it) {
      it.feed(Row(1, 10, 100L, "insert"))
      it.feed(Row(1, 9, 90L, "update"), Row(2, 5, 100L, "insert"))
      assert(rowsOf(it.root) == Seq("1 10 100", "2 5 100"))
      assert(count(it, "olderChanges") == 1)
      it.feed(Row(1, 8, 80L, "delete"), Row(1, 11, 110L, "update"), Row(2, 5, null, "update"))
      assert(rowsOf(it.root) == Seq("1 11 110", "2 5 100"), "an older delete is ignored, a null is lowest")
      assert(count(it, "olderChanges") == 3)
      it.feed(Row(1, 12, 110L, "update"))
      assert(rowsOf(it.root) == Seq("1 12 110", "2 5 100"), "at the same time, the later batch wins")
    }
  }

  testLong("older changes are kept as late rows") {
    withConf("spark.streamjoin.lateRows" -> "keep") {
      val it = prices()
      during(it) {
        it.feed(Row(1, 10, 100L, "insert"))
        it.feed(Row(1, 9, 90L, "update"))
        val kept = StreamJoin.lateRows(it.running)
        val rows = kept.select("column", "row").collect().map(row => row.getString(0) -> row.getString(1))
        assert(rows.toSeq == Seq("at" -> """{"id":1,"price":9,"at":90,"op":"update"}"""))
        it.replay()
        assert(kept.count() == 1, "a replayed batch keeps it once")
        it.feed(Row(1, 11, 110L, "update"), Row(1, 10, 105L, "update"))
        assert(kept.count() == 1, "within a batch the last change wins, and none is late")
      }
    }
  }

  test("a deletion keeps its time across restarts and replays, even if it deleted nothing") {
    val it = prices()
    during(it) {
      it.feed(Row(1, 10, 100L, "insert"))
      it.feed(Row(1, 10, 120L, "delete"), Row(7, null, 120L, "delete"))
      it.stop()
      forgetIndexes()
      it.start()
      it.feed(Row(1, 11, 110L, "update"), Row(7, 1, 119L, "insert"))
      assert(rowsOf(it.root).isEmpty)
      it.replay()
      assert(rowsOf(it.root).isEmpty)
      assert(count(it, "olderChanges") == 2)
      it.feed(Row(1, 13, 130L, "insert"), Row(7, 2, 120L, "insert"))
      it.feed(Row(1, 11, 125L, "update"))
      assert(rowsOf(it.root) == Seq("1 13 130", "7 2 120"))
      assert(it.folder.manifest(it.folder.newest).counts("rows") == 2)
    }
  }

  private def texts() = maintainer(
    "_deleted INT, text STRING, at LONG, op STRING",
    Seq(Seq("_deleted"), Seq("text")),
    op = Some("op"),
    time = Some("at")
  )

  private val chance = new scala.util.Random(1)

  /** Enough rows for the next batch to write a base. */
  private def much(from: Int): Seq[Row] = (from until from + 3000).map { id =>
    Row(id, new String(Array.fill(1 << 10)((32 + chance.nextInt(90)).toChar)), 100L, "insert")
  }

  /** The number of deletion entries in the changes of the newest version, and in its base. */
  private def deletions(it: ArrangementTest.Maintainer): (Int, Int) = {
    val manifest = it.folder.manifest(it.folder.newest)
    def in(files: Seq[BlockFile]) = files.flatMap(_.blocks).filter(_.index == 2).map(_.rows).sum
    (in(manifest.changes), in(manifest.baseFiles))
  }

  test("a base includes deletions, and a column may be named _deleted") {
    val it = texts()
    during(it) {
      it.feed(Row(1, "a", 100L, "insert"), Row(2, "a", 100L, "insert"))
      it.feed(Row(1, null, 120L, "delete"))
      assert(deletions(it) == (1, 0))
      it.feed(much(10): _*)
      it.feed(Row(3, "b", 100L, "insert"))
      assert(deletions(it) == (0, 1), "the base has the deletion")
      it.stop()
      forgetIndexes()
      it.start()
      it.feed(Row(1, "late", 110L, "insert"), Row(2, "on time", 101L, "update"))
      assert(rowsOf(it.root).filter(_.head < '3').filter(_(1) == ' ') == Seq("2 on time 101"))
    }
  }

  testLong("expired deletions have no effect, and they go after the next base") {
    withConf("spark.streamjoin.arrangements.deletedKeysMaxAge" -> "1ms") {
      val it = texts()
      def small = rowsOf(it.root).filter(_.lift(1).contains(' '))
      during(it) {
        it.feed((1 to 5).map(id => Row(id, null, 120L, "delete")): _*)
        assert(deletions(it) == (5, 0))
        it.feed(Row(1, "again", 110L, "insert"))
        assert(small == Seq("1 again 110"))
        assert(deletions(it) == (1, 0))
        it.feed(much(10): _*)
        it.feed(Row(4000, "b", 100L, "insert"))
        assert(deletions(it) == (0, 4), "the base has all of them")
        // In the batch after the base, one of the expired keys is inserted again and another one
        // is deleted again.
        it.feed(Row(2, "again", 110L, "insert"), Row(3, null, 110L, "delete"))
        assert(deletions(it) == (4 + 1, 0))
        it.replay()
        assert(deletions(it) == (4 + 1, 0))
        assert(small == Seq("1 again 110", "2 again 110"))
        it.stop()
        forgetIndexes()
        it.start()
        it.feed(much(10000) ++ much(20000): _*)
        it.feed(Row(4, "again", 110L, "insert"))
        assert(deletions(it) == (0, 1), "the base has only the deletion of 3")
        assert(small == Seq("1 again 110", "2 again 110", "4 again 110"))
      }
    }
  }

  test("a replayed batch drops the same deletions") {
    withConf("spark.streamjoin.arrangements.deletedKeysMaxAge" -> "1s") {
      val it = prices()
      during(it) {
        it.feed(Row(1, null, 120L, "delete"))
        it.feed(Row(1, 11, 110L, "insert"))
        val before = (rowsOf(it.root), count(it, "olderChanges"))
        it.stop()
        // As if the batch had failed before it wrote its version, and the query had stopped for a
        // while.
        SparkTest.forgetCommit(it.checkpoint)
        SparkTest.remove(Path.of(it.root, "versions", "1"))
        forgetIndexes()
        Thread.sleep(1100)
        it.start()
        it.settle()
        assert((rowsOf(it.root), count(it, "olderChanges")) == before)
      }
    }
  }

  testLong("an arrangement without remembered deletions, as older builds wrote it, can be continued") {
    val it = prices()
    during(it) {
      it.feed(Row(1, 10, 100L, "insert"), Row(2, 10, 100L, "insert"))
      it.feed(Row(1, 10, 120L, "delete"))
      it.stop()
      forgetIndexes()
      // Files as an older build wrote them: without blocks of deletions.
      val manifest = it.folder.manifest(1)
      val without = manifest.changes.map(file => file.copy(blocks = file.blocks.filter(_.index < 2)))
      SparkTest.remove(Path.of(it.root, "versions", "1"))
      new VersionLog(spark, it.folder).add(1, manifest.copy(changes = without))
      it.start()
      it.feed(Row(1, 11, 110L, "insert"), Row(2, 9, 90L, "update"))
      assert(rowsOf(it.root) == Seq("1 11 110", "2 10 100"), "rows still have their time")
      it.feed(Row(1, 12, 130L, "delete"))
      it.feed(Row(1, 11, 125L, "update"))
      assert(rowsOf(it.root) == Seq("2 10 100"))
    }
  }

  private def positions(order: Option[String] = Some("lsn"), root: String = newFolder("arrangement")) =
    maintainer(
      "id INT, at LONG, lsn LONG, op STRING",
      Seq(Seq("id")),
      op = Some("op"),
      time = Some("at"),
      order = order,
      root = root
    )

  test("order= decides between changes with the same time") {
    val it = positions()
    during(it) {
      it.feed(Row(1, 100L, 1L, "c"), Row(1, 100L, 2L, "d"), Row(2, 100L, 3L, "d"), Row(2, 100L, 4L, "c"))
      assert(rowsOf(it.root) == Seq("2 100 4"))
      it.feed(Row(1, 100L, 1L, "u"), Row(2, 100L, 3L, "d"))
      assert(rowsOf(it.root) == Seq("2 100 4"))
    }
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(positions(order = None, root = it.root).start())
  }

  test("a deletion without a time is remembered by its order=") {
    val it = positions()
    during(it) {
      it.feed(Row(1, null, 4L, "c"))
      it.feed(Row(1, null, 5L, "d"))
      it.feed(Row(1, null, 3L, "u"))
      assert(rowsOf(it.root).isEmpty)
      it.feed(Row(1, null, 6L, "u"))
      assert(rowsOf(it.root) == Seq("1 - 6"))
    }
  }

  testLong("white space around an operation makes no difference") {
    val it = prices()
    during(it) {
      // Of one time, the delete comes first.
      it.feed(Row(1, 10, 100L, " insert"), Row(1, 11, 100L, "delete\n"))
      assert(rowsOf(it.root) == Seq("1 10 100"))
    }
  }

  testLong("Debezium: tombstones are skipped, and an update that changes the key removes the old row") {
    val fields = "STRUCT<id: INT, name: STRING>"
    val it = maintainer(
      s"before $fields, after $fields, op STRING, ts_ms LONG",
      Seq(Seq("id"), Seq("name")),
      op = Some("op"),
      time = Some("ts_ms")
    )
    def row(id: Int, name: String) = Row(id, name)
    during(it) {
      it.feed(Row(null, row(1, "a"), "c", 1L), Row(null, row(2, "b"), "c", 1L))
      it.feed(Row(row(1, "a"), row(5, "a"), "u", 2L))
      assert(rowsOf(it.root) == Seq("2 b 1", "5 a 2"))
      it.feed(Row(row(2, "b"), null, "d", 3L), Row(null, null, null, null))
      assert(rowsOf(it.root) == Seq("5 a 2"))
      assert(count(it, "tombstones") == 1)
      it.feed(Row(row(5, "a"), row(6, "c"), "u", 4L), Row(row(6, "c"), row(7, "c"), "u", 5L))
      assert(rowsOf(it.root) == Seq("7 c 5"), "the key changes twice in one batch")
      rejected("STREAMJOIN_OPERATION")(it.feed(Row(null, row(9, "x"), null, 6L)))
    }
  }

  test("Debezium: a time inside the row also dates the removal of the old key") {
    val fields = "STRUCT<id: INT, at: LONG>"
    val it = maintainer(
      s"before $fields, after $fields, op STRING, offset LONG",
      Seq(Seq("ID")),
      op = Some("op"),
      time = Some("AT"),
      order = Some("offset")
    )
    during(it) {
      it.feed(Row(null, Row(1, 100L), "c", 0L))
      it.feed(Row(Row(1, 100L), Row(2, 110L), "U", 2L), Row(null, null, null, 3L))
      assert(rowsOf(it.root) == Seq("2 110 2"))
      assert(count(it, "tombstones") == 1)
      it.feed(Row(Row(1, 100L), Row(1, 105L), "u", 1L))
      assert(rowsOf(it.root) == Seq("2 110 2"), "key 1 was left at 110, after this update")
    }
  }
}
