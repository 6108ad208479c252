package org.apache.spark.sql.streamjoin.watermark

import java.util.UUID

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.{FilterExec, SparkPlan}
import org.apache.spark.sql.types.StringType
import org.apache.spark.util.AccumulatorV2

/**
 * Removes the bounds from a stream: rows that only state the progress of the stream. The node is
 * above the stream's `EventTimeWatermark`, so that bounds advance the watermark.
 *
 * It is not a `Filter`, because Spark would push a filter below the mark
 * (`PushPredicateThroughNonJoin`). It also holds all filters of the query above itself: most
 * columns of a bound are null, and a filter on one of them would remove the bound before it takes
 * effect.
 *
 * @param isBound
 *   boolean column of the child; a row with a null in it is data
 * @param time
 *   event-time column
 * @param partition
 *   column that identifies the partition, if partitions have separate bounds
 * @param mark
 *   id of the stream's `EventTimeWatermark`, if partitions have separate bounds
 */
final private[streamjoin] case class DropPunctuation(
    isBound: Attribute,
    time: Attribute,
    partition: Option[Attribute],
    mark: Option[UUID],
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  /** The physical operator over that of the child. */
  def planned(input: SparkPlan): SparkPlan = FilterExec(
    Not(EqualNullSafe(isBound, Literal.TrueLiteral)),
    partition.zip(mark).fold(input) { case (name, node) => PartitionTimesExec(node, time, name, input) }
  )

  override protected def withNewChildInternal(newChild: LogicalPlan): DropPunctuation = copy(child = newChild)
}

/** Passes rows through and records the newest event time of each partition of the stream. */
final private[streamjoin] case class PartitionTimesExec(
    mark: UUID,
    time: Attribute,
    partition: Attribute,
    child: SparkPlan
) extends EventTimeObserverExec {

  val times: PartitionTimes = registered(new PartitionTimes)

  override protected def doExecute(): RDD[InternalRow] = {
    val name = Cast(partition, StringType, Some(conf.sessionLocalTimeZone))
    val (noting, input, times) = (Seq(time, name), child.output, this.times)
    child.execute().mapPartitionsInternal { rows =>
      val noted = UnsafeProjection.create(noting, input)
      rows.map { row =>
        val values = noted(row)
        if (!values.isNullAt(0))
          times.add(String.valueOf(values.getUTF8String(1)) -> microsToMillis(values.getLong(0)))
        row
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): PartitionTimesExec =
    copy(child = newChild)
}

/** The newest time of each partition, in milliseconds, over all tasks. */
final private[streamjoin] class PartitionTimes(private var seen: Map[String, Long] = Map.empty)
    extends AccumulatorV2[(String, Long), Map[String, Long]] {
  override def isZero: Boolean = seen.isEmpty
  override def copy(): PartitionTimes = new PartitionTimes(seen)
  override def reset(): Unit = seen = Map.empty
  override def add(entry: (String, Long)): Unit =
    if (seen.get(entry._1).forall(_ < entry._2)) seen += entry
  override def merge(other: AccumulatorV2[(String, Long), Map[String, Long]]): Unit = other.value.foreach(add)
  override def value: Map[String, Long] = seen
}
