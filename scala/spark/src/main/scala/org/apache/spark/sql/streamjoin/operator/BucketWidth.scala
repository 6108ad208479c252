package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.streamjoin.state.LifetimeWidth

/** The time span of a state bucket, in microseconds. */
private[streamjoin] object BucketWidth {

  /** More buckets slow down probes; fewer keep expired rows longer. */
  private val BucketsPerSpan = 8
  private val MinMicros = 5000000L
  private val MaxMicros = 30L * 24 * 3600 * 1000000

  /** @param kept retention of the rows, in microseconds */
  def of(kept: BigInt): Long = (kept / BucketsPerSpan).min(MaxMicros).max(MinMicros).toLong

  /**
   * For rows that each carry the time at which they leave: the first of them decide.
   *
   * @param time
   *   position of the time from which their lifetimes count
   * @param delay
   *   the watermark's, in microseconds
   */
  def ofLifetimes(time: Int, delay: BigInt): LifetimeWidth =
    LifetimeWidth(time, delay.min(MaxMicros).toLong, MinMicros, MaxMicros, BucketsPerSpan)

  /** The longest watermark delay in the inputs, in microseconds. */
  def delay(inputs: SparkPlan*): BigInt = inputs.flatMap(delays).maxOption.getOrElse(BigInt(0))

  /** A reused exchange appears as a leaf of the plan. */
  private def delays(plan: SparkPlan): Seq[BigInt] = plan.collect {
    case mark: EventTimeWatermarkExec => Seq(BigInt(mark.delayMs) * MICROS_PER_MILLIS)
    case reused: ReusedExchangeExec => delays(reused.child)
  }.flatten
}
