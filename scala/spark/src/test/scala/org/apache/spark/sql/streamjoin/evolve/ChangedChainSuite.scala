package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.JoinTest.{Events, Job}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

/**
 * Random changes of chains of two joins, and of joins whose rows are sorted: the rows are those of
 * the law, which [[ChangedChain]] reads over all rows at once. No row is late.
 */
class ChangedChainSuite extends AnyFunSuite with JoinTest {
  import ChangedChain._

  private val rocksDb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  testAll[ChangedChain]((1 to SparkTest.seeds(default = 1)).map(new ChangedChain(_)), _.toString)(run)

  private def run(story: ChangedChain): Assertion = {
    val session = spark.newSession().asInstanceOf[SparkSession]
    session.conf.set(StreamJoinConf.Evolve.key, "allow")
    if (story.usesRocksDb) session.conf.set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, rocksDb)
    def use(partitions: Int): Unit = session.conf.set(StreamJoinConf.Partitions.key, partitions.toString)
    val (first, second) = story.batches.splitAt(story.at)
    use(story.partitions.head)
    val old =
      new Job(session, newFolder("chain"), "append", Events, in => story.before.frame(in.marked(_, Delay)))
    running(old)(job => first.foreach(rows => job.feed(rows.map(_.row): _*)))
    use(story.partitions.last)
    val changed = old.successor(in => story.after.frame(in.marked(_, Delay)))
    running(changed) { job =>
      second.zipWithIndex.foreach { case (rows, at) =>
        job.feed(rows.map(_.row): _*)
        if (at == 0 && story.isRepeated && job.seen.nonEmpty) repeat(job)
      }
      (0 until 2).foreach(_ => job.feed(story.end: _*))
      if (!story.mayDrop) assert(job.dropped == 0, "no row may be late")
    }
    check(story, (old.seen ++ changed.seen).distinctBy(_.id).flatMap(_.rows).toSeq)
  }

  private def repeat(job: Job): Unit = {
    val again = job.redoLast()
    val attempts = job.seen.filter(_.id == again).map(_.rows.sorted)
    assert(attempts.size == 2 && attempts.distinct.size == 1, s"batch $again")
  }

  private def check(story: ChangedChain, lines: Seq[String]): Assertion = {
    val isSorted = !story.before.above.isInstanceOf[Above.Joined]
    val cells = lines.map(_.split(' ').toSeq.map(cell => if (cell == "-") Null.toLong else cell.toLong))
    val rows =
      cells.map(cells => (if (isSorted) cells.drop(1) else cells).map(_.toInt)).filterNot(_.contains(End))
    if (isSorted) assert(cells.map(_.head) == cells.map(_.head).sorted, "the order went back")
    assert(rows.distinct == rows, "a row was emitted twice")
    assert(story.must.diff(rows.toSet).isEmpty, "rows are missing")
    assert(rows.toSet.diff(story.may).isEmpty, "there are more rows")
    val (padded, others) = rows.partition(_.last == Null)
    assert(padded.map(_.init).toSet.intersect(others.map(_.init).toSet).isEmpty, "padded and matched")
  }
}
