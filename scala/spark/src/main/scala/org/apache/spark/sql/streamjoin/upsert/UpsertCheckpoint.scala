package org.apache.spark.sql.streamjoin.upsert

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
import org.apache.spark.sql.streamjoin.arrangement.storage.BatchOffsets
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.checkpoint.CommittedBatches

/**
 * The state of a checkpoint before its query starts.
 *
 * @param query
 *   the query's id, if it has run before
 * @param newest
 *   the newest batch that was planned
 * @param isCommitted
 *   whether Spark has committed that batch
 * @param record
 *   the target so far; checkpoints of earlier versions have none and adopt the current one
 */
final private[upsert] case class UpsertCheckpoint(
    path: Path,
    query: Option[UUID],
    newest: Option[UpsertBatch],
    isCommitted: Boolean,
    record: Option[TargetRecord]
) {

  /**
   * Whether the query has written nothing so far: of a first batch that was not committed, at most
   * the offsets, as a batch records its target before it writes.
   */
  private def isNew: Boolean = newest.forall(_.number == 0) && !isCommitted

  /**
   * The record with which the query may continue into a target.
   *
   * @param changes
   *   the columns of the changes
   */
  def recordFor(target: UpsertTarget, changes: NetChanges): TargetRecord = {
    val is = target.identity(changes)
    record
      .map(_.identity)
      .filterNot(was => was.isSame(is) || was.kind == is.kind && target.keepsBatches)
      .foreach { was =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UPSERT_TARGET",
          "checkpoint" -> path.toString,
          "was" -> s"${was.kind} ${was.words}",
          "is" -> s"${is.kind} ${is.words}"
        )
      }
    target.verify(this)
    val ids = record.map(_.identity.ids).getOrElse(Map.empty) ++ is.ids
    TargetRecord(is.copy(ids = ids), record.map(_.micros).getOrElse(isNew))
  }
}

private[upsert] object UpsertCheckpoint {
  def of(session: SparkSession, path: Path): UpsertCheckpoint = {
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    val query =
      StreamMetadata.read(new Path(path, "metadata"), hadoopConf).map(found => UUID.fromString(found.id))
    val files = CheckpointFileManager.create(path, hadoopConf)
    val offsets = new Path(path, "offsets")
    val planned =
      if (!files.exists(offsets)) Nil else files.list(offsets).toSeq.flatMap(_.getPath.getName.toLongOption)
    val newest = for {
      number <- planned.maxOption
      id <- query
      found <- BatchOffsets.in(path, number, hadoopConf)
    } yield UpsertBatch(id, number, found.timeMs)
    val record =
      if (files.exists(new Path(path, TargetLog.Directory))) new TargetLog(session, path).get(0) else None
    val committed = CommittedBatches.last(path, hadoopConf)
    UpsertCheckpoint(path, query, newest, newest.exists(batch => committed.exists(_ >= batch.number)), record)
  }
}
