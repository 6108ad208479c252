package org.apache.spark.sql.streamjoin.arrangement

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/**
 * What the operators of a batch have loaded of an arrangement, for the query progress.
 *
 * @param loadedRows
 *   rows that the indexes read to reach the version of the batch
 * @param indexBytes
 *   bytes of all indexes, by executor
 */
final private[streamjoin] case class ReaderFigures(
    loadedRows: SQLMetric,
    loadTimeMs: SQLMetric,
    indexBytes: IndexBytes
)

private[streamjoin] object ReaderFigures {
  def of(context: SparkContext): ReaderFigures = {
    val indexBytes = new IndexBytes
    context.register(indexBytes)
    ReaderFigures(
      SQLMetrics.createMetric(context, "rows loaded into the index"),
      SQLMetrics.createMetric(context, "time to load the index"),
      indexBytes
    )
  }

  def inProgress(figures: Seq[ReaderFigures]): Map[String, String] =
    if (figures.isEmpty) Map.empty
    else
      Map(
        "loadedRows" -> figures.map(_.loadedRows.value).sum.toString,
        "loadTimeMs" -> figures.map(_.loadTimeMs.value).sum.toString,
        "executorIndexBytes" ->
          figures.flatMap(_.indexBytes.value).groupMapReduce(_._1)(_._2)(math.max).values.sum.toString
      )
}
