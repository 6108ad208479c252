package org.apache.spark.sql.streamjoin.arrangement.maintain

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementMeta
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.changes.{Changelog, Unavailable}
import org.apache.spark.sql.types.StructType

import streamjoin.core.Operation

/**
 * How the changes of a changelog are interpreted.
 *
 * @param isEnvelope
 *   whether they come from Debezium's envelope: a null in the primary key is not a key, and the row
 *   before an update is sent only if the update changes the key
 * @param hasPosition
 *   whether their last columns are the position in Kafka
 * @param unavailable
 *   stands for a value that was not sent
 * @param required
 *   ordinals of the columns that are never null in the table
 */
final private[streamjoin] case class LogTraits(
    isEnvelope: Boolean = false,
    hasPosition: Boolean = false,
    unavailable: Option[String] = None,
    required: Set[Int] = Set.empty
)

private[maintain] object LogTraits {
  def of(log: Changelog, schema: StructType, hasPosition: Boolean): LogTraits = LogTraits(
    log.isEnvelope,
    hasPosition,
    log.unavailable,
    schema.indices.filter(at => log.required(schema(at).name)).toSet
  )
}

/**
 * Fills in the values that a change lacks ([[Unavailable]]) from the previous row of its key. If
 * there is none, they are null and counted.
 *
 * @param required
 *   ordinals of columns that cannot be null
 */
final private[maintain] class KeptValues(placeholder: String, required: Set[Int], spec: ArrangeSpec) {
  private val schema = spec.arrangement.meta.schema
  private val unavailable = new Unavailable(placeholder, schema)
  private val toRow = UnsafeProjection.create(schema)
  private var unknown = 0L

  /** The number of unknown values. */
  def missing: Long = unknown

  /** @param before the row that the key had before, or null */
  def filled(row: UnsafeRow, operation: Operation, before: UnsafeRow): UnsafeRow =
    if (operation.ends || !unavailable.isIn(row)) row
    else {
      val values = row.toSeq(schema).toArray
      unavailable.columns.filter(unavailable.is(row, _)).foreach { at =>
        val isKnown = before != null && !unavailable.is(before, at)
        if (!isKnown) {
          if (required(at)) throw notNullable(at)
          unknown += 1
        }
        values(at) = if (isKnown && !before.isNullAt(at)) before.get(at, schema(at).dataType) else null
      }
      toRow(new GenericInternalRow(values))
    }

  private def notNullable(at: Int) = StreamJoinErrors.runtime(
    "STREAMJOIN_UNAVAILABLE_VALUE",
    "arrangement" -> spec.arrangement.root,
    "column" -> schema(at).name
  )
}

/** The position of changes in their log: a column of the rows, or partition and offset in Kafka. */
final private[maintain] class LogPosition(meta: ArrangementMeta, spec: ArrangeSpec) {
  import LogPosition.At

  /** The columns for time and order, and how they are compared. */
  private val columns = (meta.time ++ meta.order).toSeq.map { name =>
    val at = meta.schema.fieldIndex(name)
    at -> TypeUtils.getInterpretedOrdering(meta.schema(at).dataType)
  }
  private val partition = meta.schema.length + 1

  /** @param input the row of the input that a row was made of */
  def of(row: UnsafeRow, input: InternalRow): At =
    if (spec.traits.hasPosition) At(row, input.getInt(partition), input.getLong(partition + 1))
    else At(row, 0, 0)

  /** Whether a delete follows another change; none if that is unknown. */
  def follows(delete: At, other: At): Option[Boolean] = {
    // A delete with only its key has no value in a column of the rows.
    val compared = columns.collect {
      case (at, ordering) if !delete.row.isNullAt(at) => compare(delete.row, other.row, at, ordering)
    }
    def inKafka =
      if (delete.partition != other.partition) delete.partition > other.partition
      else delete.offset > other.offset
    val hasOrder = meta.order.exists(name => !delete.row.isNullAt(meta.schema.fieldIndex(name)))
    compared
      .find(_ != 0)
      .map(_ > 0)
      .orElse(Option.when(spec.traits.hasPosition)(inKafka))
      .orElse(Option.when(hasOrder)(false))
  }

  /** Nulls are lowest. */
  private def compare(delete: InternalRow, other: InternalRow, at: Int, ordering: Ordering[Any]): Int =
    if (other.isNullAt(at)) 1
    else {
      val dataType = meta.schema(at).dataType
      ordering.compare(delete.get(at, dataType), other.get(at, dataType))
    }
}

private[maintain] object LogPosition {

  /** A row of the arrangement, and the position of its change in Kafka. */
  final case class At(row: UnsafeRow, partition: Int, offset: Long)
}
