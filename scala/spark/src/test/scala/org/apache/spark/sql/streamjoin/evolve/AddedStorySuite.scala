package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.JoinTest.{Events, Job}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

/**
 * Joins that are added on top of random queries, or removed: the rows are those of the law, which
 * [[AddedStory]] reads over all rows at once. No row is late.
 */
class AddedStorySuite extends AnyFunSuite with JoinTest {
  import ChangedChain._

  private val rocksDb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  testAll[AddedStory]((1 to SparkTest.seeds(default = 1)).map(new AddedStory(_)), _.toString)(run)

  private def run(story: AddedStory): Assertion = {
    val session = spark.newSession().asInstanceOf[SparkSession]
    if (story.usesRocksDb) session.conf.set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, rocksDb)
    def use(partitions: Int, evolve: String): Unit = {
      session.conf.set(StreamJoinConf.Partitions.key, partitions.toString)
      session.conf.set(StreamJoinConf.Evolve.key, evolve)
    }
    val (first, second) = story.batches.splitAt(story.at)
    use(story.partitions.head, "reject")
    val old =
      new Job(session, newFolder("added"), "append", Events, in => story.before.frame(in.marked(_, Delay)))
    running(old)(job => first.foreach(rows => job.feed(rows.map(_.row): _*)))
    use(story.partitions.last, "allow")
    val changed = old.successor(in => story.after.frame(in.marked(_, Delay)))
    val fails = second.headOption.exists(_.nonEmpty) && Seq(Failed, Abandoned).contains(story.attempt)
    val last = if (fails) failing(changed, second.head) else changed
    if (story.attempt == Abandoned) use(story.partitions.last, "reject")
    val next =
      if (story.attempt == Abandoned) last.successor(in => story.before.frame(in.marked(_, Delay)))
      else last.successor(in => story.after.frame(in.marked(_, Delay)))
    running(next) { job =>
      if (fails) job.settle()
      second.drop(if (fails) 1 else 0).zipWithIndex.foreach { case (rows, at) =>
        job.feed(rows.map(_.row): _*)
        if (at == 0 && story.attempt == Repeated && job.seen.nonEmpty) repeat(job)
      }
      (0 until 2).foreach(_ => job.feed(story.end: _*))
      assert(job.dropped == 0, "no row may be late")
    }
    check(story, (old.seen ++ next.seen).distinctBy(_.id).flatMap(_.rows).toSeq)
  }

  private def failing(job: Job, rows: Seq[ChainRow]): Job = {
    job.sink = _ => throw new IllegalStateException("no room")
    running(job)(job => intercept[StreamingQueryException](job.feed(rows.map(_.row): _*)))
    job
  }

  private def repeat(job: Job): Unit = {
    val again = job.redoLast()
    val attempts = job.seen.filter(_.id == again).map(_.rows.sorted)
    assert(attempts.size == 2 && attempts.distinct.size == 1, s"batch $again")
  }

  private def check(story: AddedStory, lines: Seq[String]): Assertion = {
    val rows = lines
      .map(_.split(' ').toSeq.map(cell => if (cell == "-") Null else cell.toInt))
      .filterNot(_.contains(End))
    assert(rows.distinct == rows, "a row was emitted twice")
    assert(story.must.diff(rows.toSet).isEmpty, "rows are missing")
    assert(rows.toSet.diff(story.may).isEmpty, "there are more rows")
  }
}
