package org.apache.spark.sql.streamjoin.arrangement

import java.util.{Map => JMap, Optional}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeRow}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{HadoopConf, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * Reads an arrangement.
 *
 * @param changes
 *   its changes in a stream; otherwise its rows at a version
 */
final private[streamjoin] class ArrangementScan(
    arrangement: ArrangementRef,
    options: ArrangementOptions,
    changes: Boolean
) extends Scan
    with Batch {
  override def readSchema: StructType =
    if (changes) ChangesTable.schema(arrangement.meta.schema) else arrangement.meta.schema

  override def description: String = s"streamjoin ${arrangement.root}"

  private def spec: ReadSpec = ReadSpec(
    arrangement,
    changes,
    SQLConf.get.getConf(StreamJoinConf.ExecutorIndexMemory),
    HadoopConf.of(SparkSession.active)
  )

  // Batch.

  override def toBatch: Batch = this

  override def planInputPartitions: Array[InputPartition] = {
    val folder = options.open()
    val newest = folder.newest
    val version = options.version.getOrElse(newest)
    if (version > newest)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NO_VERSION",
        "arrangement" -> arrangement.root,
        "version" -> version.toString,
        "newest" -> newest.toString
      )
    if (version >= 0) ReadPartition.checkRetained(arrangement, version, folder.manifest(newest).since)
    ReadPartition.all(arrangement.meta, Snapshot.Nothing, Snapshot(version))
  }

  override def createReaderFactory: PartitionReaderFactory = spec

  // Stream.

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new ArrangementStream(arrangement, options, checkpoint, () => spec)
}

/** The changes of an arrangement as a stream; its offsets are versions. */
final private[streamjoin] class ArrangementStream(
    val arrangement: ArrangementRef,
    options: ArrangementOptions,
    checkpoint: String,
    spec: () => PartitionReaderFactory
) extends MicroBatchStream
    with SupportsAdmissionControl
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics {

  /** Tells it from other streams of the same arrangement in a query. */
  def source: Option[String] = options.source

  private val folder = options.open()
  private val leases = new Leases(folder)
  private val reader = Leases.reader(checkpoint)

  private var newest = -1L
  private var until: Option[Long] = None

  override def initialOffset: Offset = Snapshot.Nothing
  override def deserializeOffset(json: String): Offset = Snapshot.fromJson(json)
  override def latestOffset: Offset = throw new UnsupportedOperationException(
    "latestOffset(Offset, ReadLimit)"
  )

  override def getDefaultReadLimit: ReadLimit = ReadLimit.allAvailable()

  override def prepareForTriggerAvailableNow(): Unit = until = Some(newestVersion())

  /** The next version's file is looked for; folders are not listed in every poll. */
  private def newestVersion(): Long = {
    if (newest < 0) newest = folder.newest
    else while (folder.hasVersion(newest + 1)) newest += 1
    newest
  }

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val seen = Snapshot.of(start)
    val last = until.fold(newestVersion())(math.min(_, newestVersion()))
    val next =
      if (seen.isEmpty) first(last)
      else
        seen.slices match {
          case Some((slices, all)) if slices + 1 < all => Snapshot(seen.version, Some((slices + 1, all)))
          case Some(_) => Snapshot(seen.version)
          case None =>
            Snapshot(
              math.max(
                seen.version,
                options.maxVersions.fold(last)(most => math.min(last, seen.version + most))
              )
            )
        }
    if (next.isEmpty) null else next
  }

  /** A new reader holds what it begins with before it begins. */
  private def first(last: Long): Snapshot =
    if (last < 0) Snapshot.Nothing
    else {
      leases.renew(reader, last)
      val since = folder.manifest(folder.newest).since
      // Its version may have gone while the lease was written.
      if (last < since) first(newestVersion())
      else {
        val rows = folder.manifest(last).counts.getOrElse(Manifest.Rows, 0L)
        val slices = options.maxRows.fold(1L)(most => math.min(MaxSlices, (rows + most - 1) / most))
        if (slices <= 1) Snapshot(last) else Snapshot(last, Some((1, slices.toInt)))
      }
    }

  private val MaxSlices = 100000L

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val (seen, next) = (Snapshot.of(start), Snapshot.of(end))
    if (!seen.isEmpty)
      ReadPartition.checkRetained(arrangement, seen.version, folder.manifest(folder.newest).since)
    ReadPartition.all(arrangement.meta, seen, next)
  }

  override def createReaderFactory: PartitionReaderFactory = spec()

  /** What comes before it is not read again. */
  override def commit(end: Offset): Unit = leases.renew(reader, Snapshot.of(end).version)

  override def stop(): Unit = ()

  /** What the batch that is being planned will have loaded, by the operators that look up. */
  @volatile var figures: Seq[ReaderFigures] = Nil

  /** How many rows a version has, looked up once. */
  private var rowsOf = (-1L, "0")

  override def metrics(latest: Optional[Offset]): JMap[String, String] = {
    val version = latest.map[Long](offset => Snapshot.of(offset).version).orElse(-1L)
    if (version >= 0 && rowsOf._1 != version)
      rowsOf =
        (version, folder.manifestOf(version).flatMap(_.counts.get(Manifest.Rows)).fold("unknown")(_.toString))
    val ofVersion = Map(
      "version" -> version.toString,
      "versionsBehind" -> math.max(0L, newest - version).toString,
      "rows" -> rowsOf._2
    )
    (ofVersion ++ ReaderFigures.inProgress(figures)).asJava
  }

  override def toString: String = s"streamjoin ${arrangement.root}"
}

/** One partition of the primary index, of what lies between two snapshots. */
final private[streamjoin] case class ReadPartition(partition: Int, start: Snapshot, end: Snapshot)
    extends InputPartition

private[streamjoin] object ReadPartition {
  def all(meta: ArrangementMeta, start: Snapshot, end: Snapshot): Array[InputPartition] =
    if (end.isEmpty || start == end) Array.empty
    else Array.tabulate(meta.partitions)(ReadPartition(_, start, end))

  def checkRetained(arrangement: ArrangementRef, version: Long, since: Long): Unit =
    if (version < since)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGEMENT_RETENTION",
        "arrangement" -> arrangement.root,
        "version" -> version.toString,
        "since" -> since.toString
      )
}

/** How a task reads an arrangement. */
final private[streamjoin] case class ReadSpec(
    arrangement: ArrangementRef,
    changes: Boolean,
    executorIndexMemory: Option[Long],
    hadoopConf: Broadcast[SerializableConfiguration]
) extends PartitionReaderFactory {

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val ReadPartition(number, start, end) = partition.asInstanceOf[ReadPartition]
    val reader = new ChangeReader(arrangement, IndexRegistry(executorIndexMemory), hadoopConf.value.value)
    val rows =
      if (changes) reader.changes(number, start, end).map(reader.withVersion)
      else
        reader.changes(number, start, end).flatMap(change => Iterator.fill(change.copies.toInt)(change.row))
    new PartitionReader[InternalRow] {
      private var current: InternalRow = _
      override def next(): Boolean = {
        val more = rows.hasNext
        if (more) current = rows.next()
        more
      }
      override def get(): InternalRow = current
      override def close(): Unit = ()
    }
  }
}

/** A row with the version and the number of copies with which it came or went. */
final private[streamjoin] case class Change(row: UnsafeRow, version: Long, copies: Long)

/** Reads what lies between two snapshots. */
final private[streamjoin] class ChangeReader(
    arrangement: ArrangementRef,
    registry: IndexRegistry,
    hadoopConf: Configuration
) {
  private val meta = arrangement.meta
  private val root = new org.apache.hadoop.fs.Path(arrangement.root)
  private val folder = new ArrangementFolder(root, hadoopConf)
  private val key = RowKey.of(meta, 0)

  private val tail = new GenericInternalRow(2)
  private val joined = new JoinedRow

  /** As [[ChangesTable.schema]] has it. */
  def withVersion(change: Change): InternalRow = {
    tail.setLong(0, change.version)
    tail.setLong(1, change.copies)
    joined(change.row, tail)
  }

  /** A row is valid until the next one is asked for. */
  def changes(partition: Int, start: Snapshot, end: Snapshot): Iterator[Change] =
    if (start.isEmpty || start.slices.isDefined) begun(partition, start, end)
    else (start.version + 1 to end.version).iterator.flatMap(changesOf(partition, _))

  private def changesOf(partition: Int, version: Long): Iterator[Change] =
    for {
      file <- manifest(version).changes.iterator
      block <- file.blocks.iterator
      if block.index == 0 && block.partition == partition
      bytes = BlockFiles.read(root, file.path, block, hadoopConf)
      at <- positions(bytes)
    } yield {
      val row = new UnsafeRow(meta.schema.length)
      Block.point(row, bytes, at)
      Change(row, version, Block.copies(bytes, at).toLong)
    }

  private def manifest(version: Long): Manifest = folder.manifestOf(version).getOrElse {
    // It may have gone because it is too old.
    folder.manifestOf(folder.newest).foreach { newest =>
      ReadPartition.checkRetained(arrangement, version - 1, newest.since)
    }
    folder.manifest(version)
  }

  private def positions(bytes: Array[Byte]): Iterator[Int] =
    Iterator.iterate(0)(Block.next(bytes, _)).takeWhile(_ < bytes.length)

  /** The rows of the version with which a reader begins, or the next slice of them. */
  private def begun(partition: Int, start: Snapshot, end: Snapshot): Iterator[Change] = {
    val version = end.version
    val index = registry.get(arrangement, 0, partition, version, version, hadoopConf, new LoadStats)
    index.rowsOf(version).collect {
      case (row, copies) if {
            val hash = key.hash(row); end.has(hash) && (start.isEmpty || !start.has(hash))
          } =>
        Change(row, version, copies.toLong)
    }
  }
}
