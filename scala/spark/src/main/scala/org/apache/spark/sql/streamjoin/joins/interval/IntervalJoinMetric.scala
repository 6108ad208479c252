package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.streamjoin.operator.JoinMetric

import streamjoin.core.Side

/** Metrics of an interval join in the query progress, in addition to those of its state. */
private[streamjoin] object IntervalJoinMetric {
  val EvictedRows = "evictedRows"
  val EvictTimeMs = "evictTimeMs"
  def timeMs(side: Side): String = s"${side.name}TimeMs"

  val all: Seq[(String, String)] = JoinMetric.all ++ Seq(
    EvictedRows -> "rows that expired",
    EvictTimeMs -> "time to evict and pad"
  ) ++ Side.both.map(side => timeMs(side) -> s"time to take in the rows of the ${side.name} input")
}
