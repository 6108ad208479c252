package org.apache.spark.sql.streamjoin.arrangement.maintain

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.streamjoin.arrangement.index.{ArrangementRef, KeyIndex, ProbeResult}
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementMeta, BlockWriter, InputKind, RowKey}
import org.apache.spark.sql.types.{LongType, StructField, StructType}

/**
 * Orders the changes of a key by the columns `time` and `order`: a change that is older than the
 * last one of its key is ignored. Nulls are lowest.
 *
 * @param ordinals
 *   ordinals of these columns in the arrangement's rows
 */
final private[streamjoin] class ChangeOrder(meta: ArrangementMeta) {
  import ChangeOrder.Ordered

  val ordinals: Seq[Int] = (meta.time ++ meta.order).map(meta.schema.fieldIndex).toSeq
  private val columns = ordinals.map { at =>
    (at, meta.schema(at).dataType, TypeUtils.getInterpretedOrdering(meta.schema(at).dataType))
  }

  private lazy val toRow = UnsafeProjection.create(meta.schema)

  /** @param at ordinals of the columns in the other row */
  def isOlder(row: InternalRow, other: InternalRow, at: Seq[Int]): Boolean =
    isOlder(row -> ordinals, other -> at)

  private def isOlder(one: Ordered, other: Ordered): Boolean = columns.indices.iterator
    .map(i => compare(i, one._1, one._2(i), other._1, other._2(i)))
    .find(_ != 0)
    .exists(_ < 0)

  /** Whether a row has a value in each of the columns. */
  def isComplete(row: InternalRow): Boolean = !ordinals.exists(row.isNullAt)

  /**
   * A delete may contain only its key. It then gets the time of the newest change that it follows,
   * and among changes of that time its order.
   *
   * @param followed
   *   the changes that it follows
   */
  def completed(delete: UnsafeRow, followed: Seq[Ordered]): UnsafeRow =
    followed.reduceOption[Ordered]((one, other) => if (isOlder(one, other)) other else one).fold(delete) {
      case (newest, at) =>
        val values = delete.toSeq(meta.schema).toArray
        val shared = columns.zip(at).zipWithIndex.takeWhile { case (((own, _, _), other), i) =>
          delete.isNullAt(own) || compare(i, delete, own, newest, other) == 0
        }
        shared.foreach { case (((own, dataType, _), other), _) =>
          values(own) = if (newest.isNullAt(other)) null else newest.get(other, dataType)
        }
        toRow(new GenericInternalRow(values)).copy()
    }

  private def compare(i: Int, row: InternalRow, at: Int, other: InternalRow, otherAt: Int): Int = {
    val (_, dataType, ordering) = columns(i)
    (row.isNullAt(at), other.isNullAt(otherAt)) match {
      case (true, true) => 0
      case (true, false) => -1
      case (false, true) => 1
      case _ => ordering.compare(row.get(at, dataType), other.get(otherAt, dataType))
    }
  }
}

private[streamjoin] object ChangeOrder {

  /** A row, and the ordinals of the columns in it. */
  type Ordered = (InternalRow, Seq[Int])
}

/**
 * The deleted keys of a partition, with the time of the delete, so that an older change that
 * arrives later does not restore the row.
 *
 * They are stored in the same files as the rows, as one more index after those that can be looked
 * up. So they are as exact as the rows in versions, bases and retries. A folder without this index
 * has no deletions.
 *
 * A deletion counts for `spark.streamjoin.arrangements.deletedKeysMaxAge` after its batch. The
 * times of batches are in Spark's offset log, so a retry of a batch forgets the same deletions. The
 * version after a base removes expired deletions: a base reads all rows anyway, so only few batches
 * search for them.
 *
 * @param batchTime
 *   time of the batch, in milliseconds since the epoch
 * @param maxAge
 *   how long a deletion counts, in milliseconds
 * @param indexBefore
 *   an index at the previous version, if there is one
 */
final private[streamjoin] class DeletedKeys(
    arrangement: ArrangementRef,
    order: ChangeOrder,
    partition: Int,
    batchTime: Long,
    maxAge: Long,
    indexBefore: (ArrangementRef, Int) => Option[KeyIndex],
    version: Long,
    changes: BlockWriter
) {
  private val of = arrangement.meta
  private val columns = DeletedKeys.columns(of)
  private val sinceOrdinal = columns.size
  private val orderOrdinals = order.ordinals.map(columns.indexOf(_))
  private val (deletions, index) = DeletedKeys.index(arrangement)
  private lazy val before = indexBefore(deletions, index)

  /** The key in the arrangement's rows, with which deletions are looked up. */
  private val key = RowKey.of(of, 0)
  private val probe = new ProbeResult(deletions.meta.schema.length, key)
  private val toRow = {
    val fields = columns.map(at => BoundReference(at, of.schema(at).dataType, nullable = true))
    UnsafeProjection.create(fields :+ Literal(batchTime))
  }

  /** Deletions of the previous version that this version removes. */
  private val gone = mutable.HashSet.empty[UnsafeRow]

  /** Looks up the key of a row of the arrangement. */
  def find(row: UnsafeRow): Unit = before match {
    case Some(found) => found.find(row, key.hash(row), version - 1, probe)
    case None => probe.clear()
  }

  private def counts(deleted: UnsafeRow) = batchTime - deleted.getLong(sinceOrdinal) <= maxAge

  /** The deletions of the key that was looked up last. */
  def found: Seq[ChangeOrder.Ordered] =
    (0 until probe.size).filter(i => counts(probe.row(i))).map(i => probe.row(i) -> orderOrdinals)

  /** Whether a change is older than the deletion of the key that was looked up last. */
  def isOlder(row: UnsafeRow): Boolean =
    (0 until probe.size).exists { i =>
      counts(probe.row(i)) && order.isOlder(row, probe.row(i), orderOrdinals)
    }

  /**
   * Records the last change of the key that was looked up last: its earlier deletion no longer
   * counts.
   */
  def changed(row: UnsafeRow, isDeleted: Boolean): Unit = {
    (0 until probe.size).foreach { i =>
      changes.add(index, partition, probe.row(i), -probe.copies(i))
      gone += probe.row(i).copy()
    }
    // Nothing is older than a row with only nulls.
    if (isDeleted && !order.ordinals.forall(row.isNullAt(_))) changes.add(index, partition, toRow(row), 1)
  }

  /** Removes the deletions that no longer count. */
  def dropExpired(): Unit = before.foreach { found =>
    found.rowsOf(version - 1).foreach { case (row, count) =>
      if (!counts(row) && !gone(row)) changes.add(index, partition, row, -count)
    }
  }
}

private[maintain] object DeletedKeys {

  /** Whether deletions are remembered: in a changelog whose changes have a time or an order. */
  def isFor(of: ArrangementMeta): Boolean =
    of.input == InputKind.Changelog && (of.time ++ of.order).nonEmpty

  /** The index of the deletions, if there are any. */
  def indexOf(arrangement: ArrangementRef): Option[(ArrangementRef, Int)] =
    Option.when(isFor(arrangement.meta))(index(arrangement))

  private def index(arrangement: ArrangementRef): (ArrangementRef, Int) =
    (arrangement.copy(meta = meta(arrangement.meta)), arrangement.meta.firstKeys)

  /** The columns of the arrangement that a deletion has; the time of the batch follows them. */
  private def columns(of: ArrangementMeta): Seq[Int] =
    (of.keyOrdinals(0) ++ new ChangeOrder(of).ordinals).distinct

  private def meta(of: ArrangementMeta): ArrangementMeta = {
    val all = columns(of)
    // Named by position, because users' columns may have any name.
    val types = all.map(of.schema(_).dataType) :+ LongType
    val schema = StructType(types.zipWithIndex.map { case (dataType, at) =>
      StructField(at.toString, dataType)
    })
    val key = of.keyOrdinals(0).map(at => all.indexOf(at).toString)
    of.copy(schema = schema, keys = Seq.fill(of.firstKeys + 1)(key), isOfRows = false, addedKeys = 0)
  }
}
