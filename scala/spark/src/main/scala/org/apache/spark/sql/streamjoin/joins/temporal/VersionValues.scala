package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.changes.{Changelog, Unavailable}

import streamjoin.core.Operation

/**
 * Fills in the values that a version lacks ([[Unavailable]]) from the version before it, in the
 * order of versions. They are looked up together with the version, so a version that arrives later
 * but belongs in between counts.
 */
final private[temporal] class VersionValues(
    placeholder: String,
    spec: TemporalTaskSpec,
    operationOf: UnsafeRow => Operation
) {
  private val input = spec.inputs(1)
  private val schema = DataTypeUtils.fromAttributes(input.output)
  private val unavailable = new Unavailable(placeholder, schema)
  private val toRow = UnsafeProjection.create(schema)

  /** The columns that the query reads. */
  private val read = unavailable.columns.filter { at =>
    val column = input.output(at)
    spec.output.exists(_.exprId == column.exprId) || spec.condition.exists(_.references.contains(column))
  }

  /** Whether it is the row before an update, which ends its key unless another row has its time. */
  def isBeforeUpdate(version: UnsafeRow): Boolean = operationOf(version) == Operation.Before

  /** Whether a version may take values from the one before it. */
  def asksBefore(version: UnsafeRow): Boolean =
    operationOf(version) == Operation.Update && unavailable.isIn(version)

  /** The version with values filled in from the one before it; null or a delete has no values. */
  def filled(version: UnsafeRow, before: UnsafeRow): UnsafeRow =
    if (before == null || operationOf(before).ends || !asksBefore(version)) version
    else
      unavailable.filled(version, before, keepsNulls = true) match {
        case same: UnsafeRow => same
        case other => toRow(other).copy()
      }

  /**
   * The version with null for unknown values.
   *
   * @param count
   *   called for each such value
   */
  def known(version: UnsafeRow, count: () => Unit): UnsafeRow = {
    val missing = read.filter(unavailable.is(version, _))
    if (missing.isEmpty) version
    else {
      val values = version.toSeq(schema).toArray
      missing.foreach { at =>
        if (Changelog.isRequired(input.output(at))) throw notNullable(at)
        count()
        values(at) = null
      }
      toRow(new GenericInternalRow(values))
    }
  }

  private def notNullable(at: Int) = StreamJoinErrors.runtime(
    "STREAMJOIN_UNAVAILABLE_VALUE",
    "arrangement" -> "sj.versions",
    "column" -> input.output(at).name
  )
}
