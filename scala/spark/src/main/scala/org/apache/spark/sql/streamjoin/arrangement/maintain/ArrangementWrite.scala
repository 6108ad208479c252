package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.{ConcurrentModificationException, UUID}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.index.{ArrangementRef, IndexSettings}
import org.apache.spark.sql.streamjoin.arrangement.storage._
import org.apache.spark.sql.streamjoin.base.{
  Figures,
  RunningQuery,
  StreamJoinConf,
  StreamJoinErrors,
  UnreadMessages
}
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * The sink of a maintaining query: tasks have written files, and a manifest turns them into a
 * version.
 */
private[streamjoin] class ArrangementWriteBuilder(
    root: Path,
    info: LogicalWriteInfo,
    run: MaintainingRun
) extends WriteBuilder {
  // A column of the same name and type may have any origin.
  if (info.schema != TaskOutput.Schema || !run.isBegun) throw ArrangementWrite.notOurs(root)

  override def build(): Write = new Write {
    override def toStreaming: StreamingWrite =
      new ArrangementWrite(root, UUID.fromString(info.queryId), run)
    override def description: String = s"streamjoin $root"
  }
}

final private class ArrangementWrite(root: Path, queryId: UUID, run: MaintainingRun)
    extends StreamingWrite
    with Logging {
  private val session = SparkSession.active

  // The commit message decides which attempt of a task counts.
  override def useCommitCoordinator: Boolean = false

  /** Called before the tasks of a batch. */
  override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory = {
    val runId = RunningQuery.of(session, queryId).fold(UUID.randomUUID())(_.runId)
    run.claim(ArrangementFolder.open(root), Claim(queryId, runId))
    new OutputWriterFactory(root.toString)
  }

  override def commit(epoch: Long, messages: Array[WriterCommitMessage]): Unit = {
    val folder = ArrangementFolder.open(root)
    run.checkClaim(folder, epoch)
    // If it exists, this is a retry of the batch.
    val present = folder.manifestOf(epoch)
    val before =
      if (epoch == 0) None
      else if (present.isDefined) folder.manifestOf(epoch - 1)
      else Some(folder.manifest(epoch - 1))
    (present ++ before).foreach(ArrangementWrite.checkOwner(root, _, queryId))
    before.foreach(run.checkUnchanged(folder, _))
    val batch = BatchOffsets.of(session, queryId, epoch)
    present.foreach(ArrangementWrite.checkBatch(root, _, batch))
    val manifest = present.getOrElse {
      val outputs = messages.toSeq.collect { case message: OutputMessage => message.outputs }.flatten
      outputs.flatMap(_.origin).distinct.foreach(run.checkOrigin(folder, _, before))
      val next = following(folder, epoch, before, outputs).copy(batch = batch, run = run.run)
      try new VersionLog(session, folder).add(epoch, next)
      catch {
        case NonFatal(error) =>
          // Another run may be the cause, which Spark's error does not say.
          run.checkClaim(folder, epoch)
          if (!error.isInstanceOf[ConcurrentModificationException]) throw error
      }
      // Read it back: without atomic creation, each of two concurrent writers may believe that it
      // was first, and only the files of one will count.
      val written = folder.manifest(epoch)
      ArrangementWrite.checkOwner(root, written, queryId)
      ArrangementWrite.checkBatch(root, written, batch)
      run.checkWritten(folder, written)
      written
    }
    // Check again before removing anything.
    run.checkClaim(folder, epoch)
    run.commit(manifest)
    if (before.forall(last => ArrangeTask.unread(last.counts).isEmpty))
      ArrangeTask.unread(manifest.counts).foreach { count =>
        logWarning(s"$root: ${UnreadMessages.ofTable(count)}")
      }
    clean(folder, manifest, before)
    startBase(manifest)
  }

  /** A run that ends by itself leaves no time for a background base: its batches write bases. */
  private def startBase(manifest: Manifest): Unit =
    for {
      query <- RunningQuery.of(session, queryId)
      if run.needsBase(manifest) && !RunningQuery.endsByItself(query)
      runId = query.runId
    } run.startBase(
      new BaseInBackground(
        ArrangementRef(root.toString, run.meta),
        manifest,
        runId,
        IndexSettings.of(SQLConf.get),
        session,
        () => RunningQuery.of(session, queryId).exists(_.runId == runId)
      )
    )

  private def following(
      folder: ArrangementFolder,
      version: Long,
      before: Option[Manifest],
      outputs: Seq[TaskOutput]
  ): Manifest = {
    val conf = SQLConf.get
    val now = System.currentTimeMillis()
    val leases = new LeaseFiles(folder)
    val live = leases.expire(now - conf.getConf(StreamJoinConf.ArrangementLeaseAge))
    val retained = version - conf.getConf(StreamJoinConf.ArrangementVersions)
    val oldest = before.fold(0L)(_.since)
    // A lease below the oldest version belongs to a reader that returned too late and is rejected.
    val unleased = (run.baseVersion.toSeq :+ retained :+ (version - 1)).min
    val leased = live
      .filter(lease => lease.version >= oldest && lease.version < unleased && run.keepsFor(leases, lease))
      .map(_.version)
    val since = math.max(oldest, (leased :+ unleased).min)

    val base = newBase(folder, before, outputs)
    val bases = before.fold(Seq.empty[BaseRef])(_.bases) ++ base.map(_.ref(version))
    val baseFiles = base.fold(Seq.empty[BlockFile])(_.files)
    val changes = outputs.flatMap(_.changes)
    // All of them, even if no partition had work to do.
    val measured = Figures.of("arrangement").filter(_.isMeasuredInTasks).map(_.name)
    val counts = mutable.Map.from((Manifest.Rows +: measured).map(_ -> 0L))
    counts ++= before.fold(Map.empty[String, Long])(_.counts)
    outputs.foreach(_.counts.foreach { case (name, change) =>
      counts(name) = counts.getOrElse(name, 0L) + change
    })
    // A gauge: a partition without a task keeps its value.
    val known = before.filter(_.partitions == run.meta.partitions).fold(Map.empty[Int, Long])(_.negativeRows)
    val negativeRows = (known ++ outputs.flatMap(_.negativeRows)).filter(_._2 > 0)
    counts(Manifest.NegativeRows) = negativeRows.values.sum
    base.foreach(_ => counts(Manifest.BaseBytes) = baseFiles.map(_.bytes).sum)
    counts(Manifest.ChangeBytes) = counts.getOrElse(Manifest.ChangeBytes, 0L) -
      base.fold(0L)(_.changeBytes) + changes.map(_.bytes).sum
    Manifest(
      version,
      queryId,
      now,
      since,
      run.meta.partitions,
      Manifest.keptBases(bases, since),
      changes,
      baseFiles,
      counts.toMap,
      run.written.isDefined && CaughtUp.tookAll(session, queryId),
      previous = before.map(_.id),
      negativeRows = negativeRows,
      description = describe(folder, version, before),
      expires = run.meta.expires
    )
  }

  /** The name of the version's description, which is written if its columns or keys are new. */
  private def describe(folder: ArrangementFolder, version: Long, before: Option[Manifest]): Option[String] =
    before.flatMap { last =>
      def isSame(as: ArrangementMeta) =
        ChangedColumns.areSame(as.schema, run.meta.schema) && as.keys == run.meta.keys
      if (isSame(folder.metaOf(last))) last.description
      else if (isSame(folder.meta)) None
      else Some(folder.describe(version, Description.of(run.meta)))
    }

  /** The base that the batch has written, or that was written in the background. */
  private def newBase(
      folder: ArrangementFolder,
      before: Option[Manifest],
      outputs: Seq[TaskOutput]
  ): Option[Base] =
    before.flatMap { last =>
      if (outputs.exists(_.wroteBase)) {
        run.cancelBase()
        val changeBytes = last.counts.getOrElse(Manifest.ChangeBytes, 0L)
        Some(Base(last.version, changeBytes, outputs.flatMap(_.base)))
      } else run.takeBase().filter(isThere(folder, _))
    }

  /** Its files are missing if the arrangement was restored to a state before they were written. */
  private def isThere(folder: ArrangementFolder, base: Base): Boolean = {
    val isThere = folder.hasBaseFiles(BaseRef.folder(base.version), base.files)
    if (!isThere) logWarning(s"The base of version ${base.version} of $root is missing, and is written again")
    isThere
  }

  /**
   * Removes files that no version since the oldest needs, and files of failed attempts. The version
   * is committed whether or not this succeeds.
   */
  private def clean(folder: ArrangementFolder, manifest: Manifest, before: Option[Manifest]): Unit =
    try {
      run.removeOrphans(folder, manifest, before)
      run.removeOld(folder, manifest, before)
      manifest.description
        .filterNot(before.flatMap(_.description).contains)
        .foreach(folder.removeDescriptions(manifest.version, _))
    } catch { case NonFatal(error) => logWarning(s"Old files of $root could not be removed", error) }

  /**
   * Keeps the files: without a manifest they have no meaning, and one that names them may exist.
   */
  override def abort(epoch: Long, messages: Array[WriterCommitMessage]): Unit = ()
}

private[streamjoin] object ArrangementWrite {

  /** The error for a query that was not created by `sj.arrange`. */
  def notOurs(root: Path): AnalysisException =
    StreamJoinErrors.analysis("STREAMJOIN_ARRANGEMENT_SINK", "arrangement" -> root.toString)

  /** Two queries cannot maintain one arrangement. */
  def checkOwner(root: Path, manifest: Manifest, queryId: UUID): Unit =
    if (manifest.queryId != queryId) throw owned(root, manifest)

  private[arrangement] def owned(root: Path, manifest: Manifest) = StreamJoinErrors.analysis(
    "STREAMJOIN_ARRANGEMENT_OWNED",
    "arrangement" -> root.toString,
    "version" -> manifest.version.toString,
    "owner" -> manifest.queryId.toString
  )

  /** A version belongs to one batch: the one with its number and the same offsets. */
  private[arrangement] def checkBatch(root: Path, manifest: Manifest, batch: Option[BatchOffsets]): Unit =
    for (wrote <- manifest.batch; now <- batch if wrote != now)
      throw Restored.otherBatch(root.toString, manifest.version, wrote, now)
}

final private case class OutputMessage(outputs: Seq[TaskOutput]) extends WriterCommitMessage

final private class OutputWriterFactory(root: String) extends StreamingDataWriterFactory {
  override def createWriter(partition: Int, task: Long, epoch: Long): DataWriter[InternalRow] =
    new DataWriter[InternalRow] {
      private val outputs = mutable.ArrayBuffer.empty[TaskOutput]
      override def write(row: InternalRow): Unit =
        outputs += TaskOutput.fromBytes(row.getBinary(0)).getOrElse {
          throw StreamJoinErrors.runtime("STREAMJOIN_ARRANGEMENT_SINK", "arrangement" -> root)
        }
      override def commit(): WriterCommitMessage = OutputMessage(outputs.toSeq)
      override def abort(): Unit = ()
      override def close(): Unit = ()
    }
}
