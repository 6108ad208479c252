package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeq

private[streamjoin] object NextOffsets {

  /**
   * The offsets unchanged for the next batch, with the time and the watermark that Spark would give
   * it; none if the log has neither.
   */
  def after(last: OffsetSeq, watermarkMs: Long, timeMs: Long): Option[OffsetSeq] =
    last.metadata.map { before =>
      val watermark = math.max(before.batchWatermarkMs, watermarkMs)
      val time = math.max(before.batchTimestampMs, timeMs)
      last.copy(metadata = Some(before.copy(batchWatermarkMs = watermark, batchTimestampMs = time)))
    }

  /** The settings of a batch, which a checkpoint fixes. */
  def settings(batch: OffsetSeq): Map[String, String] = batch.metadata.fold(Map.empty[String, String])(_.conf)
}
