package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.streamjoin.arrangement.index.{
  ArrangementRef,
  IndexRegistry,
  IndexSettings,
  KeyIndex,
  LoadStats,
  ProbeResult
}
import org.apache.spark.sql.streamjoin.arrangement.storage._
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, UnreadMessages}
import org.apache.spark.sql.streamjoin.laterows.{LateRows, LateRowsWriter}

import streamjoin.core.{LastChange, Operation}

/**
 * The data that the tasks of a batch need.
 *
 * @param before
 *   the previous version, if there is one
 * @param run
 *   run id of the query
 * @param batchTime
 *   time of the batch, in milliseconds since the epoch
 * @param deletedKeysMaxAge
 *   how long the time of a deletion is remembered, in milliseconds
 * @param timeToLive
 *   decides which rows are too old to be kept, if rows are dropped
 * @param writesBase
 *   writes the base of the previous version
 * @param dropsDeletions
 *   removes the deletions that no longer count
 * @param rows
 *   columns of the arrangement; they come first in the input
 * @param change
 *   operation or number of copies, the next column of the input
 * @param position
 *   the position in a log, the last columns of the input
 * @param traits
 *   how the changes of a changelog are interpreted
 * @param lateRows
 *   where outdated changes, and updates and deletes of unknown keys, are kept, if anywhere
 */
final private[streamjoin] case class ArrangeSpec(
    arrangement: ArrangementRef,
    version: Long,
    before: Option[VersionId],
    run: UUID,
    batchTime: Long,
    deletedKeysMaxAge: Long,
    timeToLive: Option[TimeToLive],
    writesBase: Boolean,
    dropsDeletions: Boolean,
    rows: Seq[Attribute],
    change: Option[Attribute],
    position: Seq[Attribute],
    traits: LogTraits,
    indexes: IndexSettings,
    lateRows: Option[LateRows.Spec]
)

/**
 * Converts the rows of one partition of a batch into changes of the arrangement.
 *
 * @param changes
 *   receives the changes: a file, or rows for other tasks that write them
 */
final private[streamjoin] class ArrangeTask(
    spec: ArrangeSpec,
    partition: Int,
    changes: BlockWriter,
    hadoopConf: Configuration
) {

  private val meta = spec.arrangement.meta
  private val root = new Path(spec.arrangement.root)
  private val registry = IndexRegistry(spec.indexes)
  private val keys = meta.keys.indices.map(RowKey.of(meta, _))
  private val input = spec.rows ++ spec.change ++ spec.position

  /** Normalizes -0.0 to 0.0, as GROUP BY does: updates may add one and remove the other. */
  private lazy val toRow = {
    val columns: Seq[Expression] =
      if (meta.input == InputKind.Updates) spec.rows.map(NormalizeFloatingNumbers.normalize) else spec.rows
    UnsafeProjection.create(columns, input)
  }
  private val baseFile = Base.file(root, spec.version - 1, partition, spec.run, hadoopConf)
  private val keptRows = spec.lateRows.map(new LateRowsWriter(_, partition, hadoopConf))
  private val load = new LoadStats

  private var copies = 0L
  private var changed = 0L

  /** The counts that the manifest adds up, by name. */
  private val counts = mutable.Map.empty[String, Long].withDefaultValue(0L)

  def numberOfChanges: Long = changed

  def figures: Map[String, Long] =
    counts.toMap ++ Map("loadedRows" -> load.rows, "loadTimeMs" -> load.nanos / 1000000)

  /** Processes the rows of the batch, in steps that each make some changes. */
  def steps(input: Iterator[InternalRow]): Iterator[Unit] = dropExpired ++ (meta.input match {
    case InputKind.Appended => input.map(row => add(toRow(row)))
    case InputKind.Updates => input.map(update)
    case InputKind.Changelog => upsert(input)
  }) ++ Iterator.single(()).map { _ =>
    if (spec.dropsDeletions) deleted.foreach(_.dropExpired())
    if (spec.writesBase)
      Base.write(spec.arrangement, spec.version - 1, partition, baseFile)((of, index) =>
        indexBefore(index, of)
      )
  }

  /** Called after the last step; returns the report for the sink. */
  def end(): TaskOutput = {
    keptRows.foreach(_.commit())
    values.foreach(each => counts("unavailableValues") = each.missing)
    TaskOutput(
      changes.commit(),
      baseFile.commit(),
      spec.writesBase,
      counts.toMap + (Manifest.Rows -> copies),
      Some(Origin(meta.id, spec.before.map(_.id))),
      negativeRows.map(partition -> _)
    )
  }

  def abort(): Unit = {
    changes.abort()
    baseFile.abort()
    keptRows.foreach(_.abort())
  }

  /** Adds or removes copies of a row: for each key, in the block of its partition. */
  private def emit(row: UnsafeRow, count: Int): Unit = {
    changed += 1
    copies += count
    keys.indices.foreach { i =>
      val of = if (i == 0) partition else keys(i).partition(row, meta.partitions)
      changes.add(meta.number(i), of, row, count)
    }
  }

  /** Adds a row, unless it is too old to be kept. */
  private def add(row: UnsafeRow): Unit = if (isOver(row)) counts("expiredRows") += 1 else emit(row, 1)

  private def isOver(row: UnsafeRow): Boolean = spec.timeToLive.exists(_.isOver(row))

  /** Removes the rows of the previous version that are too old to be kept. */
  private def dropExpired: Iterator[Unit] = spec.timeToLive.iterator.flatMap { of =>
    before.iterator.flatMap(_.rowsBefore(of.limit, of, spec.version - 1)).map { case (row, count) =>
      emit(row, -count)
      counts("expiredRows") += count
    }
  }

  private val maps = new MapOrder(meta.schema)

  /**
   * An update in the form in which the arrangement stores its row: maps may be stored in another
   * order.
   */
  private def stored(row: UnsafeRow): UnsafeRow = before match {
    case Some(index) if maps.areIn =>
      index.find(row, keys(0).hash(row), spec.version - 1, probe)
      (0 until probe.size).map(probe.row).find(there => maps.sorted(there) == row).getOrElse(row)
    case _ => row
  }

  private def update(row: InternalRow): Unit = {
    val at = meta.schema.length
    if (row.isNullAt(at)) throw notCopies("null")
    val count = row.getLong(at)
    if (!count.isValidInt) throw notCopies(count.toString)
    if (count != 0) {
      val updated = toRow(row)
      emit(if (maps.areIn) stored(maps.sorted(updated).copy()) else updated, count.toInt)
    }
  }

  private def notCopies(diff: String) = StreamJoinErrors.runtime(
    "STREAMJOIN_DIFF",
    "arrangement" -> spec.arrangement.root,
    "diff" -> diff,
    "least" -> Int.MinValue.toString,
    "most" -> Int.MaxValue.toString
  )

  // A changelog.

  /** The primary index at the previous version, if there is one. */
  private lazy val before: Option[KeyIndex] = spec.before.map(_ => indexBefore(0))

  private def indexBefore(index: Int, of: ArrangementRef = spec.arrangement): KeyIndex =
    registry.get(of, index, partition, spec.version - 1, spec.before.get, hadoopConf, load)

  private val probe = new ProbeResult(meta.schema.length, keys(0))

  private val order = new ChangeOrder(meta)

  /** Null in a tombstone: the operation and the row's columns, except time and order. */
  private val emptyColumns = (0 to meta.schema.length).diff(order.ordinals)

  /** The deleted keys, if the changes of a key have a time or an order. */
  private lazy val deleted = Option.when(DeletedKeys.isFor(meta)) {
    new DeletedKeys(
      spec.arrangement,
      order,
      partition,
      spec.batchTime,
      spec.deletedKeysMaxAge,
      (of, index) => spec.before.map(_ => indexBefore(index, of)),
      spec.version,
      changes
    )
  }

  /**
   * Whether a change is older than the row that its key had before the batch, or than the key's
   * delete.
   */
  private def isOlder(row: UnsafeRow): Boolean =
    (0 until probe.size).exists(i => order.isOlder(row, probe.row(i), order.ordinals)) ||
      deleted.exists(_.isOlder(row))

  /** Fills in values that were not sent from the previous row of the key. */
  private lazy val values = Option
    .when(meta.input == InputKind.Changelog)(spec.traits)
    .flatMap(log => log.unavailable.map(new KeptValues(_, log.required, spec)))

  private lazy val position = new LogPosition(meta, spec)

  private lazy val changesOfKey = new LastChange[LogPosition.At](
    (one, other) => one.row == other.row,
    isOrdered = order.ordinals.nonEmpty || spec.traits.hasPosition,
    spec.traits.isEnvelope,
    position.follows
  )

  /** Whether it has been decided if the batch changes a key that does not exist. */
  private var isAsked = false

  /** The last row of each key replaces the row that the key had before the batch. */
  private def upsert(input: Iterator[InternalRow]): Iterator[Unit] = {
    var found: UnsafeRow = null
    def ask(known: Operation, next: InternalRow): Unit =
      // Decided by the key's first row in the batch, apart from a row before an update.
      if (!isAsked && known != Operation.Before) {
        isAsked = true
        if (known != Operation.Insert && probe.size == 0) {
          countUnknown(known)
          keptRows.foreach(_.addUnknown(visible(next)))
        }
      }
    def end(): Unit = if (found != null) endOfKey()
    def step(next: InternalRow): Unit = {
      val known = operationOf(next)
      val written = toRow(next)
      if (found == null || !keys(0).isSame(written, keys(0), found)) {
        end()
        // Once per key.
        find(written)
        found = written.copy()
        changesOfKey.clear()
        isAsked = false
      }
      val row = if (lacksOrder(known, written)) order.completed(written, changesBefore) else written
      // The rows of a key are in time order, so only those of earlier batches can be newer.
      if (isUndated(known, row)) {
        changesOfKey.addUndated(position.of(row.copy(), next))
      } else if (isOlder(row)) {
        if (known != Operation.Before) {
          counts("olderChanges") += 1
          keptRows.foreach(_.addOlder(visible(next)))
        }
      } else {
        ask(known, next)
        if (lacksOrder(known, written)) changesOfKey.addUndated(position.of(written.copy(), next))
        else {
          val kept = values.fold(row)(_.filled(row, known, before(known, row))).copy()
          changesOfKey.add(known, position.of(kept, next))
        }
      }
    }
    input.filterNot(row => isTombstone(row) || isWithoutKey(row)).map(step) ++ Iterator.single(()).map { _ =>
      end()
    }
  }

  /** A delete without a time, or without an order if there are no times. */
  private def isUndated(operation: Operation, row: UnsafeRow): Boolean =
    operation == Operation.Delete && order.ordinals.headOption.exists(row.isNullAt)

  /** A delete with a time, but without an order. */
  private def lacksOrder(operation: Operation, row: UnsafeRow): Boolean =
    operation == Operation.Delete && !isUndated(operation, row) && !order.isComplete(row)

  /** The changes of the key that was looked up last, from earlier batches. */
  private def changesBefore: Seq[ChangeOrder.Ordered] =
    (0 until probe.size).map(i => probe.row(i) -> order.ordinals) ++ deleted.toSeq.flatMap(_.found)

  /** The key's row before a change, or null. */
  private def before(operation: Operation, row: UnsafeRow): UnsafeRow = {
    def rowOf(change: Option[(Operation, LogPosition.At)]): UnsafeRow = change match {
      case Some((last, at)) => if (last.ends) null else at.row
      case None => if (probe.size == 1) probe.row(0) else null
    }
    changesOfKey.last match {
      case _ if operation == Operation.Insert => null
      // The row before this update, which does not end its key.
      case Some((Operation.Before, at)) if !order.isOlder(at.row, row, order.ordinals) =>
        rowOf(changesOfKey.beforeLast)
      case last => rowOf(last)
    }
  }

  /** Applies the last change of the key that was looked up last. */
  private def endOfKey(): Unit = {
    if (changesOfKey.isAmbiguous) throw ambiguous(changesOfKey.last.get._2.row)
    changesOfKey.undated match {
      case Some(delete) =>
        val removed = changesOfKey.beforeUndated.map(_.row -> order.ordinals).toSeq
        val dated = order.completed(delete.row, removed ++ changesBefore)
        val isOutdated = isOlder(dated)
        if (isOutdated) counts("olderChanges") += 1
        if (isOutdated || changesOfKey.last.exists { case (_, last) => isBefore(delete, dated, last) })
          applyLast()
        else {
          if (probe.size == 0 && changesOfKey.last.isEmpty && !isAsked) counts("deletesOfUnknownKeys") += 1
          replace(dated, Operation.Delete)
        }
      case None => applyLast()
    }
  }

  private def applyLast(): Unit =
    changesOfKey.last.foreach { case (operation, last) => replace(last.row, operation) }

  /**
   * Whether a delete comes before another change: by time and order, or else by the position in the
   * log.
   *
   * @param dated
   *   the delete with its time and order
   */
  private def isBefore(delete: LogPosition.At, dated: UnsafeRow, other: LogPosition.At): Boolean =
    order.isOlder(dated, other.row, order.ordinals) ||
      !order.isOlder(other.row, dated, order.ordinals) && position.follows(delete, other).contains(false)

  private def ambiguous(row: UnsafeRow) = StreamJoinErrors.runtime(
    "STREAMJOIN_CHANGE_ORDER",
    "arrangement" -> spec.arrangement.root,
    "key" -> meta
      .keyOrdinals(0)
      .map(at => s"${meta.schema(at).name} = ${row.get(at, meta.schema(at).dataType)}")
      .mkString(", ")
  )

  /** In a table with a primary key, a row without a key is unrelated to all others. */
  private def isWithoutKey(row: InternalRow): Boolean = {
    val is = spec.traits.isEnvelope && meta.keyOrdinals(0).exists(row.isNullAt)
    if (is) {
      // A truncation of the table has no key.
      operationOf(row): Unit
      counts("rowsWithoutKey") += 1
      keptRows.foreach(_.addUnknown(visible(row)))
    }
    is
  }

  private lazy val toVisible = UnsafeProjection.create(spec.rows ++ spec.change, input)

  /** An input row without its position in the log. */
  private def visible(row: InternalRow): InternalRow = if (spec.traits.hasPosition) toVisible(row) else row

  private def operationOf(row: InternalRow): Operation = {
    val at = meta.schema.length
    if (row.isNullAt(at)) throw unknown("null")
    val name = row.getUTF8String(at).toString
    Operation.of(name).getOrElse(throw unknown(s"\"$name\""))
  }

  /**
   * A tombstone: Debezium sends a message without a value after a delete, for Kafka's compaction.
   * Time and order may be those of the message.
   */
  private def isTombstone(row: InternalRow): Boolean = {
    val is = emptyColumns.forall(row.isNullAt)
    if (is) counts("tombstones") += 1
    is
  }

  private def unknown(operation: String) = StreamJoinErrors.runtime(
    "STREAMJOIN_OPERATION",
    "arrangement" -> spec.arrangement.root,
    "operation" -> operation,
    "known" -> Operation.spellings.flatMap(_._2).mkString(", ")
  )

  private def countUnknown(operation: Operation): Unit =
    counts(if (operation == Operation.Delete) "deletesOfUnknownKeys" else "updatesOfUnknownKeys") += 1

  /** Looks up what the key of a row had before the batch. */
  private def find(row: UnsafeRow): Unit = {
    before match {
      case Some(index) => index.find(row, keys(0).hash(row), spec.version - 1, probe)
      case None => probe.clear()
    }
    // The batch has already removed them.
    if (spec.timeToLive.isDefined) probe.leaveOut(isOver)
    deleted.foreach(_.find(row))
  }

  /** Replaces the rows of the key that was looked up last. */
  private def replace(row: UnsafeRow, operation: Operation): Unit = {
    // The row before an update is removed; the update adds it again, unless it has another key.
    val goes = operation.ends
    val stays = !goes && probe.size == 1 && probe.row(0).equals(row)
    deleted.foreach(_.changed(row, goes))
    if (!stays) {
      (0 until probe.size).foreach(i => emit(probe.row(i), -probe.copies(i)))
      if (!goes) add(row)
    }
  }

  /** At the previous version, if there is one. */
  private def negativeRows: Option[Long] =
    Option.when(meta.input == InputKind.Updates)(before.fold(0L)(_.negativeRows.toLong))
}

private[streamjoin] object ArrangeTask {

  /** The file of a task with changes of a version. */
  def changesFile(
      root: Path,
      version: Long,
      task: Int,
      run: UUID,
      hadoopConf: Configuration
  ): BlockFileWriter =
    new BlockFileWriter(root, s"${ArrangementFolder.Changes}/$version", task, run, hadoopConf)

  /** The number of empty messages, if there are many and all messages are empty. */
  def unread(counts: Map[String, Long]): Option[Long] = {
    def of(name: String) = counts.getOrElse(name, 0L)
    val said = Seq(Manifest.Rows, Manifest.ChangeBytes, Manifest.BaseBytes, "updatesOfUnknownKeys") ++
      Seq("deletesOfUnknownKeys", "olderChanges", "rowsWithoutKey", "expiredRows")
    val tombstones = of("tombstones")
    Option.when(tombstones >= UnreadMessages.Many && said.forall(of(_) == 0))(tombstones)
  }
}
