package org.apache.spark.sql.streamjoin.observe.publish

import java.util.UUID

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.streamjoin.monitor.SparkListenerStreamJoinFigures
import org.apache.spark.sql.streamjoin.observe.publish.page.{FiguresTab, RecentBatches}
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore, KVUtils}
import org.apache.spark.ui.SparkUI

/**
 * The part for the history server: reads the figures from an event log and shows them in the tab.
 * Failures are logged and do not affect the rest of the server's page.
 */
final private[streamjoin] class FiguresInEventLog extends AppHistoryServerPlugin with Logging {

  /** After the tabs of Spark. */
  override def displayOrder: Int = 10

  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    Seq(new FiguresOfLog(store, guard))

  private def guard: Guard =
    new Guard((what, failure) => logWarning(s"The figures of an event log cannot be shown ($what)", failure))

  override def setupUI(ui: SparkUI): Unit = guard("page") {
    val stored = KVUtils.viewToSeq(ui.store.store.view(classOf[StoredFigures])).sortBy(_.position)
    if (stored.nonEmpty) {
      val batches = new RecentBatches(keepsSeries = true)
      stored.foreach { query =>
        // A store on disk may have been written before series existed.
        val series = Option(query.series).getOrElse(query.lines)
        batches.restore(UUID.fromString(query.id), Option(query.name), query.lines, series)
      }
      FiguresTab.attach(ui, batches, live = false)
    }
  }
}

/** Keeps the last figures while a log is being read; afterwards they are in the server's store. */
final private[publish] class FiguresOfLog(store: ElementTrackingStore, guard: Guard) extends SparkListener {
  private val batches = new RecentBatches(keepsSeries = true)
  private val mapper = new ObjectMapper()

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case SparkListenerStreamJoinFigures(line) =>
      guard("event") {
        val figures = mapper.readTree(line)
        val name = Option.when(figures.has("name"))(figures.path("name").asText)
        batches.add(UUID.fromString(figures.path("id").asText), name, line)
      }
    case _ =>
  }

  store.onFlush {
    batches.lines.zipWithIndex.foreach { case ((id, name, lines, series), position) =>
      store.write(new StoredFigures(id.toString, name.orNull, position, lines, series))
    }
  }
}

/**
 * The figures of a query in the store of a history server, which may be on disk.
 *
 * @param position
 *   the query with the last batch has the highest
 * @param series
 *   all its batches, as points of a chart
 */
final private[publish] class StoredFigures(
    @KVIndexParam val id: String,
    val name: String,
    val position: Int,
    val lines: Seq[String],
    val series: Seq[String]
)
