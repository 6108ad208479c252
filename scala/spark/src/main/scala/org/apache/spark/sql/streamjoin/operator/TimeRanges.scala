package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.types._

import streamjoin.core.Watermark

/**
 * The span of time that a batch emits, split into ranges, one per sort task. The driver computes
 * them, so no sampling is needed.
 *
 * @param ends
 *   exclusive upper ends of the ranges, in microseconds. A range starts at the end of the one
 *   before it; the last has no end.
 */
final private[streamjoin] case class TimeRanges(ends: IndexedSeq[Long]) {

  /** The number of ranges, which is the number of tasks that sort. */
  val parts: Int = ends.size + 1

  /** The number of the range that contains a time. */
  def part(micros: Long): Int = {
    var (from, to) = (0, ends.size)
    while (from < to) {
      val middle = (from + to) >>> 1
      if (ends(middle) <= micros) from = middle + 1 else to = middle
    }
    from
  }
}

private[streamjoin] object TimeRanges {

  /** One in this many tasks sorts the rows behind the watermark. */
  private val Behind = 4

  /**
   * @param from
   *   watermark of the order in the batch before, in microseconds, or the lowest time in state if
   *   there was none
   * @param to
   *   watermark of the order in this batch, in microseconds
   * @param history
   *   how far behind `from` rows may also be, in microseconds; they are few, no matter how far
   */
  def apply(from: Long, to: Long, tasks: Int, history: Long = 0): TimeRanges = {
    val behind = if (history == 0 || from == Watermark.Undefined) 0 else tasks / Behind
    val ends = cut(Watermark.postponed(from, history), from, behind) ++
      Option.when(behind > 0)(from) ++ cut(from, to, tasks - behind)
    TimeRanges(ends.toIndexedSeq)
  }

  /** The ends of all ranges but the last. */
  private def cut(from: Long, to: Long, parts: Int): Seq[Long] = {
    val isKnown = from != Watermark.Undefined && to != Watermark.Undefined && to - from > 0
    if (isKnown && to > from) (1 until parts).map(part => from + ((to - from) / parts + 1) * part) else Nil
  }
}

/**
 * The number of the range that contains a time; a row without a time is in the first.
 *
 * It is interpreted, not compiled, because the ranges differ in every batch and Spark would have to
 * compile the code again each time.
 */
final private[streamjoin] case class PartOfTime(child: Expression, ranges: TimeRanges)
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

/**
 * Sorts the rows that a batch emits. Each task sorts a range of time; later tasks have later
 * ranges.
 */
private[streamjoin] object RowtimeSort {
  def apply(exec: SparkPlan, time: Attribute, ranges: TimeRanges): SparkPlan = {
    val partitioning =
      ShufflePartitionIdPassThrough(DirectShufflePartitionID(PartOfTime(time, ranges)), ranges.parts)
    // Rows of equal time are ordered by hash, so that a batch that runs again has the same order.
    val others = XxHash64(WholeRow.hashed(exec.output), 42L)
    SortExec(
      Seq(SortOrder(time, Ascending), SortOrder(others, Ascending)),
      global = false,
      ShuffleExchangeExec(partitioning, exec)
    )
  }
}

private[streamjoin] object WholeRow {

  /** All hashable columns, so that a row is sent to the same task in every attempt. */
  def hashed(columns: Seq[Attribute]): Seq[Attribute] =
    columns.filterNot(_.dataType.existsRecursively {
      case _: MapType | VariantType | _: GeometryType | _: GeographyType => true
      case _ => false
    })
}
