package org.apache.spark.sql.streamjoin.monitor

import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.SparkContext
import org.apache.spark.sql.streamjoin.monitor.page.FiguresTab

/**
 * Shows the figures of a query's batches in Spark's web page, and writes them to its event log.
 *
 * @param showsKeys
 *   whether values of keys are among them
 */
final private[monitor] class ShownFigures(context: SparkContext, showsKeys: Boolean) {
  import ShownFigures._

  def add(id: UUID, name: Option[String], figures: ObjectNode): Unit = {
    val line = (if (showsKeys) figures else withoutKeys(figures)).toString
    RecentFigures.shown.add(id, name, line)
    context.listenerBus.post(SparkListenerStreamJoinFigures(line))
    context.ui.foreach(FiguresTab.attach(_, RecentFigures.shown, live = true))
  }
}

private[monitor] object ShownFigures {
  def withoutKeys(figures: ObjectNode): ObjectNode = {
    val copy = figures.deepCopy()
    for {
      operator <- copy.path("operators").asScala
      input <- operator.path("inputs").asScala
      hot <- input.path("hotKeys").asScala
    } hot.asInstanceOf[ObjectNode].remove("key")
    copy
  }
}
