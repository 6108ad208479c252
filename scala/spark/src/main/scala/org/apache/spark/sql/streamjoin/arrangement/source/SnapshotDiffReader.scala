package org.apache.spark.sql.streamjoin.arrangement.source

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeRow}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.streamjoin.arrangement.index.{
  ArrangementRef,
  IndexLoader,
  IndexRegistry,
  IndexSettings,
  LoadStats
}
import org.apache.spark.sql.streamjoin.arrangement.storage._
import org.apache.spark.util.SerializableConfiguration

/** The changes between two snapshots, in one partition of the primary index. */
final private[streamjoin] case class ReadPartition(partition: Int, start: Snapshot, end: Snapshot)
    extends InputPartition

private[streamjoin] object ReadPartition {
  def all(meta: ArrangementMeta, start: Snapshot, end: Snapshot): Array[InputPartition] =
    if (end.isEmpty || start == end) Array.empty
    else Array.tabulate(meta.partitions)(ReadPartition(_, start, end))
}

/** The data that a task needs to read an arrangement. */
final private[streamjoin] case class ReadSpec(
    arrangement: ArrangementRef,
    changes: Boolean,
    indexes: IndexSettings,
    hadoopConf: Broadcast[SerializableConfiguration]
) extends PartitionReaderFactory {

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val ReadPartition(number, start, end) = partition.asInstanceOf[ReadPartition]
    val reader = new SnapshotDiffReader(arrangement, IndexRegistry(indexes), hadoopConf.value.value)
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

/** A row with the version that added or removed it, and the number of copies. */
final private[streamjoin] case class Change(row: UnsafeRow, version: Long, copies: Long)

/** Reads the changes between two snapshots. */
final private[streamjoin] class SnapshotDiffReader(
    arrangement: ArrangementRef,
    registry: IndexRegistry,
    hadoopConf: Configuration
) {
  private val meta = arrangement.meta
  private val root = new Path(arrangement.root)
  private val folder = new ArrangementFolder(root, hadoopConf)
  private val converters = mutable.Map.empty[Option[String], Option[StoredRows]]

  private val tail = new GenericInternalRow(2)
  private val joined = new JoinedRow

  /** A row with the columns of [[ChangesTable.schema]]. */
  def withVersion(change: Change): InternalRow = {
    tail.setLong(0, change.version)
    tail.setLong(1, change.copies)
    joined(change.row, tail)
  }

  /** A row is valid until the next one is read. */
  def changes(partition: Int, start: Snapshot, end: Snapshot): Iterator[Change] =
    if (end.isEmpty || start == end) Iterator.empty
    else if (start.isEmpty || start.slices.isDefined) begun(partition, start, end)
    else
      registry
        .manifests(arrangement, start.version + 1, end.versionId.get, folder)
        .iterator
        .flatMap(changesOf(partition, _))

  private def changesOf(partition: Int, manifest: Manifest): Iterator[Change] = {
    val view = new BlockView(
      IndexPartition(meta, 0, partition),
      manifest.partitions,
      converters.getOrElseUpdate(manifest.description, registry.storedRows(arrangement, manifest, folder)),
      of = 0
    )
    val found = for {
      file <- manifest.changes.iterator
      block <- file.blocks.iterator
      if view.canBeIn(block)
      version = manifest.version
      bytes = IndexLoader.orRetained(arrangement, version - 1, folder) {
        registry.blockOf(root, file.path, block, view, hadoopConf)
      }
      at <- positions(bytes)
    } yield Change(rowAt(bytes, at), version, Block.copies(bytes, at).toLong)
    if (view.mayMerge) consolidated(found) else found
  }

  /** Without changes that the reader does not see, because they are in a column that it lacks. */
  private def consolidated(changes: Iterator[Change]): Iterator[Change] = {
    val sums = mutable.LinkedHashMap.empty[UnsafeRow, Change]
    changes.foreach { change =>
      val before = sums.get(change.row).fold(0L)(_.copies)
      sums(change.row) = change.copy(copies = change.copies + before)
    }
    sums.valuesIterator.filter(_.copies != 0)
  }

  private def rowAt(bytes: Array[Byte], at: Int): UnsafeRow = {
    val row = new UnsafeRow(meta.schema.length)
    Block.point(row, bytes, at)
    row
  }

  private def positions(bytes: Array[Byte]): Iterator[Int] =
    Iterator.iterate(0)(Block.next(bytes, _)).takeWhile(_ < bytes.length)

  /** The rows of a reader's first version, or their next slice. */
  private def begun(partition: Int, start: Snapshot, end: Snapshot): Iterator[Change] = {
    val version = end.version
    val index =
      registry.get(arrangement, 0, partition, version, end.versionId.get, hadoopConf, new LoadStats)
    def isNew(hash: Int) = end.has(hash) && (start.isEmpty || !start.has(hash))
    index.rowsOf(version, isNew).map { case (row, copies) => Change(row, version, copies.toLong) }
  }
}
