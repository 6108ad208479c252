package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.{DataType, IntegerType}

import streamjoin.core.Watermark

/**
 * The time that a batch lets go of, in parts, one for each task that sorts it. They are known on
 * the driver, so nothing has to be sampled.
 *
 * @param ends
 *   a part has the times before its end, in microseconds, and not before the end of the part before
 *   it; the last part has no end
 */
final private[operators] case class TimeRanges(ends: IndexedSeq[Long]) {

  /** How many of the tasks have a part. */
  val parts: Int = ends.size + 1

  /** The number of the part that a time is in. */
  def part(micros: Long): Int = {
    var (from, to) = (0, ends.size)
    while (from < to) {
      val middle = (from + to) >>> 1
      if (ends(middle) <= micros) from = middle + 1 else to = middle
    }
    from
  }
}

private[operators] object TimeRanges {

  /** One task in so many has the rows that come behind. */
  private val Behind = 4

  /**
   * @param from
   *   the watermark of the order in the batch before, in microseconds; where there was none yet,
   *   the lowest time of the rows that wait
   * @param to
   *   its watermark in this batch
   * @param history
   *   how far behind the first of them rows may come besides. These are few, however far back.
   */
  def apply(from: Long, to: Long, tasks: Int, history: Long = 0): TimeRanges = {
    val behind = if (history == 0 || from == Watermark.Undefined) 0 else tasks / Behind
    val ends = cut(Watermark.postponed(from, history), from, behind) ++
      Option.when(behind > 0)(from) ++ cut(from, to, tasks - behind)
    TimeRanges(ends.toIndexedSeq)
  }

  /** The ends of all parts but the last. */
  private def cut(from: Long, to: Long, parts: Int): Seq[Long] = {
    val isKnown = from != Watermark.Undefined && to != Watermark.Undefined && to - from > 0
    if (isKnown && to > from) (1 until parts).map(part => from + ((to - from) / parts + 1) * part) else Nil
  }
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
