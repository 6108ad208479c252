package org.apache.spark.sql.streamjoin.operators.interval

import streamjoin.core.Side

/**
 * The figures of a join in the progress of its query, beside those that all of Spark's stateful
 * operators have.
 */
private[streamjoin] object Metric {
  val Join = "join"
  val JoinedRows = "joinedRows"
  val PaddedRows = "paddedRows"
  val EvictedRows = "evictedRows"
  val EvictTimeMs = "evictTimeMs"
  val LoadTimeMs = "loadTimeMs"
  val IndexBytes = "indexBytes"
  val PayloadBytes = "payloadBytes"
  val SegmentBytes = "segmentBytes"
  val Segments = "segments"
  val SegmentsOnDisk = "segmentsOnDisk"
  def rowsInState(side: Side): String = s"${side.name}RowsInState"
  def lateRows(side: Side): String = s"${side.name}LateRows"
  def timeMs(side: Side): String = s"${side.name}TimeMs"

  val all: Seq[(String, String)] = Seq(
    JoinedRows -> "joined pairs",
    PaddedRows -> "unmatched rows that were emitted",
    EvictedRows -> "rows that expired",
    EvictTimeMs -> "time to evict and pad",
    LoadTimeMs -> "time to open the state store and, where needed, read the index from it",
    IndexBytes -> "bytes of the index in memory",
    PayloadBytes -> "bytes of the rows in state, as Spark has them",
    SegmentBytes -> "bytes of the segments in the state store",
    Segments -> "segments in state",
    SegmentsOnDisk -> "segments that the budget of memory leaves to the state store"
  ) ++ Side.both.flatMap { side =>
    Seq(
      rowsInState(side) -> s"rows of the ${side.name} input in state",
      lateRows(side) -> s"rows of the ${side.name} input dropped as late",
      timeMs(side) -> s"time to take in the rows of the ${side.name} input"
    )
  }
}
