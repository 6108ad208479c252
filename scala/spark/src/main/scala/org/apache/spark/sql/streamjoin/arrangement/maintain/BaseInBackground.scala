package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.UUID
import java.util.concurrent.CountDownLatch

import scala.util.control.NonFatal
import scala.util.{Failure, Success, Try}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.streamjoin.arrangement.index.{
  ArrangementRef,
  IndexLocality,
  IndexRegistry,
  IndexSettings,
  LoadStats
}
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  BaseRef,
  BlockFile,
  Manifest,
  VersionId
}
import org.apache.spark.sql.streamjoin.base.HadoopConf
import org.apache.spark.util.SerializableConfiguration

/**
 * Writes the base of a version while the query continues with its batches; a later batch names the
 * base in its manifest. Until then, the files of the base have no meaning, so writing it may fail
 * or stop with the query.
 *
 * {{{
 *   batches      v     v+1    v+2    v+3: names the base of v
 *                |                    ^
 *   background   +- base of v: a few -+
 *                   partitions at a time
 * }}}
 *
 * @param isWanted
 *   whether the run that started it is still active
 */
final private[maintain] class BaseInBackground(
    arrangement: ArrangementRef,
    of: Manifest,
    run: UUID,
    indexes: IndexSettings,
    session: SparkSession,
    isWanted: () => Boolean
) extends Logging {
  import BaseInBackground._

  private val context = session.sparkContext
  private val hadoopConf = HadoopConf.of(session)

  /** Part of the names of its files, because a batch may write a base of the same version. */
  private val attempt = UUID.randomUUID()
  private val ended = new CountDownLatch(1)
  @volatile private var isCancelled = false
  @volatile private var result: Option[Try[Base]] = None

  def version: Long = of.version

  def start(): Unit = {
    val thread = new Thread(() => write(), s"streamjoin base of version $version of ${arrangement.root}")
    thread.setDaemon(true)
    thread.start()
  }

  /** The base, or the failure; none while it is being written. */
  def written: Option[Try[Base]] = result

  /** Removes the files, now or once the partitions that are being written have finished. */
  def cancel(): Unit = {
    isCancelled = true
    if (result.isDefined) removeFiles(but = Nil)
  }

  /** Waits until it has finished. */
  def await(): Unit = ended.await()

  private def write(): Unit =
    try {
      // The batch that started the thread ends before it.
      context.setLocalProperty(SQLExecution.EXECUTION_ID_KEY, null)
      context.setJobGroup(run.toString, s"base of version $version", interruptOnCancel = true)
      val files = parts()
      // Those of tasks that were killed.
      removeFiles(but = files)
      result = Some(Success(Base(version, of.counts.getOrElse(Manifest.ChangeBytes, 0L), files)))
      if (isCancelled) removeFiles(but = Nil)
    } catch {
      case error: Throwable =>
        if (!isOver) logWarning(s"The base of version $version of ${arrangement.root} was not written", error)
        removeFiles(but = Nil)
        result = Some(Failure(error))
    } finally ended.countDown()

  private def isOver: Boolean = isCancelled || !isWanted()

  /**
   * Most of the cores are left to batches: the scheduler would otherwise give this older job all of
   * them.
   */
  private def parts(): Seq[BlockFile] = {
    val partitions = arrangement.meta.partitions
    val rows = IndexLocality.place(context.parallelize(0 until partitions, partitions))
    val atOnce = math.max(1, context.defaultParallelism / Share)
    (0 until partitions).grouped(atOnce).toSeq.flatMap { some =>
      if (isOver) throw new InterruptedException("the query has ended")
      writeParts(rows, some, arrangement, of.versionId, attempt, indexes, hadoopConf)
    }
  }

  private def removeFiles(but: Seq[BlockFile]): Unit =
    try
      ArrangementFolder
        .open(session, new Path(arrangement.root))
        .removeAttempt(BaseRef.folder(version), attempt, but)
    catch { case NonFatal(error) => logWarning("The files of a base could not be removed", error) }
}

private[maintain] object BaseInBackground {

  /** It uses one of this many cores and leaves the rest to others. */
  private val Share = 4

  private def writeParts(
      rows: RDD[Int],
      partitions: Seq[Int],
      arrangement: ArrangementRef,
      version: VersionId,
      attempt: UUID,
      indexes: IndexSettings,
      hadoopConf: Broadcast[SerializableConfiguration]
  ): Seq[BlockFile] = rows.sparkContext
    .runJob(
      rows,
      (context: TaskContext, _: Iterator[Int]) =>
        writePart(context, arrangement, version, attempt, indexes, hadoopConf.value.value),
      partitions
    )
    .toSeq
    .flatten

  private def writePart(
      context: TaskContext,
      arrangement: ArrangementRef,
      version: VersionId,
      attempt: UUID,
      indexes: IndexSettings,
      hadoopConf: Configuration
  ): Option[BlockFile] = {
    val partition = context.partitionId()
    val (registry, load) = (IndexRegistry(indexes), new LoadStats)
    val file = Base.file(new Path(arrangement.root), version.number, partition, attempt, hadoopConf)
    context.addTaskFailureListener((_, _) => file.abort())
    Base.write(arrangement, version.number, partition, file) { (of, index) =>
      registry.get(of, index, partition, version.number, version, hadoopConf, load)
    }
    file.commit()
  }
}
