package org.apache.spark.sql.streamjoin.rules

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.plans.TableRematch

/**
 * `start()` on a checkpoint with rows that wait for their match in a table: the run begins with a
 * batch, for the table may have changed while the query was stopped, and the stream may be silent.
 * Spark asks whether a batch without new rows is of use only of a plan that has run
 * (`MicroBatchExecution.constructNextBatch`), so one is put into the log of offsets, with those of
 * the batch before: as if the run before had planned it, and had ended.
 */
final private[streamjoin] case class PlanFirstBatch(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case write: WriteToStream if write.inputQuery.exists(_.isInstanceOf[TableRematch]) =>
        val checkpoint = new Path(write.resolvedCheckpointLocation)
        if (SQLConf.get.streamingNoDataMicroBatchesEnabled && !isRunning(checkpoint))
          planFirstBatch(checkpoint)
      case _ =>
    }
    plan
  }

  /** It plans its batches itself; Spark stops it only later. */
  private def isRunning(checkpoint: Path): Boolean = {
    val classic = session.asInstanceOf[ClassicSession]
    StreamMetadata
      .read(new Path(checkpoint, "metadata"), classic.sessionState.newHadoopConf())
      .exists(of => classic.sharedState.activeStreamingQueries.containsKey(UUID.fromString(of.id)))
  }

  /** A batch that was planned and not committed runs again anyway. */
  private def planFirstBatch(checkpoint: Path): Unit = {
    val offsets = new OffsetSeqLog(session, new Path(checkpoint, "offsets").toString)
    val commits = new CommitLog(session, new Path(checkpoint, "commits").toString)
    for {
      (batch, last) <- offsets.getLatest()
      (committed, commit) <- commits.getLatest() if committed == batch
      next <- following(last, commit.nextBatchWatermarkMs)
    } offsets.add(batch + 1, next): Unit
  }

  /** The same offsets, with the time and the watermark that Spark would give the next batch. */
  private def following(last: OffsetSeqBase, watermarkMs: Long): Option[OffsetSeqBase] = {
    def time(before: Long) = math.max(before, System.currentTimeMillis())
    last match {
      case offsets: OffsetSeq =>
        offsets.metadataOpt.map { of =>
          val watermark = math.max(of.batchWatermarkMs, watermarkMs)
          val next = of.copy(batchWatermarkMs = watermark, batchTimestampMs = time(of.batchTimestampMs))
          offsets.copy(metadataOpt = Some(next))
        }
      case offsets: OffsetMap =>
        val of = offsets.metadata
        val watermark = math.max(of.batchWatermarkMs, watermarkMs)
        val next = of.copy(batchWatermarkMs = watermark, batchTimestampMs = time(of.batchTimestampMs))
        Some(offsets.copy(metadata = next))
      case _ => None
    }
  }
}
