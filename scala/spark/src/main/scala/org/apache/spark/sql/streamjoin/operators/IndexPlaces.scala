package org.apache.spark.sql.streamjoin.operators

import scala.util.hashing.MurmurHash3

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.TaskLocation
import org.apache.spark.storage.BlockManagerId

/** Assigns index partitions of arrangements to executors. */
private[streamjoin] object IndexPlaces {

  /** By partition, the preferred location of its tasks; empty if the driver is the only process. */
  def of(context: SparkContext, partitions: Int): IndexedSeq[String] = {
    val live = executors(context)
    if (live.isEmpty) IndexedSeq.empty
    else
      choose(live.map(id => (id.executorId, id.host)), partitions).map { case (executor, host) =>
        TaskLocation(host, executor).toString
      }
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
}
