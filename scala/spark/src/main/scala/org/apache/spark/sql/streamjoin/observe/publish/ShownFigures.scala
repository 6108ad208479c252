package org.apache.spark.sql.streamjoin.observe.publish

import java.util.UUID

import org.apache.spark.SparkContext
import org.apache.spark.sql.streamjoin.monitor.SparkListenerStreamJoinFigures
import org.apache.spark.sql.streamjoin.observe.publish.page.FiguresTab

/** Shows the figures of a query's batches on Spark's web page, and writes them to its event log. */
final private[publish] class ShownFigures(context: SparkContext) {

  def add(id: UUID, name: Option[String], line: String): Unit = {
    RecentFigures.shown.add(id, name, line)
    context.listenerBus.post(SparkListenerStreamJoinFigures(line))
    context.ui.foreach(FiguresTab.attach(_, RecentFigures.shown, live = true))
  }
}
