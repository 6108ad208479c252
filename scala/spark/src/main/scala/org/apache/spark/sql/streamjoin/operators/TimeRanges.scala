package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.{DataType, IntegerType}

import streamjoin.core.Watermark

/**
 * The time that a batch lets go of, in as many parts as there are tasks to sort it. It is known on
 * the driver, so nothing has to be sampled.
 *
 * @param from
 *   the watermark of the order in the batch before, in microseconds; undefined in the first
 *   batches, when all rows are one task's
 * @param to
 *   its watermark in this batch
 */
final private[operators] case class TimeRanges(from: Long, to: Long, tasks: Int) {
  private val isKnown = from != Watermark.Undefined && to != Watermark.Undefined && to > from

  /** How many of the tasks have a part. */
  val parts: Int = if (isKnown) tasks else 1

  /** How much each has, in microseconds, so that all of them have all. */
  private val width: Long = if (isKnown) (to - from) / parts + 1 else 1

  /** The number of the part that a time is in. */
  def part(micros: Long): Int =
    if (parts == 1 || micros <= from) 0 else math.min((micros - from) / width, parts - 1L).toInt
}

/**
 * The number of the part that a time is in; a row without a time comes first.
 *
 * It is evaluated, not compiled: the ranges are others in every batch, and Spark would compile the
 * code anew for each.
 */
final private[operators] case class PartOfTime(child: Expression, ranges: TimeRanges)
    extends UnaryExpression
    with CodegenFallback {
  override def dataType: DataType = IntegerType

  override def nullable: Boolean = false

  override def eval(input: InternalRow): Any = child.eval(input) match {
    case null => 0
    case micros => ranges.part(micros.asInstanceOf[Long])
  }

  override protected def withNewChildInternal(newChild: Expression): PartOfTime = copy(child = newChild)
}
