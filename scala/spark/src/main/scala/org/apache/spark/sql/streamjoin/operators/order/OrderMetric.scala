package org.apache.spark.sql.streamjoin.operators.order

/** The figures of an order in the progress of its query, beside those of all stateful operators. */
private[order] object OrderMetric {
  val LoadTimeMs = "loadTimeMs"
  val IndexBytes = "indexBytes"
  val SegmentBytes = "segmentBytes"
  val Segments = "segments"
  val SegmentsOnDisk = "segmentsOnDisk"

  val all: Seq[(String, String)] = Seq(
    LoadTimeMs -> "time to open the state store and, where needed, read the rows from it",
    IndexBytes -> "bytes of the rows in memory",
    SegmentBytes -> "bytes of the segments in the state store",
    Segments -> "segments in state",
    SegmentsOnDisk -> "segments that the budget of memory leaves to the state store"
  )
}
