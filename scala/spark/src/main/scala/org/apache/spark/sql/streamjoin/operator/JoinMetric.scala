package org.apache.spark.sql.streamjoin.operator

import streamjoin.core.Side

/** Metrics of stream-stream joins in the query progress. */
private[streamjoin] object JoinMetric {
  val JoinedRows = "joinedRows"
  val PaddedRows = "paddedRows"
  val PayloadBytes = "payloadBytes"
  def rowsInState(side: Side): String = s"${side.name}RowsInState"
  def lateRows(side: Side): String = s"${side.name}LateRows"

  val all: Seq[(String, String)] = Seq(
    JoinedRows -> "joined pairs",
    PaddedRows -> "unmatched rows that were emitted",
    PayloadBytes -> "bytes of the rows in state, as Spark has them"
  ) ++ Side.both.flatMap { side =>
    Seq(
      rowsInState(side) -> s"rows of the ${side.name} input in state",
      lateRows(side) -> s"rows of the ${side.name} input dropped as late"
    )
  }
}
