package org.apache.spark.sql.streamjoin.arrangement.source

import java.util.{Map => JMap, Optional}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  KnowsLatestOffset,
  LeaseFiles,
  Manifest,
  Snapshot
}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** The changes of an arrangement as a stream; its offsets are versions. */
final private[streamjoin] class ArrangementStream(
    val arrangement: ArrangementRef,
    options: ArrangementOptions,
    checkpoint: String,
    spec: () => PartitionReaderFactory,
    startOf: ArrangementStream => Snapshot = RunVersions.startOf
)(versions: ArrangementFolder => RunVersions)
    extends MicroBatchStream
    with SupportsAdmissionControl
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics
    with KnowsLatestOffset {

  /** Distinguishes it from other streams of the same arrangement in a query. */
  def source: Option[String] = options.source

  private val folder = options.open()
  private val leases = new LeaseFiles(folder)
  private val reader = LeaseFiles.reader(checkpoint)
  leases.resume(reader)

  /** Shared with the other streams of the arrangement in the run. */
  private val ofRun = versions(folder)
  ofRun.add(this)

  override def initialOffset: Offset = Snapshot.Nothing
  override def deserializeOffset(json: String): Offset = Snapshot.fromJson(json)
  override def latestOffset: Offset = throw new UnsupportedOperationException(
    "latestOffset(Offset, ReadLimit)"
  )

  override def getDefaultReadLimit: ReadLimit = ReadLimit.allAvailable()

  override def prepareForTriggerAvailableNow(): Unit = ofRun.stopAtNewest()

  private def snapshot(version: Long, slices: Option[(Int, Int)] = None): Snapshot =
    Snapshot(version, slices, Some(arrangement.meta.id), Some(ofRun.idOf(version).id))

  /** Fails for a snapshot of another arrangement or version, which is meaningless here. */
  def checked(seen: Snapshot): Snapshot = ofRun.checked(seen)

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val seen = checked(Snapshot.of(start))
    val last = ofRun.last(this)
    val own = reachable(seen, last)
    val others = ofRun.all.filterNot(_ eq this).map(other => other.reachable(startOf(other), last))
    // The newest version that all streams can reach. If one stream is ahead, it waits and the
    // others catch up. This happens when a query restarts that was created before batches had a
    // single version.
    val common = math.max((own +: others).map(_._1).max, (own +: others).map(_._2).min)
    val version = math.min(math.max(common, own._1), own._2)
    val next =
      if (seen.isEmpty) first(version)
      else
        seen.slices match {
          case Some((slices, all)) if slices + 1 < all => snapshot(seen.version, Some((slices + 1, all)))
          // An offset without its id, as an earlier release recorded it, is the same offset.
          case None if version == seen.version => Snapshot.of(start)
          case _ => snapshot(version)
        }
    if (next.isEmpty) null else next
  }

  /** The lowest and the highest end version of a batch that starts with a snapshot. */
  private def reachable(seen: Snapshot, last: Long): (Long, Long) =
    if (seen.isEmpty) (-1, last)
    else {
      val highest =
        if (seen.slices.isDefined) seen.version
        else options.maxVersions.fold(last)(most => math.min(last, seen.version + most))
      (seen.version, math.max(seen.version, highest))
    }

  /** The first snapshot of a new reader. The reader gets its lease before it starts reading. */
  private def first(last: Long): Snapshot =
    if (last < 0) Snapshot.Nothing
    else {
      leases.renew(reader, last, Some(ofRun.idOf(last).id))
      val since = folder.manifest(folder.newest).since
      // Its version may have been removed while the lease was written.
      if (last < since) first(ofRun.look())
      else {
        val rows = folder.manifest(last).counts.getOrElse(Manifest.Rows, 0L)
        val slices = options.maxRows.fold(1L)(most => math.min(MaxSlices, (rows + most - 1) / most))
        if (slices <= 1) snapshot(last) else snapshot(last, Some((1, slices.toInt)))
      }
    }

  private val MaxSlices = 100000L

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val (seen, next) = (checked(Snapshot.of(start)), checked(Snapshot.of(end)))
    if (!seen.isEmpty)
      folder
        .manifest(folder.newestFrom(ofRun.newest))
        .checkRetains(seen.version, arrangement.root, StreamJoinErrors.analysis(_, _: _*))
    ReadPartition.all(arrangement.meta, seen, next)
  }

  override def createReaderFactory: PartitionReaderFactory = spec()

  /** Versions before `end` are not read again. */
  override def commit(end: Offset): Unit = {
    val seen = Snapshot.of(end)
    leases.renew(reader, seen.version, seen.id)
  }

  /** Whether an offset was the newest version when it was last checked. */
  override def isLatest(end: Offset): Boolean = {
    val seen = Snapshot.of(end)
    seen.slices.isEmpty && seen.version >= ofRun.newest
  }

  override def stop(): Unit = ()

  @volatile private var figures = (-1L, Seq.empty[ReaderFigures])

  /**
   * Metrics of the look-ups of a batch. Spark may plan a batch several times, as 4.1 always does; a
   * plan that does not run has loaded nothing.
   */
  def report(batch: Long, planned: Seq[ReaderFigures]): Unit = {
    val before = if (figures._1 == batch) figures._2 else Nil
    figures = batch -> (before ++ planned)
  }

  /** The number of rows of a version, read once. */
  private var rowsOf = (-1L, "0")

  override def metrics(latest: Optional[Offset]): JMap[String, String] = {
    val version = latest.map[Long](offset => Snapshot.of(offset).version).orElse(-1L)
    if (version >= 0 && rowsOf._1 != version)
      rowsOf =
        (version, folder.manifestOf(version).flatMap(_.counts.get(Manifest.Rows)).fold("unknown")(_.toString))
    val ofVersion = Map(
      "version" -> version.toString,
      "versionsBehind" -> math.max(0L, ofRun.newest - version).toString,
      "rows" -> rowsOf._2
    )
    (ofVersion ++ ReaderFigures.inProgress(figures._2)).asJava
  }

  override def toString: String = s"streamjoin ${arrangement.root}"
}
