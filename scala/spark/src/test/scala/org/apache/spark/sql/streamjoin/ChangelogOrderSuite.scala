package org.apache.spark.sql.streamjoin

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.operators.arrange.ArrangeTask

/** Changes of a changelog with a time count in the order of that, however batches are cut. */
class ChangelogOrderSuite extends AnyFunSuite with ArrangementTest {
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
      assert(count(it, ArrangeTask.OlderChanges) == 1)
      it.feed(Row(1, 8, 80L, "delete"), Row(1, 11, 110L, "update"), Row(2, 5, null, "update"))
      assert(rowsOf(it.root) == Seq("1 11 110", "2 5 100"), "an older delete neither; a null is lowest")
      assert(count(it, ArrangeTask.OlderChanges) == 3)
      it.feed(Row(1, 12, 110L, "update"))
      assert(rowsOf(it.root) == Seq("1 12 110", "2 5 100"), "of one time, the later batch counts")
    }
  }

  test("older changes are kept as late rows") {
    withConf("spark.streamjoin.lateRows" -> "keep") {
      val it = prices()
      during(it) {
        it.feed(Row(1, 10, 100L, "insert"))
        it.feed(Row(1, 9, 90L, "update"))
        val kept = spark.read.text(s"${it.checkpoint}/late-rows").collect().map(_.getString(0))
        assert(kept.length == 1 && kept.head.contains("90"), kept.mkString)
      }
    }
  }

  test("a deletion remembers its time, over restarts and replays, and where it deleted nothing") {
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
      assert(rowsOf(it.root).isEmpty && count(it, ArrangeTask.OlderChanges) == 2)
      it.feed(Row(1, 13, 130L, "insert"), Row(7, 2, 120L, "insert"))
      it.feed(Row(1, 11, 125L, "update"))
      assert(rowsOf(it.root) == Seq("1 13 130", "7 2 120"))
      assert(it.folder.manifest(it.folder.newest).counts("rows") == 2)
    }
  }

  test("deletions are in a base, and leave it when they are old") {
    withConf("spark.streamjoin.arrangements.deletedKeysMaxAge" -> "1ms") {
      val it = prices()
      during(it) {
        it.feed(Row(1, 10, 100L, "insert"))
        it.feed(Row(1, 10, 120L, "delete"))
        Thread.sleep(5)
        it.feed(Row(1, 11, 110L, "insert"))
        assert(rowsOf(it.root) == Seq("1 11 110"), "it is forgotten")
      }
    }
    val it = maintainer(
      "id INT, text STRING, at LONG, op STRING",
      Seq(Seq("id")),
      op = Some("op"),
      time = Some("at")
    )
    during(it) {
      it.feed(Row(1, "a", 100L, "insert"))
      it.feed(Row(1, "a", 120L, "delete"))
      // Enough for a base, in the batch after it.
      val chance = new scala.util.Random(1)
      def text = new String(Array.fill(1 << 10)((32 + chance.nextInt(90)).toChar))
      it.feed((10 until 3000).map(id => Row(id, text, 100L, "insert")): _*)
      it.feed(Row(2, "b", 100L, "insert"))
      assert(it.folder.manifest(it.folder.newest).bases.nonEmpty)
      it.stop()
      forgetIndexes()
      it.start()
      it.feed(Row(1, "late", 110L, "insert"))
      assert(!rowsOf(it.root).exists(_.startsWith("1 ")))
    }
  }

  test("order= decides between changes of one time") {
    val it = maintainer(
      "id INT, at LONG, lsn LONG, op STRING",
      Seq(Seq("id")),
      op = Some("op"),
      time = Some("at"),
      order = Some("lsn")
    )
    during(it) {
      it.feed(Row(1, 100L, 1L, "c"), Row(1, 100L, 2L, "d"), Row(2, 100L, 3L, "d"), Row(2, 100L, 4L, "c"))
      assert(rowsOf(it.root) == Seq("2 100 4"))
      it.feed(Row(1, 100L, 1L, "u"), Row(2, 100L, 3L, "d"))
      assert(rowsOf(it.root) == Seq("2 100 4"))
    }
    refused("STREAMJOIN_ARRANGE")(
      maintainer("id INT, lsn LONG, op STRING", Seq(Seq("id")), op = Some("op"), order = Some("lsn")).start()
    )
    refused("STREAMJOIN_ARRANGEMENT_CHANGED")(
      maintainer(
        "id INT, at LONG, lsn LONG, op STRING",
        Seq(Seq("id")),
        op = Some("op"),
        time = Some("at"),
        root = it.root
      ).start()
    )
  }

  test("Debezium: tombstones are skipped, and an update that moves the key removes the old row") {
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
      assert(rowsOf(it.root) == Seq("5 a 2") && count(it, ArrangeTask.Tombstones) == 1)
      it.feed(Row(row(5, "a"), row(6, "c"), "u", 4L), Row(row(6, "c"), row(7, "c"), "u", 5L))
      assert(rowsOf(it.root) == Seq("7 c 5"), "twice in one batch")
      refused("STREAMJOIN_OPERATION")(it.feed(Row(null, row(9, "x"), null, 6L)))
    }
  }
}
