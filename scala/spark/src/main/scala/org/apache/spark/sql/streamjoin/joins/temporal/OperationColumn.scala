package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, StreamJoinRuntimeException}
import org.apache.spark.unsafe.types.UTF8String

import streamjoin.core.Operation

/** Reads the operation of a row of the right input. */
final private[temporal] class OperationColumn(column: Attribute, input: InputSpec) {
  private val field = input.output.indexWhere(_.exprId == column.exprId)

  def of(row: UnsafeRow): Operation = {
    def unknown(seen: String) = StreamJoinErrors.runtime(
      "STREAMJOIN_OPERATION",
      "arrangement" -> s"the versions in ${column.name}",
      "operation" -> seen,
      "known" -> Operation.spellings.flatMap(_._2).mkString(", ")
    )
    if (row.isNullAt(field)) throw unknown("null")
    val name = row.getUTF8String(field)
    var operation = seen.get(name)
    if (operation == null) {
      operation = Operation.of(name.toString).getOrElse(throw unknown(s"\"$name\""))
      seen.put(name.copy(), operation)
    }
    operation
  }

  /** Whether a row comes from an empty message: it has neither an operation nor a key. */
  def isTombstone(row: UnsafeRow): Boolean =
    row.isNullAt(field) && input.isWithoutKey(row)

  /** The error for a delete without a time. */
  def withoutTime(versions: InputSpec): StreamJoinRuntimeException = StreamJoinErrors.runtime(
    "STREAMJOIN_DELETE_WITHOUT_TIME",
    "column" -> versions.time.name
  )

  /** Operations by their spelling. */
  private val seen = new java.util.HashMap[UTF8String, Operation]
}
