package org.apache.spark.sql.streamjoin.operators.interval

import streamjoin.core.Side

/** The figures of a join in the progress of its query, beside those of its state. */
private[streamjoin] object Metric {
  val Join = "join"
  val JoinedRows = "joinedRows"
  val PaddedRows = "paddedRows"
  val EvictedRows = "evictedRows"
  val EvictTimeMs = "evictTimeMs"
  val PayloadBytes = "payloadBytes"
  def rowsInState(side: Side): String = s"${side.name}RowsInState"
  def lateRows(side: Side): String = s"${side.name}LateRows"
  def timeMs(side: Side): String = s"${side.name}TimeMs"

  val all: Seq[(String, String)] = Seq(
    JoinedRows -> "joined pairs",
    PaddedRows -> "unmatched rows that were emitted",
    EvictedRows -> "rows that expired",
    EvictTimeMs -> "time to evict and pad",
    PayloadBytes -> "bytes of the rows in state, as Spark has them"
  ) ++ Side.both.flatMap { side =>
    Seq(
      rowsInState(side) -> s"rows of the ${side.name} input in state",
      lateRows(side) -> s"rows of the ${side.name} input dropped as late",
      timeMs(side) -> s"time to take in the rows of the ${side.name} input"
    )
  }
}
