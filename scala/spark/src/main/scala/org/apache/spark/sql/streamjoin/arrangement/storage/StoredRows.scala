package org.apache.spark.sql.streamjoin.arrangement.storage

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, StreamJoinRuntimeException}
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/**
 * Reads rows that were stored with other columns than those of the reader, see [[ChangedColumns]].
 *
 * @param root
 *   folder of the arrangement
 * @param stored
 *   columns of the stored rows
 * @param wanted
 *   columns of the reader
 */
final private[streamjoin] class StoredRows(root: String, stored: StructType, val wanted: StructType) {

  /** By column of the reader: its value in a stored row, if rows have it. */
  private val sources: Seq[(StructField, Option[BoundReference])] = wanted.map { field =>
    val at = stored.fieldNames.indexOf(field.name)
    field -> Option.when(at >= 0)(BoundReference(at, stored(at).dataType, nullable = true))
  }

  /** The reader's columns that are narrower than the stored ones. */
  private val narrower: Seq[(StructField, BoundReference, BasePredicate)] = sources.collect {
    case (field, Some(value)) if ChangedColumns.isWider(field.dataType, value.dataType) =>
      val back = widened(narrowed(value, field.dataType), value.dataType)
      (field, value, Predicate.createInterpreted(EqualNullSafe(back, value)))
  }

  private val project = UnsafeProjection.create(sources.map {
    case (field, None) => Literal(null, field.dataType)
    case (field, Some(value)) if value.dataType == field.dataType => value
    case (field, Some(value)) if ChangedColumns.isWider(value.dataType, field.dataType) =>
      widened(value, field.dataType)
    case (field, Some(value)) => narrowed(value, field.dataType)
  })

  /** Whether different stored rows may be equal for the reader. */
  val mayMerge: Boolean = stored.exists(field => !wanted.fieldNames.contains(field.name))

  private val from = new UnsafeRow(stored.length)

  /** Rows with the reader's columns. */
  def of(block: Array[Byte]): Array[Byte] = synchronized {
    val rows = new BlockBuilder
    var at = 0
    while (at < block.length) {
      Block.point(from, block, at)
      narrower.foreach { case (field, value, fits) => if (!fits.eval(from)) throw tooWide(field, value) }
      rows.add(project(from), Block.copies(block, at))
      at = Block.next(block, at)
    }
    rows.rawBytes
  }

  private def widened(value: Expression, to: DataType): Expression =
    Cast(value, to, None, EvalMode.LEGACY)

  private def narrowed(value: Expression, to: DataType): Expression = Cast(value, to, None, EvalMode.TRY)

  private def tooWide(field: StructField, value: BoundReference): StreamJoinRuntimeException =
    StreamJoinErrors.runtime(
      "STREAMJOIN_ARRANGEMENT_VALUE",
      "arrangement" -> root,
      "column" -> field.name,
      "value" -> String.valueOf(value.eval(from)),
      "type" -> field.dataType.sql,
      "now" -> value.dataType.sql
    )
}
