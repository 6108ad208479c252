package org.apache.spark.sql.streamjoin.arrangement.source

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.streamjoin.arrangement.index.IndexBytes
import org.apache.spark.sql.streamjoin.base.Figures

/**
 * How much of an arrangement the operators of a batch have loaded, for the query progress.
 *
 * @param metrics
 *   metrics of the tasks, by name
 * @param indexBytes
 *   bytes of all indexes, by executor
 */
final private[streamjoin] case class ReaderFigures(metrics: Map[String, SQLMetric], indexBytes: IndexBytes)

private[streamjoin] object ReaderFigures {
  def of(context: SparkContext): ReaderFigures = {
    val indexBytes = new IndexBytes
    context.register(indexBytes)
    ReaderFigures(Figures.metrics(context, "source"), indexBytes)
  }

  def inProgress(figures: Seq[ReaderFigures]): Map[String, String] =
    if (figures.isEmpty) Map.empty
    else {
      val loaded = figures.head.metrics.keys.map(name => name -> figures.map(_.metrics(name).value).sum)
      val indexBytes = figures.flatMap(_.indexBytes.value).groupMapReduce(_._1)(_._2)(math.max).values.sum
      (loaded.toMap + ("executorIndexBytes" -> indexBytes)).view.mapValues(_.toString).toMap
    }
}
