package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.internal.config._
import org.apache.spark.util.Utils
import org.apache.spark.{SparkConf, SparkContext}

/** Initial number of partitions of an operator; each has its own state store. */
sealed private[streamjoin] trait FirstPartitions {

  /**
   * @param set
   *   the configured number
   * @param atOnce
   *   number of tasks that run at once
   */
  def number(set: Int, atOnce: Int): Int = this match {
    case FirstPartitions.AsSet => set
    case FirstPartitions.AtOnce => math.min(set, atOnce)
    case FirstPartitions.One => 1
  }
}

private[streamjoin] object FirstPartitions {
  case object AsSet extends FirstPartitions
  case object AtOnce extends FirstPartitions
  case object One extends FirstPartitions

  /** How many tasks can run at once. */
  def atOnce(context: SparkContext): Int = atOnce(context.conf, context.defaultParallelism)

  /**
   * How many tasks can run at once. With dynamic allocation, it assumes the maximum number of
   * executors: the number of partitions is permanent, and a query may start without any executor.
   *
   * @param now
   *   the number of tasks that can run at once on the existing executors
   */
  def atOnce(conf: SparkConf, now: Int): Int =
    if (!Utils.isDynamicAllocationEnabled(conf)) now
    else {
      val ofExecutor = math.max(1, (conf.get(EXECUTOR_CORES) / conf.get(CPUS_PER_TASK).toDouble).toInt)
      val ofAll = conf.get(DYN_ALLOCATION_MAX_EXECUTORS).toLong * ofExecutor
      math.max(now.toLong, math.min(ofAll, Int.MaxValue)).toInt
    }
}
