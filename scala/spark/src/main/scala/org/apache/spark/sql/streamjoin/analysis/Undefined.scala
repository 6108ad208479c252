package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.IntervalJoin
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

/**
 * Where a column loses its watermark: neither a bound of the join nor a condition before it ties it to a column whose
 * watermark moves, so that a row that is kept there may have any time in it.
 */
final private[streamjoin] case class Undefined(join: IntervalJoin, key: Int) {

  def refused(waits: String): AnalysisException = {
    val side = join.plan.sides(key)
    val names = JoinNames.copyable(join.left, join.right, join.condition.toSeq ++ join.times)
    val column = names.column(side, join.times(key))
    val others = join.plan.keys(side.other)
    val other = names.column(
      side.other,
      join.times(others.find(join.plan.watermarks(_).isDefined).getOrElse(others.head))
    )
    StreamJoinErrors.analysis(
      "STREAMJOIN_WATERMARK_UNDEFINED",
      "waits" -> waits,
      "column" -> column,
      "type" -> join.plan.joinType.name,
      "condition" -> join.plan.written,
      "rewrite" -> s"$column >= $other - INTERVAL 1 HOUR"
    )
  }
}

private[streamjoin] object Undefined {

  /** The lowest join of a plan behind which a watermark is undefined. */
  def of(watermark: ColumnWatermark, plan: LogicalPlan): Option[Undefined] =
    ColumnWatermark.joins(watermark).find(!_.isDefined).flatMap { joined =>
      of(joined.columns(joined.key), plan).orElse(
        plan
          .collectFirst { case join: IntervalJoin if join.plan.ordinal == joined.join => join }
          .map(Undefined(_, joined.key))
      )
    }
}
