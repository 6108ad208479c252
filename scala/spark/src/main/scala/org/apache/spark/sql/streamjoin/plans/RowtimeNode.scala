package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** An operator that buffers and emits its rows by one time, the column with watermark key 0. */
private[streamjoin] trait RowtimeNode extends StatefulNode {

  /** The event-time columns, by watermark key. */
  def times: Seq[Attribute]

  /** Each task has a range of times, a different one in every batch. */
  override def partitions: Option[FirstPartitions] = None

  override def emitsOnEviction: Boolean = true

  /** Rows are emitted once and in time order, so later rows cannot update them. */
  override def runsInUpdateMode: Boolean = false

  override def undefinedWatermark(key: Int, waiting: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_ORDER_WATERMARK",
      "waits" -> waiting,
      "column" -> times(key).name,
      "time" -> times.head.name
    )
}
