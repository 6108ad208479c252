package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.execution.streaming.checkpointing._

private[streamjoin] object NextOffsets {

  /**
   * The offsets unchanged for the next batch, with the time and the watermark that Spark would give
   * it; none if the log has neither.
   */
  def after(last: OffsetSeqBase, watermarkMs: Long, timeMs: Long): Option[OffsetSeqBase] =
    last.metadataOpt.flatMap { before =>
      val watermark = math.max(before.batchWatermarkMs, watermarkMs)
      val time = math.max(before.batchTimestampMs, timeMs)
      (last, before) match {
        case (offsets: OffsetSeq, of: OffsetSeqMetadata) =>
          Some(
            offsets.copy(metadataOpt = Some(of.copy(batchWatermarkMs = watermark, batchTimestampMs = time)))
          )
        case (offsets: OffsetMap, of: OffsetSeqMetadataV2) =>
          Some(offsets.copy(metadata = of.copy(batchWatermarkMs = watermark, batchTimestampMs = time)))
        case _ => None
      }
    }

  /** The settings of a batch, which a checkpoint fixes. */
  def settings(batch: OffsetSeqBase): Map[String, String] =
    batch.metadataOpt.fold(Map.empty[String, String])(_.conf)
}
