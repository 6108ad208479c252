package org.apache.spark.sql.streamjoin.arrangement

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.arrangement.index.{
  ArrangementRef,
  IndexRegistry,
  IndexSettings,
  LoadStats
}
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.source.ChangesTable
import org.apache.spark.sql.streamjoin.arrangement.storage.RowKey
import org.apache.spark.sql.streamjoin.joins.table.TableTest
import org.apache.spark.sql.streamjoin.{ArrangementTest, Frames}
import org.apache.spark.sql.{DataFrame, Row}

/** A maintaining query that restarts with one more key, while readers continue. */
class AddedKeysSuite extends AnyFunSuite with TableTest {
  import ArrangementTest._

  private val id = Seq(Seq("id"))
  private val both = Seq(Seq("id"), Seq("k"))

  /** An arrangement whose keys a test changes; the time of a change is `at`. */
  private class Table(var keys: Seq[Seq[String]]) {
    val root: String = newFolder("arrangement")
    val it = new Maintainer(spark, "id INT, k INT, at INT, text STRING, op STRING", root, newFolder())(all =>
      Arrangements.arrange(all, root, keys, Some("op"), None, Some("at"))
    )

    def start(): Unit = withConf("spark.streamjoin.partitions" -> "3")(it.start()): Unit

    def change(keys: Seq[Seq[String]]): Unit = {
      it.stop()
      this.keys = keys
      withConf("spark.streamjoin.evolve" -> "exact")(it.start()): Unit
    }

    def rejectedWith(keys: Seq[Seq[String]], evolve: String = "allow"): String = {
      it.stop()
      // Readers renew their leases meanwhile.
      def written = files(root).filterNot(_.toString.contains("/readers/")).toSet
      val before = written
      this.keys = keys
      val said =
        rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(withConf("spark.streamjoin.evolve" -> evolve)(it.start()))
      assert(written == before)
      said
    }
  }

  private def row(id: Int, k: Int, at: Int, op: String = "u", text: String = null) = Row(id, k, at, text, op)

  /** The pairs of rows a, b with a.id = b.k, for each other row b. */
  private def pairs(of: Table): Reader = new Reader(newFolder())(joined(of, "a.id = b.k"))

  private def joined(of: Table, on: String): DataFrame =
    Frames
      .delta(spark, Seq("a" -> of.root, "b" -> of.root), on, Seq("a.id", "b.id AS other"), "inner", Map.empty)
      .drop("_time")

  testLong("a key is added while a stream, a delta join by the old key and reads continue") {
    val of = new Table(id)
    import of.{it, root}
    of.start()
    it.feed((1 to 9).map(n => row(n, n % 3, n)): _*)
    it.feed(row(9, 0, 10, "d"))
    val changes = new Reader(newFolder())(ChangesTable.stream(spark, root, Map.empty).drop("_version"))
    val same = new Reader(newFolder())(joined(of, "a.id = b.id"))
    val readers = Seq(changes, same)
    try {
      readers.foreach(_.start())
      assert(
        of.rejectedWith(both, evolve = "reject").contains("spark.streamjoin.evolve=exact accepts this change")
      )
      rejected("STREAMJOIN_DELTA_INDEX")(joined(of, "a.id = b.k"))
      of.change(both)
      it.feed(row(1, 5, 20), row(8, 0, 20, "d"))
      val added = pairs(of)
      val lookUp = new Stream(_.join(table(root), expr("k = customer_id")).select("item", "id"))
      try {
        Seq(added, lookUp).foreach(_.start())
        def expected = rowsOf(root).map(_.split(" ").take(2).map(_.toInt)).map(row => row(0) -> row(1))
        def check(): Unit = {
          (readers :+ added).foreach(_.settle())
          val rows = expected
          val found = for { (a, _) <- rows; (b, k) <- rows if a == k } yield s"$a $b" -> 1L
          assert(added.sum() == found.toMap)
          assert(same.sum() == rows.map { case (a, _) => s"$a $a" -> 1L }.toMap)
          assert(
            changes.sum().keys.map(_.split(" ").take(2).mkString(" ")).toSet ==
              rows.map { case (a, k) => s"$a $k" }.toSet
          )
        }
        assert(expected == Seq(1 -> 5, 2 -> 2, 3 -> 0, 4 -> 1, 5 -> 2, 6 -> 0, 7 -> 1))
        check()
        // A deletion from before the change still counts.
        it.feed(row(9, 1, 9), row(2, 1, 21))
        assert(!expected.exists(_._1 == 9))
        check()
        lookUp.add(Row(1, 1, "of one"))
        assert(lookUp.next == Seq("of one 2", "of one 4", "of one 7"))
        it.replay()
        added.restart()
        forgetIndexes()
        it.feed(row(3, 2, 22), row(8, 1, 19), row(10, 1, 22))
        check()
        lookUp.add(Row(2, 1, "of one"))
        assert(lookUp.next == Seq("of one 10", "of one 2", "of one 4", "of one 7"))
        it.restart()
        it.feed(row(10, 4, 23))
        check()
      } finally Seq(added, lookUp).foreach(_.stop())
    } finally (readers :+ it).foreach(_.stop())
  }

  test("an added key can be looked up at versions before it") {
    val of = new Table(id)
    import of.it
    of.start()
    (1 to 4).foreach(n => it.feed(row(n, n % 2, n)))
    of.change(both)
    it.feed(row(5, 1, 5))
    val meta = it.folder.current
    def found(version: Long): Set[Int] = {
      val newest = it.folder.manifest(it.folder.newest)
      val indexes = IndexRegistry(IndexSettings())
      (0 until meta.partitions).flatMap { partition =>
        val key = RowKey.of(meta, 1)
        val conf = spark.sessionState.newHadoopConf()
        val ref = ArrangementRef(it.folder.root.toString, meta)
        indexes.get(ref, 1, partition, version, newest.versionId, conf, new LoadStats).rowsOf(version).map {
          case (row, _) =>
            assert(key.partition(row, meta.partitions) == partition)
            row.getInt(0)
        }
      }.toSet
    }
    for (version <- 0 to 4) assert(found(version.toLong) == (1 to version + 1).toSet)
    it.stop()
  }

  test("waiting rows continue to wait when a key is added that covers more of their condition") {
    val of = new Table(both)
    import of.{it, root}
    val waiting = new Stream(orders =>
      timed(orders)
        .join(
          table(root, rematch).toDF("id", "k", "number", "text"),
          expr("k = customer_id AND number = order_id"),
          "left_outer"
        )
        .select("item", "text")
    )
    of.start()
    try {
      it.feed(row(1, 7, 4))
      waiting.start()
      waiting.add(Row(5, 7, "five"), Row(6, 7, "six"))
      assert(waiting.next == Seq("five -", "six -"))
      of.change(both :+ Seq("k", "at"))
      it.feed(row(2, 7, 5, text = "of five"))
      assert(waiting.next == Seq("five of five"))
      waiting.restart()
      it.feed(row(3, 7, 6, text = "of six"))
      assert(waiting.next == Seq("six of six"))
    } finally Seq(waiting, it).foreach(_.stop())
  }

  testLong("a new base has the added key, however few the changes are") {
    val of = new Table(id)
    import of.{it, root}
    val random = new Random(1)
    of.start()
    it.feed((1 to 60).map(n => row(n, n % 2, n, text = ArrangementTest.randomText(random, 30000))): _*)
    it.feed(row(61, 1, 61))
    assert(it.folder.manifest(1).bases.map(_.version) == Seq(0))
    of.change(both)
    it.feed(row(62, 1, 62))
    it.feed(row(63, 1, 63))
    val based = it.folder.manifest(3)
    assert(based.bases.map(_.version) == Seq(0, 2))
    // Number 1 is that of the deletions, of which there are none.
    assert(based.baseFiles.flatMap(_.blocks).map(_.index).toSet == Set(0, 2))
    forgetIndexes()
    val lookUp = new Stream(_.join(table(root), expr("k = customer_id")).select("id"))
    during(lookUp)(assert(lookUp.add(Row(1, 1, "")).next.size == 33))
    it.stop()
  }

  test("keys that are dropped, or listed in another order, are rejected") {
    val of = new Table(both)
    import of.it
    of.start()
    it.feed(row(1, 1, 1))
    for (keys <- Seq(id, both.reverse, Seq(Seq("id"), Seq("at"), Seq("k"))))
      assert(of.rejectedWith(keys).contains("Keys can only be added, after those that it has: [id], [k]"))
    of.keys = both
    during(it)(it.feed(row(2, 1, 2)))
  }

  test("a key is added with new columns and another number of partitions, and once more") {
    val of = new Table(id)
    import of.{it, root}
    of.start()
    it.feed((1 to 6).map(n => row(n, n % 2, n)): _*)
    withConf("spark.streamjoin.partitions" -> "5")(of.change(both))
    it.feed(row(7, 1, 7))
    of.change(both :+ Seq("at"))
    it.settle()
    it.feed(row(8, 2, 3))
    val (byK, byAt) = (pairs(of), new Reader(newFolder())(joined(of, "a.id = b.at")))
    try {
      Seq(byK, byAt).foreach(_.start().settle())
      assert(byK.sum().keySet == Set("1 1", "1 3", "1 5", "1 7", "2 8"))
      assert(byAt.sum().keySet == Set("1 1", "2 2", "3 3", "3 8", "4 4", "5 5", "6 6", "7 7"))
      assert(it.folder.current.addedKeys == 2)
      assert(files(s"$root/meta").size == 2)
    } finally Seq(byK, byAt, it).foreach(_.stop())
  }
}
