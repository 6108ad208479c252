package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** An operator that emits its rows in the order of a time, the column with watermark key 0. */
private[streamjoin] trait OrderedNode extends StatefulNode {

  /** The event-time columns by watermark key. */
  def times: Seq[Attribute]

  /** The part of time that a task has is another one in every batch. */
  override def partitions: Option[FirstPartitions] = None

  override def emitsOnEviction: Boolean = true

  /** Spark sorts no stream in update mode, for a row may come again there. */
  override def runsInUpdateMode: Boolean = false

  override def undefinedWatermark(key: Int, waiting: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_ORDER_WATERMARK",
      "waits" -> waiting,
      "column" -> times(key).name,
      "time" -> times.head.name
    )
}
