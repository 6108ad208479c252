package org.apache.spark.sql.streamjoin.monitor

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.TimeUnit.SECONDS

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/**
 * The figures of a query's batches in files, which outlive it: `<folder>/<query id>/<first
 * batch>.jsonl`, a line for each batch. A file is written again with each of its batches, because
 * object stores cannot append, but not more often than each ten seconds; at 1000 batches the next
 * one begins. The last file wins where a batch ran again.
 *
 * @param most
 *   batches that are kept; the files of older ones are removed
 */
final private[monitor] class FiguresHistory(folder: Path, hadoopConf: Configuration, most: Int) {
  import FiguresHistory._

  private val files = CheckpointFileManager.create(folder, hadoopConf)
  private var lines = Vector.empty[String]
  private var first = 0L
  private var writtenAt = Option.empty[Long]

  /** @param now of a clock that only moves on, in nanoseconds */
  def add(batch: Long, line: String, now: Long): Unit = {
    if (lines.size >= OfFile) {
      write()
      lines = Vector.empty
    }
    if (lines.isEmpty) first = batch
    lines :+= line
    if (writtenAt.forall(now - _ >= SECONDS.toNanos(Interval))) {
      write()
      writtenAt = Some(now)
    }
  }

  /** Writes what is not written yet. */
  def write(): Unit = if (lines.nonEmpty) {
    val path = new Path(folder, f"$first%010d$Ending")
    val isNew = !files.exists(path)
    if (isNew && !files.exists(folder)) files.mkdirs(folder)
    val out = files.createAtomic(path, overwriteIfPossible = true)
    try {
      out.write(lines.mkString("", "\n", "\n").getBytes(UTF_8))
      out.close()
    } catch {
      case failed: Throwable =>
        out.cancel()
        throw failed
    }
    if (isNew) purge()
  }

  private def purge(): Unit = {
    val all = files.list(folder).toSeq.map(_.getPath).filter(_.getName.endsWith(Ending)).sortBy(_.getName)
    all.dropRight(math.max(most / OfFile, 1) + 1).foreach(files.delete)
  }
}

private[monitor] object FiguresHistory {
  private val OfFile = 1000
  private val Ending = ".jsonl"

  /** In seconds. */
  private val Interval = 10L
}
