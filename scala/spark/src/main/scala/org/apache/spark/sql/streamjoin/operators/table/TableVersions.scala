package org.apache.spark.sql.streamjoin.operators.table

import java.util.UUID

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement._
import org.apache.spark.sql.streamjoin.base.{JsonLog, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.operators.PlannedBatch

/**
 * `<checkpoint>/tables/<arrangement>/<batch>`: the version of an arrangement that the look-ups of a
 * batch see; where the query streams the arrangement as well, the one to which its streams come. It
 * is written while the batch is planned, after Spark has written its offsets; a batch that runs
 * again sees the same.
 */
final private[table] class TableVersions(session: SparkSession, checkpoint: Path, root: Path)
    extends JsonLog[Snapshot](session, checkpoint, TableVersions.directory(root)) {
  override protected def version: Int = 1

  override protected def toJson(entry: Snapshot, node: ObjectNode): Unit = {
    node.put("number", entry.version)
    entry.arrangement.foreach(id => node.put("arrangement", id.toString))
  }

  override protected def fromJson(node: JsonNode): Snapshot = Snapshot(
    node.get("number").asLong,
    None,
    Option(node.get("arrangement")).map(id => UUID.fromString(id.asText))
  )
}

private[table] object TableVersions extends Logging {
  private val Poll = 200L
  private val PollsOfALog = 300
  private val PurgeInterval = 10L

  /** A table has changed since a batch. Spark asks in every poll, so the folder is not listed. */
  def hasChanged(folder: ArrangementFolder, seen: Long): Boolean =
    // A version that has gone was too old, or another arrangement's.
    folder.hasVersion(seen + 1) || !folder.hasVersion(seen) && folder.newest != seen

  private def directory(root: Path): String = s"tables/${Leases.reader(root.toString)}"

  private def log(session: SparkSession, batch: PlannedBatch, table: TableOptions) =
    new TableVersions(
      session,
      new Path(batch.execution.checkpointLocation).getParent,
      table.options.root
    )

  /** What the batch before saw, once the versions of the batch are decided. */
  def before(session: SparkSession, batch: PlannedBatch, table: TableOptions): Snapshot =
    log(session, batch, table).get(batch.execution.currentBatchId - 1).getOrElse(Snapshot.Nothing)

  /**
   * What the look-ups of a batch see of an arrangement. The first look-up that is planned decides:
   * it waits until the table has loaded, holds the newest version by a lease, and writes which one
   * it is into the checkpoint. The look-ups after it read that.
   */
  def decide(session: SparkSession, batch: PlannedBatch, table: TableOptions): Snapshot = {
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
    decided.getOrElse {
      if (number == 0) awaitLoaded(batch, folder, root)
      val reader = Leases.reader(log.metadataPath.toString)
      val before = log.get(number - 1).fold(-1L)(_.version)
      val version = streamed(batch, id) match {
        case Some(version) =>
          // Never back: a query from before there was one version a batch may have seen a later
          // one.
          val at = math.max(version, before)
          hold(folder, reader, at, before)
          at
        case None => held(folder, reader, before)
      }
      val seen = Snapshot(version, None, Some(id))
      log.add(number, seen)
      if (number % PurgeInterval == 0) log.purge(number - SQLConf.get.minBatchesToRetain)
      seen
    }
  }

  /** The version to which the streams of an arrangement come in a batch, as its offsets say. */
  private def streamed(batch: PlannedBatch, arrangement: UUID): Option[Long] =
    batch.context.endOffsets.collect {
      case (stream: ArrangementStream, offset) if stream.arrangement.meta.id == arrangement =>
        Snapshot.of(offset).version
    }.maxOption

  /** With the version before it, for look-ups of that. */
  private def hold(folder: ArrangementFolder, reader: String, version: Long, before: Long): Unit =
    new Leases(folder).renew(reader, math.max(0, (if (before < 0) version else before) - 1))

  /**
   * The newest version, which stays for as long as the batch may run again; with what has changed
   * since the batch before.
   */
  private def held(folder: ArrangementFolder, reader: String, before: Long): Long = {
    val newest = folder.newest
    if (newest >= 0) {
      hold(folder, reader, newest, before)
      // It may have gone while the lease was written.
      if (newest - 1 < folder.manifest(folder.newest).since && newest < folder.newest)
        held(folder, reader, before)
      else newest
    } else newest
  }

  /**
   * A stream does not start before its table has loaded, as any of its look-ups wants it. The query
   * can be stopped while it waits.
   */
  private def awaitLoaded(batch: PlannedBatch, folder: ArrangementFolder, root: Path): Unit = {
    val wanted = batch.execution.logical.collect {
      case TableJoin.Arranged(table, _) if table.options.root == root => table.atLeast
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
      if (polls % PollsOfALog == 0) logWarning(s"$waits. Does the query run that maintains it?")
      polls += 1
      Thread.sleep(Poll)
      awaited = missing
    }
  }
}
