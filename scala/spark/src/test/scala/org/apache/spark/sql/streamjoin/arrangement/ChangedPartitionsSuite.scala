package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementState
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}

/** A maintaining query that restarts with another number of partitions, while readers continue. */
class ChangedPartitionsSuite extends AnyFunSuite with ArrangementTest {
  private val seeds = SparkTest.seeds(default = 1)

  private def withPartitions[T](number: Int)(body: => T): T =
    withConf("spark.streamjoin.partitions" -> number.toString)(body)

  private def partitions(it: ArrangementTest.Maintainer): Int = ArrangementState.of(it.folder).meta.partitions

  private def formatOf(it: ArrangementTest.Maintainer, version: Long): String =
    Files.readString(Path.of(it.root, "versions", version.toString)).take(12)

  /** Random changes of a table with few keys, and its rows after them. */
  private class Table(random: Random) {
    var rows: Map[Int, Int] = Map.empty[Int, Int]
    private var known = Set.empty[Int]
    private var clock = 0

    def changes(most: Int): Seq[Row] = {
      val keys = random.shuffle((0 until 12).toList).take(1 + random.nextInt(most))
      known ++= keys
      keys.map { key =>
        clock += 1
        if (rows.contains(key) && random.nextInt(3) == 0) {
          rows -= key
          Row(key, null, clock, "d")
        } else {
          val value = random.nextInt(4)
          rows += key -> value
          Row(key, value, clock, "u")
        }
      }
    }

    /** A change that is older than the last one of its key: it has no effect. */
    def old: Row = Row(known.toIndexedSeq(random.nextInt(known.size)), 99, 0, "u")
  }

  test("rows, deletions, look-ups and changes are exact when the partitions change again and again") {
    for (seed <- 0 until seeds) {
      val random = new Random(seed)
      val table = new Table(random)
      val columns = "id INT, k INT, at INT, op STRING"
      val it = maintainer(columns, Seq(Seq("id"), Seq("k")), Some("op"), time = Some("at"))
      val reader = deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.k", Seq("a.id", "b.id AS other"))
      var byVersion = Vector.empty[Map[Int, Int]]
      def feed(): Unit = {
        it.feed(table.changes(8) ++ Seq.fill(random.nextInt(2))(table.old): _*)
        byVersion :+= table.rows
      }
      def check(clue: String): Unit = {
        val expected = for { (id, _) <- table.rows; (other, k) <- table.rows if k == id } yield s"$id $other"
        // Without the time of the joined row.
        val joined = reader.sum().groupMapReduce(_._1.split(" ").take(2).mkString(" "))(_._2)(_ + _)
        assert(joined.filter(_._2 != 0) == expected.map(_ -> 1L).toMap, clue)
        val at = random.nextInt(byVersion.size)
        val seen = rowsOf(it.root, Some(at.toLong)).map(_.split(" ").take(2).mkString(" "))
        assert(seen == byVersion(at).map { case (id, k) => s"$id $k" }.toSeq.sorted, s"version $at, $clue")
      }
      withPartitions(2 + random.nextInt(3))(it.start())
      feed()
      reader.start()
      try
        for (step <- 0 until 4) {
          val number = 1 + random.nextInt(6)
          val clue = s"step $step with $number partitions, seed $seed"
          withPartitions(number)(if (random.nextInt(3) == 0) it.replay() else it.restart())
          for (_ <- 0 to random.nextInt(2)) feed()
          assert(it.folder.manifest(it.folder.newest).partitions == number, clue)
          reader.settle()
          check(clue)
          if (random.nextInt(3) == 0) forgetIndexes()
          if (random.nextInt(3) == 0) reader.restart()
        }
      finally {
        reader.stop()
        it.stop()
      }
    }
  }

  test("copies below zero are counted through a change of partitions") {
    val it = maintainer("id INT, n LONG", Seq(Seq("id")), diff = Some("n"))
    def negative = it.folder.manifest(it.folder.newest).counts("negativeRows")
    withPartitions(3)(it.start())
    try {
      it.feed((0 until 8).map(id => Row(id, -1L)): _*)
      it.feed(Row(20, 1L))
      assert(negative == 8)
      withPartitions(5)(it.restart())
      it.feed((0 until 4).map(id => Row(id, 1L)): _*)
      assert(negative == 8, "those of the version before")
      it.feed(Row(21, 1L))
      assert(negative == 4)
      assert(rowsOf(it.root) == Seq("20", "21"))
    } finally it.stop()
  }

  test("without the setting, an arrangement keeps its number; only other numbers need the new format") {
    val it = maintainer("id INT", Seq(Seq("id")))
    withPartitions(3)(during(it)(it.feed(Row(1))))
    assert(partitions(it) == 3)
    during(it)(it.feed(Row(2)))
    assert(partitions(it) == 3)
    withPartitions(4)(during(it)(it.feed(Row(3))))
    assert(partitions(it) == 4)
    during(it)(it.feed(Row(4)))
    assert(partitions(it) == 4)
    withPartitions(3)(during(it)(it.feed(Row(5))))
    assert(it.folder.meta.partitions == 3, "the description is written once")
    assert((0L to 4L).map(formatOf(it, _)) == Seq(1, 1, 2, 2, 1).map(of => s"""{"version":$of"""))
    assert(rowsOf(it.root) == (1 to 5).map(_.toString))
  }

  test("a number that is set before the first version is that of the arrangement") {
    val it = maintainer("id INT", Seq(Seq("id")))
    withPartitions(3)(during(it)(()))
    withPartitions(5)(during(it)(it.feed(Row(1))))
    assert(it.folder.meta.partitions == 5)
    assert(formatOf(it, 0) == """{"version":1""")
  }

  test("a manifest without a number of partitions has that of the description") {
    val it = maintainer("id INT", Seq(Seq("id")))
    withPartitions(3)(during(it)((1 to 5).foreach(id => it.feed(Row(id)))))
    for (version <- 0 to 4) {
      val file = Path.of(it.root, "versions", version.toString)
      SparkTest.overwrite(file, Files.readString(file).replace(""","partitions":3""", ""))
    }
    forgetIndexes()
    assert(rowsOf(it.root) == (1 to 5).map(_.toString))
    withPartitions(4)(during(it)(it.feed(Row(6))))
    assert(rowsOf(it.root) == (1 to 6).map(_.toString))
    assert(rowsOf(it.root, Some(3)) == (1 to 4).map(_.toString))
  }

  test("a newer format is rejected, and the error says what to use; nothing is written") {
    val it = maintainer("id INT", Seq(Seq("id")))
    during(it)(it.feed(Row(1)))
    val file = Path.of(it.root, "versions", "0")
    SparkTest.overwrite(file, Files.readString(file).replace("""{"version":1""", """{"version":99"""))
    val before = ArrangementTest.files(it.root).toSet
    forgetIndexes()
    for (start <- Seq(() => rowsOf(it.root), () => it.start())) {
      val said = rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE")(start())
      assert(said.contains("it has format 99, and this version of streamjoin reads formats up to 2"))
      assert(said.contains("use the version that has written it, or a newer one"))
    }
    assert(ArrangementTest.files(it.root).toSet == before)
  }

  test("a base with the new number is written soon, however few the changes are") {
    val random = new Random(1)
    val it = maintainer("id INT, name STRING", Seq(Seq("id")))
    def large(from: Int) = Seq.tabulate(60)(i => Row(from + i, ArrangementTest.randomText(random, 30000)))
    withPartitions(2)(during(it) {
      it.feed(large(0): _*)
      it.feed(Row(1000, "x"))
    })
    assert(it.folder.manifest(1).bases.nonEmpty)
    withPartitions(3)(during(it) {
      it.feed(Row(1001, "x"))
      it.feed(Row(1002, "x"))
    })
    val newest = it.folder.manifest(3)
    assert(it.folder.manifest(newest.bases.last.manifest).partitions == 3)
    assert(newest.bases.size == 2)
    forgetIndexes()
    assert(rowsOf(it.root).size == 63)
  }
}
