package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.streamjoin.analysis.{AwaitedKeys, OperatorSpec}
import org.apache.spark.sql.streamjoin.plans.FirstPartitions
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

import streamjoin.core.{AsOf, JoinType, TimeBound}

/**
 * The definition of a temporal join, as data; derived once, during analysis.
 *
 * Watermark key 0 is the time of the left input, 1 that of the right input. The other event-time
 * columns, which the join passes through, follow.
 *
 * @param watermarks
 *   input watermarks of the first two keys
 * @param maxLagMicros
 *   by watermark key: the largest distance of a row's time behind that of its left row, in
 *   microseconds; none if unknown
 * @param equalities
 *   as text, stable across runs
 * @param nullSafe
 *   for each of them, whether null equals null
 * @param zone
 *   time zone in which keys are computed, if they depend on it
 * @param condition
 *   the rest of the join condition as text, stable across runs
 * @param terms
 *   further properties that must not change while the state is in use
 * @param keyInWords
 *   the key of the versions and the reason for it, for EXPLAIN
 */
final private[streamjoin] case class TemporalJoinSpec(
    ordinal: Int,
    rule: AsOf,
    watermarks: IndexedSeq[ColumnWatermark],
    maxLagMicros: IndexedSeq[Option[Long]],
    isLeftOuter: Boolean,
    equalities: Seq[String],
    nullSafe: Seq[Boolean],
    zone: String,
    condition: String,
    terms: AsOfTerms,
    keyInWords: Option[String] = None,
    override val known: Seq[TimeBound] = Nil,
    awaited: AwaitedKeys = AwaitedKeys.none
) extends OperatorSpec {

  /** Without an equality, all rows have one key and go to one partition. */
  override def tasks: Option[FirstPartitions] =
    Some(if (equalities.isEmpty) FirstPartitions.One else FirstPartitions.AsSet)

  override protected def outputKeys: Seq[Int] = maxLagMicros.indices

  override protected def emittedKeys: Seq[Int] = Seq(0)

  /** Left rows before this time have joined every row that they can join ([[AsOf.settled]]). */
  val settled: ColumnWatermark =
    ColumnWatermark.Smallest(Seq(watermarks(0), ColumnWatermark.Shifted(-rule.ahead, watermarks(1))))

  /** Rows are emitted in the order of the left time, or behind it by at most the history. */
  override def outputWatermark(key: Int): ColumnWatermark = {
    val out = if (rule.history == 0) settled else ColumnWatermark.Shifted(-rule.history, settled)
    ColumnWatermark.ofOrder(out, maxLagMicros, key, ordinal)
  }

  /** Spark's name of the join type. */
  def joinType: String = (if (isLeftOuter) JoinType.LeftOuter else JoinType.Inner).name
}
