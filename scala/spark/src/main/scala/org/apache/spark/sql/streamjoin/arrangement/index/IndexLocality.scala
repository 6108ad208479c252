package org.apache.spark.sql.streamjoin.arrangement.index

import scala.reflect.ClassTag
import scala.util.hashing.MurmurHash3

import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.TaskLocation
import org.apache.spark.storage.BlockManagerId
import org.apache.spark.{Partition, SparkContext, TaskContext}

/**
 * The tasks of a small batch.
 *
 * @param taskOf
 *   by partition of the index, the task that uses it
 * @param locations
 *   by task, its preferred locations; empty if the driver is the only process
 */
final private[streamjoin] case class IndexTasks(
    number: Int,
    taskOf: IndexedSeq[Int],
    locations: IndexedSeq[String]
)

/**
 * Assigns index partitions of arrangements to executors, by rendezvous hashing, the same for all
 * arrangements: when an executor joins or leaves, few partitions move.
 */
private[streamjoin] object IndexLocality {

  /** By partition, the preferred location of its tasks; empty if the driver is the only process. */
  def of(context: SparkContext, partitions: Int): IndexedSeq[String] = {
    val live = executors(context)
    if (live.isEmpty) IndexedSeq.empty
    else
      choose(live.map(id => (id.executorId, id.host)), partitions).map { case (executor, host) =>
        TaskLocation(host, executor).toString
      }
  }

  /**
   * Assigns indexes to tasks if there are fewer tasks than partitions: each task has partitions of
   * one executor, and all executors have the same number of tasks.
   *
   * @param atLeast
   *   how many tasks are sufficient
   */
  def tasks(context: SparkContext, partitions: Int, atLeast: Int): IndexTasks =
    spread(executors(context).map(id => (id.executorId, id.host)), partitions, atLeast)

  /**
   * @param live
   *   executor ids and hosts; none if the driver is the only process
   */
  def spread(live: Seq[(String, String)], partitions: Int, atLeast: Int): IndexTasks =
    if (live.isEmpty) IndexTasks(atLeast, (0 until partitions).map(_ % atLeast), IndexedSeq.empty)
    else {
      val sorted = live.sorted
      val each = (atLeast + live.size - 1) / live.size
      val before = scala.collection.mutable.Map.empty[(String, String), Int].withDefaultValue(0)
      val taskOf = choose(live, partitions).map { executor =>
        val number = before(executor)
        before(executor) = number + 1
        sorted.indexOf(executor) * each + number % each
      }
      val locations = sorted.flatMap { case (executor, host) =>
        Seq.fill(each)(TaskLocation(host, executor).toString)
      }
      IndexTasks(live.size * each, taskOf, locations.toIndexedSeq)
    }

  /** A single process holds the indexes of all partitions. */
  def areOne(context: SparkContext): Boolean = context.isLocal || executors(context).size == 1

  private def executors(context: SparkContext): Seq[BlockManagerId] =
    context.env.blockManager.master.getMemoryStatus.keys.toSeq.filterNot(_.isDriver)

  /**
   * Rendezvous hashing, with at most a fair share of the partitions per executor.
   *
   * @param executors
   *   executor ids and hosts
   */
  def choose(executors: Seq[(String, String)], partitions: Int): IndexedSeq[(String, String)] = {
    val share = (partitions + executors.size - 1) / executors.size
    val room = scala.collection.mutable.Map.from(executors.map(_ -> share))
    (0 until partitions).map { partition =>
      val chosen = executors
        .filter(room(_) > 0)
        .maxBy { case (id, _) => (MurmurHash3.stringHash(s"$id/$partition"), id) }
      room(chosen) -= 1
      chosen
    }
  }

  // Locations of tasks.

  /** Runs each task on the executor that holds the index of its partition or partitions. */
  def place[T: ClassTag](rows: RDD[T], tasks: Option[IndexTasks] = None): RDD[T] =
    new Placed(rows, tasks.map(_.locations))

  private class Placed[T: ClassTag](rows: RDD[T], ofTasks: Option[IndexedSeq[String]]) extends RDD[T](rows) {
    override protected def getPartitions: Array[Partition] = rows.partitions
    override def compute(split: Partition, context: TaskContext): Iterator[T] =
      rows.iterator(split, context)

    override protected def getPreferredLocations(split: Partition): Seq[String] = {
      // Prefer the executor that has the state store. A shuffle prefers the hosts that most of its
      // rows come from.
      val own = rows.preferredLocations(split).filter(_.startsWith(TaskLocation.executorLocationTag))
      if (own.nonEmpty) own else locations.lift(split.index).toSeq
    }

    @transient private lazy val locations: IndexedSeq[String] =
      ofTasks.getOrElse(of(sparkContext, rows.getNumPartitions))
  }
}
