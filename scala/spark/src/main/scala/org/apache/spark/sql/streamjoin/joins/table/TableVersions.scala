package org.apache.spark.sql.streamjoin.joins.table

import java.util.UUID

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.source.{
  ArrangementStream,
  AtLeast,
  LookedUpTable,
  TableOptions
}
import org.apache.spark.sql.streamjoin.arrangement.storage._
import org.apache.spark.sql.streamjoin.base.{JsonLog, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.batch.PlannedBatch

/**
 * `<checkpoint>/tables/<arrangement>/<batch>`: the version of an arrangement that the look-ups of a
 * batch see. If the query also streams the arrangement, it is the version at which those streams
 * end. It is written while the batch is planned, after Spark has written its offsets; a retry of
 * the batch sees the same version.
 */
final private[table] class TableVersions(session: SparkSession, checkpoint: Path, root: Path)
    extends JsonLog[Snapshot](session, checkpoint, TableVersions.directory(root)) {
  override protected def version: Int = 1

  override protected def toJson(entry: Snapshot, node: ObjectNode): Unit = {
    node.put("number", entry.version)
    entry.arrangement.foreach(id => node.put("arrangement", id.toString))
    entry.id.foreach(id => node.put("id", id.toString))
  }

  override protected def fromJson(node: JsonNode): Snapshot = {
    def id(name: String) = Option(node.get(name)).map(id => UUID.fromString(id.asText))
    Snapshot(node.get("number").asLong, None, id("arrangement"), id("id"))
  }
}

private[streamjoin] object TableVersions extends Logging {
  private val Poll = 200L
  private val PollsOfALog = 300
  private val PurgeInterval = 10L

  /** Whether a table has changed since a batch saw it. */
  final class Changes(folder: ArrangementFolder, seen: Option[VersionId]) {
    private val number = seen.fold(-1L)(_.number)
    private var stamp = Option.empty[(Long, Long)]

    /** Spark polls this, so the folder is rarely listed. */
    def haveCome: Boolean = folder.hasVersion(number + 1) || {
      val now = folder.stampOf(number)
      // A missing version was too old or belonged to another arrangement.
      (now.isEmpty || now != stamp) && {
        stamp = now
        folder.newest != number || seen.exists(of => folder.manifestOf(number).forall(_.id != of.id))
      }
    }
  }

  private def directory(root: Path): String = s"tables/${LeaseFiles.reader(root.toString)}"

  private def log(session: SparkSession, batch: PlannedBatch, table: TableOptions) =
    new TableVersions(
      session,
      new Path(batch.execution.checkpointLocation).getParent,
      table.options.root
    )

  /**
   * The snapshot that the previous batch saw. Call it once the versions of the batch are decided.
   */
  def before(session: SparkSession, batch: PlannedBatch, table: TableOptions): Snapshot =
    log(session, batch, table).get(batch.execution.currentBatchId - 1).getOrElse(Snapshot.Nothing)

  /**
   * The first step of a batch, while it is planned: decides which snapshot of an arrangement its
   * look-ups see. The first look-up waits until the table has loaded, leases the newest version,
   * and writes its number to the checkpoint. The other look-ups read it from there.
   *
   * @return
   *   none in EXPLAIN, which does not look up anything
   */
  def beginBatch(session: SparkSession, table: TableOptions): Option[Snapshot] =
    PlannedBatch.current(session).map(decide(session, _, table))

  private def decide(session: SparkSession, batch: PlannedBatch, table: TableOptions): Snapshot = {
    val number = batch.execution.currentBatchId
    val root = table.options.root
    val log = this.log(session, batch, table)
    val folder = table.options.open()
    val id = folder.meta.id
    val decided = log.get(number)
    decided.orElse(log.get(number - 1)).foreach { seen =>
      if (!seen.arrangement.contains(id))
        throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGEMENT_REPLACED", "arrangement" -> root.toString)
    }
    val reader = LeaseFiles.reader(log.metadataPath.toString)
    // The batch runs again.
    if (decided.isDefined) new LeaseFiles(folder).resume(reader)
    decided.map(withId(folder, _)).getOrElse {
      val last = log.get(number - 1)
      if (last.isEmpty) awaitLoaded(batch, folder, root)
      val before = last.fold(-1L)(_.version)
      val version = streamed(batch, id) match {
        case Some(at) =>
          // Never go back: the query may have seen a later version before batches had a single one.
          val later = last.filter(_.version > at.version).map(withId(folder, _)).getOrElse(at)
          hold(folder, reader, later.version, before)(folder.manifestOf)
          later.versionId
        case None => held(folder, reader, before)
      }
      val seen = Snapshot(version.fold(-1L)(_.number), None, Some(id), version.map(_.id))
      log.add(number, seen)
      if (number % PurgeInterval == 0) log.purge(number - SQLConf.get.minBatchesToRetain)
      seen
    }
  }

  /** The version at which the streams of an arrangement end in a batch, from its offsets. */
  private def streamed(batch: PlannedBatch, arrangement: UUID): Option[Snapshot] =
    batch.context.endOffsets
      .collect {
        case (stream: ArrangementStream, offset) if stream.arrangement.meta.id == arrangement =>
          stream.checked(Snapshot.of(offset))
      }
      .maxByOption(_.version)

  /**
   * A recorded snapshot. One without an id, written by an earlier release, gets the id of the
   * version that it names.
   */
  private def withId(folder: ArrangementFolder, seen: Snapshot): Snapshot =
    if (seen.isEmpty || seen.id.isDefined) seen
    else
      seen.copy(id = Some(folder.manifestOf(seen.version).map(_.id).getOrElse {
        throw Restored.ofReader(folder.root.toString, seen.version, folder.newest)
      }))

  /**
   * Whether a table is still the one that a batch has seen, possibly with newer versions. Versions
   * that were too old to be kept cannot be verified.
   */
  def isContinued(folder: ArrangementFolder, seen: Snapshot): Boolean =
    folder.manifestOf(seen.version).exists(manifest => seen.id.forall(_ == manifest.id))

  /** Leases the versions since the previous batch, and one more for look-ups of `previous`. */
  private def hold(folder: ArrangementFolder, reader: String, version: Long, before: Long)(
      manifestOf: Long => Option[Manifest]
  ): Unit = {
    val since = if (before < 0) version else math.min(before, version)
    val leased = math.max(0, since - 1)
    // The manifest of a version names the one before it.
    val id = manifestOf(since).flatMap(of => if (leased == since) Some(of.id) else of.previous)
    new LeaseFiles(folder).renew(reader, leased, id)
  }

  /**
   * Leases the newest version for as long as the batch may run again, with the changes since the
   * previous batch.
   */
  private def held(folder: ArrangementFolder, reader: String, before: Long): Option[VersionId] = {
    val newest = folder.newestFrom(before)
    if (newest < 0) None
    else {
      lazy val found = folder.manifestOf(newest)
      hold(folder, reader, newest, before)(at => if (at == newest) found else folder.manifestOf(at))
      val now = folder.newestFrom(newest)
      val last = found.filter(_.version == now).getOrElse(folder.manifest(now))
      // It may have been removed while the lease was written.
      if (newest != last.version && newest - 1 < last.since) held(folder, reader, before)
      else if (newest == last.version) Some(last.versionId)
      else Some(folder.manifest(newest).versionId)
    }
  }

  /**
   * Delays a stream until its table has loaded as much as its look-ups require. The query can be
   * stopped while it waits.
   */
  private def awaitLoaded(batch: PlannedBatch, folder: ArrangementFolder, root: Path): Unit = {
    val wanted = batch.execution.logical.collect {
      case LookedUpTable(table, _) if table.options.root == root => table.atLeast
    }.flatten
    def missing = wanted.find {
      case AtLeast.Version(number) => folder.newest < number
      case AtLeast.All => !CaughtUp.holds(folder)
    }
    def text(wanted: AtLeast) = wanted match {
      case AtLeast.Version(number) => s"has version $number"
      case AtLeast.All => "has caught up with its sources"
    }
    var polls = 0
    var awaited = missing
    while (awaited.isDefined) {
      val waits =
        s"Waiting until the arrangement $root ${text(awaited.get)}; its newest version is ${folder.newest}"
      batch.context.updateStatusMessage(waits)
      if (polls % PollsOfALog == 0) logWarning(s"$waits. Is the query that maintains it running?")
      polls += 1
      Thread.sleep(Poll)
      awaited = missing
    }
  }
}
