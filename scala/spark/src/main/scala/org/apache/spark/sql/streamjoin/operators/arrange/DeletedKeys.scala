package org.apache.spark.sql.streamjoin.operators.arrange

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.streamjoin.arrangement._
import org.apache.spark.sql.types.{LongType, StructField, StructType}

/**
 * When the changes of a key came, by the columns `time` and `order`: a change that is older than
 * the last one of its key does not count. Nulls are lowest.
 *
 * @param ordinals
 *   of the columns, in the arrangement's rows
 */
final private[arrange] class ChangeOrder(meta: ArrangementMeta) {
  val ordinals: Seq[Int] = (meta.time ++ meta.order).map(meta.schema.fieldIndex).toSeq
  private val columns = ordinals.map { at =>
    (at, meta.schema(at).dataType, TypeUtils.getInterpretedOrdering(meta.schema(at).dataType))
  }

  /** @param at where the columns are in the other row */
  def isOlder(row: InternalRow, other: InternalRow, at: Seq[Int]): Boolean =
    columns.iterator
      .zip(at.iterator)
      .map { case ((ordinal, dataType, ordering), otherOrdinal) =>
        (row.isNullAt(ordinal), other.isNullAt(otherOrdinal)) match {
          case (true, true) => 0
          case (true, false) => -1
          case (false, true) => 1
          case _ => ordering.compare(row.get(ordinal, dataType), other.get(otherOrdinal, dataType))
        }
      }
      .find(_ != 0)
      .exists(_ < 0)
}

/**
 * The keys of a partition that were deleted, with the time of the change that did it, so that an
 * older one which comes later does not bring a row back. They are rows of an index after the last
 * one of the arrangement, in the same files: versions, bases and replays hold for them as for the
 * rows, and no reader asks for that index. Each is kept for
 * `spark.streamjoin.arrangements.deletedKeysMaxAge` after its batch; the times of batches are in
 * Spark's offset log, the same when one is done again.
 *
 * @param batchTime
 *   in milliseconds
 * @param maxAge
 *   in milliseconds
 */
final private[arrange] class DeletedKeys(
    arrangement: ArrangementRef,
    order: ChangeOrder,
    partition: Int,
    batchTime: Long,
    maxAge: Long,
    indexBefore: (ArrangementRef, Int) => Option[KeyIndex],
    version: Long,
    changes: BlockFileWriter
) {
  private val of = arrangement.meta
  private val columns = (of.keyOrdinals(0) ++ order.ordinals).distinct
  private val meta = {
    val fields = columns.map(of.schema(_)) :+ StructField(DeletedKeys.Since, LongType)
    of.copy(schema = StructType(fields), keys = Seq.fill(of.keys.size + 1)(of.keys.head))
  }

  /** Of these rows in the files. */
  private val index = of.keys.size
  private val key = RowKey.of(of, 0)
  private val sinceOrdinal = columns.size
  private val orderOrdinals = order.ordinals.map(columns.indexOf(_))
  private val toRow = {
    val fields = columns.map(at => BoundReference(at, of.schema(at).dataType, nullable = true))
    UnsafeProjection.create(fields :+ Literal(batchTime))
  }
  private lazy val before = indexBefore(arrangement.copy(meta = meta), index)
  private val probe = new Probe(meta.schema.length, key)
  private val forgotten = mutable.HashSet.empty[UnsafeRow]

  /** Looks up the key of a row of the arrangement. */
  def find(row: UnsafeRow): Unit = before match {
    case Some(found) => found.find(row, key.hash(row), version - 1, probe)
    case None => probe.clear()
  }

  private def isKept(deleted: UnsafeRow) = batchTime - deleted.getLong(sinceOrdinal) <= maxAge

  /** A change of the key that was looked up is older than its deletion. */
  def isOlder(row: UnsafeRow): Boolean =
    (0 until probe.size).exists { i =>
      isKept(probe.row(i)) && order.isOlder(row, probe.row(i), orderOrdinals)
    }

  /** The key that was looked up has changed by this row. */
  def changed(row: UnsafeRow, isDeleted: Boolean): Unit = {
    (0 until probe.size).foreach { i =>
      if (forgotten.add(probe.row(i).copy())) changes.add(index, partition, probe.row(i), -probe.copies(i))
    }
    if (isDeleted && !row.isNullAt(order.ordinals.head)) changes.add(index, partition, toRow(row), 1)
  }

  /** Those of the version before go into its base, and those that are too old from the next one. */
  def writeBase(base: BlockFileWriter): Unit = before.foreach { found =>
    found.rowsOf(version - 1).foreach { case (row, count) =>
      base.add(index, partition, row, count)
      if (!isKept(row) && !forgotten.contains(row)) changes.add(index, partition, row, -count)
    }
  }
}

private[arrange] object DeletedKeys {

  /** The time of the batch. No column of the arrangement is asked for by this name. */
  val Since = "_deleted"
}
