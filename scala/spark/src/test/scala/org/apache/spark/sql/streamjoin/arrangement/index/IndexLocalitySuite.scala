package org.apache.spark.sql.streamjoin.arrangement.index

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.scheduler.TaskLocation

/** Which executor has the index of a partition, and which task of a small batch uses it. */
class IndexLocalitySuite extends AnyFunSuite {
  private def executors(ids: Int*) = ids.map(id => (id.toString, s"host-${id % 2}"))

  test("partitions are spread evenly, and few move when an executor comes") {
    val before = IndexLocality.choose(executors(1, 2, 3, 4), 200)
    assert(before.groupBy(identity).values.forall(_.size == 50))
    val after = IndexLocality.choose(executors(1, 2, 3, 4, 5), 200)
    assert(after.groupBy(identity).values.forall(_.size == 40))
    assert(before.zip(after).count { case (was, is) => was != is } <= 90)
  }

  test("a small batch has as many tasks on each executor, where the indexes are that they use") {
    for {
      number <- Seq(1, 2, 3, 8)
      partitions <- Seq(1, 7, 200)
      atLeast <- Seq(1, 2, 5, 20)
    } {
      val live = executors(1 to number: _*)
      val tasks = IndexLocality.spread(live, partitions, atLeast)
      assert(tasks.number >= atLeast)
      assert(tasks.number < atLeast + number)
      assert(tasks.number % number == 0)
      assert(tasks.locations.size == tasks.number)
      assert(tasks.taskOf.size == partitions)
      tasks.taskOf.zip(IndexLocality.choose(live, partitions)).foreach { case (task, (executor, host)) =>
        assert(tasks.locations(task) == TaskLocation(host, executor).toString)
      }
      val sizes = tasks.taskOf.groupBy(identity).values.map(_.size)
      assert(sizes.max <= math.ceil(math.ceil(partitions.toDouble / number) / (tasks.number / number)))
      assert(
        IndexLocality.spread(live.reverse, partitions, atLeast) == tasks,
        "in whatever order they are named"
      )
    }
  }

  test("in a single process, tasks take partitions in turn") {
    assert(IndexLocality.spread(Nil, 5, 2) == IndexTasks(2, IndexedSeq(0, 1, 0, 1, 0), IndexedSeq.empty))
  }
}
