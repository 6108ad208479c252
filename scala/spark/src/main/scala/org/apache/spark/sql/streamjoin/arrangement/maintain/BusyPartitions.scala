package org.apache.spark.sql.streamjoin.arrangement.maintain

import scala.concurrent.Await
import scala.concurrent.duration.Duration

import org.apache.spark.SparkContext
import org.apache.spark.rdd.{PartitionCoalescer, PartitionGroup, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{
  FilterExec,
  InputAdapter,
  ProjectExec,
  SortExec,
  SparkPlan,
  WholeStageCodegenExec
}
import org.apache.spark.sql.streamjoin.arrangement.index.IndexLocality
import org.apache.spark.sql.streamjoin.arrangement.storage.{InputKind, Manifest}

/**
 * The partitions with work to do in a batch, grouped into a suitable number of tasks: even a task
 * with little work costs some milliseconds, and an arrangement may have thousands of partitions.
 *
 * @param tasks
 *   the partitions of each task, which processes them one after the other
 * @param locations
 *   by task, its preferred locations; empty if the driver is the only process
 */
final private[maintain] case class BusyPartitions(tasks: Seq[Seq[Int]], locations: Seq[Option[String]]) {

  /** Computes only these partitions. */
  def of(rows: RDD[InternalRow]): RDD[InternalRow] =
    rows.coalesce(
      math.max(1, tasks.size),
      shuffle = false,
      Some(new BusyPartitions.Chosen(tasks, locations))
    )
}

private[maintain] object BusyPartitions {

  /** The approximate number of bytes of rows per task; a single partition may have more. */
  private val TaskBytes = 16L << 20

  /** Tasks per core, if every partition has to be visited. */
  private val TasksOfCore = 4

  /**
   * @param before
   *   manifest of the previous version
   * @param rows
   *   the rows of the batch, by partition
   * @return
   *   none if it is unknown which partitions have rows
   */
  def of(
      spec: ArrangeSpec,
      before: Option[Manifest],
      rows: SparkPlan,
      context: SparkContext
  ): Option[BusyPartitions] = {
    val partitions = spec.arrangement.meta.partitions
    shuffleOf(rows).filter(_.numPartitions == partitions).map { shuffle =>
      // Null if there is nothing to shuffle.
      val sizes = Option(Await.result(shuffle.submitShuffleJob(), Duration.Inf))
      val bytes = sizes.fold(new Array[Long](partitions))(_.bytesByPartitionId)
      val isEvery = everyPartition(spec, before)
      val changed =
        before.filter(_ => spec.arrangement.meta.input == InputKind.Updates).fold(Set.empty[Int])(changedIn)
      val busy = (0 until partitions).filter(at => isEvery || bytes(at) > 0 || changed(at))
      val cores = math.max(1, context.defaultParallelism)
      val wanted = math.max(if (isEvery) cores * TasksOfCore else cores, bytes.sum / TaskBytes)
      group(busy, partitions, math.min(busy.size.toLong, wanted).toInt, context)
    }
  }

  /**
   * A base, deletions that no longer count, and rows that are too old may be in any partition. If
   * the partitions are not those of the previous version, its counts do not apply.
   */
  private def everyPartition(spec: ArrangeSpec, before: Option[Manifest]): Boolean =
    spec.writesBase || spec.timeToLive.isDefined ||
      spec.dropsDeletions && DeletedKeys.isFor(spec.arrangement.meta) ||
      spec.arrangement.meta.input == InputKind.Updates && before.exists { last =>
        !last.knowsNegativeRows || last.partitions != spec.arrangement.meta.partitions
      }

  /** The changes of a version are counted by the next one. */
  private def changedIn(before: Manifest): Set[Int] =
    before.changes.iterator.flatMap(_.blocks).filter(_.index == 0).map(_.partition).toSet

  private def group(busy: Seq[Int], partitions: Int, atLeast: Int, context: SparkContext): BusyPartitions =
    if (busy.isEmpty) BusyPartitions(Nil, Nil)
    else {
      val all = IndexLocality.tasks(context, partitions, atLeast)
      // Round-robin, so that no task gets more than its share.
      val grouped =
        if (all.locations.isEmpty) busy.zipWithIndex.groupMap(_._2 % atLeast)(_._1)
        else busy.groupBy(all.taskOf)
      val tasks = grouped.toSeq.sortBy(_._1)
      BusyPartitions(tasks.map(_._2), tasks.map { case (task, _) => all.locations.lift(task) })
    }

  /**
   * The shuffle that partitions the rows. All operators between it and the tasks must do nothing
   * without rows: a stateful operator, such as an aggregation by the same key, commits the state of
   * each partition in each batch.
   */
  private def shuffleOf(rows: SparkPlan): Option[ShuffleExchangeExec] = rows match {
    case shuffle: ShuffleExchangeExec => Some(shuffle)
    case SortExec(_, _, child, _) => shuffleOf(child)
    case ProjectExec(_, child) => shuffleOf(child)
    case FilterExec(_, child) => shuffleOf(child)
    case generated: WholeStageCodegenExec => shuffleOf(generated.child)
    case input: InputAdapter => shuffleOf(input.child)
    case _ => None
  }

  final private class Chosen(tasks: Seq[Seq[Int]], locations: Seq[Option[String]])
      extends PartitionCoalescer
      with Serializable {
    override def coalesce(maxPartitions: Int, parent: RDD[_]): Array[PartitionGroup] =
      tasks
        .zip(locations)
        .map { case (partitions, location) =>
          val group = new PartitionGroup(location)
          partitions.foreach(group.partitions += parent.partitions(_))
          group
        }
        .toArray
  }
}
