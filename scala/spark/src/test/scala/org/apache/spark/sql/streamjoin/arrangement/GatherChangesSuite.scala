package org.apache.spark.sql.streamjoin.arrangement

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.CoalescedPartitionSpec
import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.streamjoin.arrangement.maintain.GatherChangesExec
import org.apache.spark.sql.streamjoin.arrangement.storage.Manifest

/** Arrangements with more partitions than each of their tasks may write blocks for. */
class GatherChangesSuite extends AnyFunSuite with ArrangementTest {
  private val partitions = 40

  private def many[T](body: => T): T = withConf("spark.streamjoin.partitions" -> partitions.toString)(body)

  private def blocks(manifest: Manifest) = manifest.changes.flatMap(_.blocks)

  test("a changelog with two keys is right through restarts and replays, in few files and blocks") {
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
        for (batch <- 0 until 6) {
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
          assert(manifest.changes.size == 2, "partitions 0 to 31, and 32 to 39")
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

  test("a base, and updates") {
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

  test("an error of a task is the query's") {
    many {
      val it = maintainer("id INT, op STRING", Seq(Seq("id")), op = Some("op"))
      val said = refused("STREAMJOIN_OPERATION")(during(it)(it.feed(Row(1, "upsert"))))
      assert(said.contains("upsert"))
    }
  }

  test("tasks have neighbouring partitions, at most 32 and by their size") {
    def tasks(bytes: Long*) = GatherChangesExec.tasks(bytes.toArray).toSeq.map {
      case CoalescedPartitionSpec(from, until, _) => from until until
      case other => fail(other.toString)
    }
    assert(tasks(Seq.fill(100)(1L): _*).map(_.size) == Seq(32, 32, 32, 4))
    val megabytes = Seq(10L, 10L, 15L, 1L, 40L, 0L, 5L).map(_ << 20)
    assert(tasks(megabytes: _*) == Seq(0 until 3, 3 until 5, 5 until 7))
    assert(tasks().isEmpty)
  }
}
