package org.apache.spark.sql.streamjoin.checkpoint

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/**
 * `<checkpoint>/batches-not-begun/<n>`: a batch that has left nothing but its offsets, if those.
 * Spark writes the offsets of a batch before we can record who plans it. If a changed query is
 * killed in between, its batch looks like one that the query before has run and may have output.
 * So a run says beforehand that nobody has:
 *
 * {{{
 *   the run starts                no offsets of N        N is marked
 *   Spark                         writes its offsets
 *   our operators are planned     the change is recorded, and the mark deleted
 *   tasks run                     the sink may have rows of N
 * }}}
 *
 * Any query may run a marked batch as its first one, whoever has planned it.
 */
final private[streamjoin] class BatchesNotBegun(session: SparkSession, checkpoint: Path) {
  private val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
  private val folder = new Path(checkpoint, BatchesNotBegun.Directory)
  private val files = CheckpointFileManager.create(folder, hadoopConf)

  private def file(batch: Long) = new Path(folder, batch.toString)

  def contains(batch: Long): Boolean = files.exists(file(batch))

  /** Marks the next batch, unless it is planned, or none has been committed. */
  def markNext(): Unit = for {
    committed <- CommittedBatches.last(checkpoint, hadoopConf)
    if CommittedBatches.lastPlanned(checkpoint, hadoopConf).forall(_ <= committed)
    if !contains(committed + 1)
  } mark(committed + 1)

  private def mark(batch: Long): Unit = {
    deleteAll()
    files.mkdirs(folder)
    val out = files.createAtomic(file(batch), overwriteIfPossible = true)
    try {
      out.write(BatchesNotBegun.Content.getBytes(UTF_8))
      out.close()
    } catch {
      case failed: Throwable =>
        out.cancel()
        throw failed
    }
  }

  /** Deletes the mark: from now on, the sink may have rows of the batch. */
  def begin(batch: Long): Unit = if (contains(batch)) {
    deleteAll()
    if (contains(batch)) throw new IOException(s"${file(batch)} cannot be deleted")
  }

  /** Another run, which knows nothing of a mark, may have begun the batch. */
  def deleteAll(): Unit = files.delete(folder)
}

private[streamjoin] object BatchesNotBegun {
  val Directory = "batches-not-begun"

  private val Content = """{"version":1}"""
}
