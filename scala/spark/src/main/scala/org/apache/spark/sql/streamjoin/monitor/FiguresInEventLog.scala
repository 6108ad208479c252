package org.apache.spark.sql.streamjoin.monitor

import java.util.UUID

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.streamjoin.monitor.page.{FiguresTab, RecentBatches}
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore, KVUtils}
import org.apache.spark.ui.SparkUI

/**
 * The history server's part: reads the figures out of an event log, and shows them in the tab. What
 * fails here is logged and leaves the rest of the server's page as it is.
 */
final private[streamjoin] class FiguresInEventLog extends AppHistoryServerPlugin with Logging {

  /** After the tabs of Spark. */
  override def displayOrder: Int = 10

  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    Seq(new FiguresOfLog(store))

  override def setupUI(ui: SparkUI): Unit =
    try {
      val stored = KVUtils.viewToSeq(ui.store.store.view(classOf[StoredFigures])).sortBy(_.position)
      if (stored.nonEmpty) {
        val batches = new RecentBatches
        for (query <- stored; line <- query.lines)
          batches.add(UUID.fromString(query.id), Option(query.name), line)
        FiguresTab.attach(ui, batches, live = false)
      }
    } catch {
      case failure @ (NonFatal(_) | _: LinkageError) =>
        logWarning("The figures of an event log cannot be shown", failure)
    }
}

/** Keeps the last figures while a log is read; the server's store has them once it is read. */
final private[monitor] class FiguresOfLog(store: ElementTrackingStore) extends SparkListener with Logging {
  private val batches = new RecentBatches
  private val mapper = new ObjectMapper()
  private var failed = false

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case SparkListenerStreamJoinFigures(line) =>
      try {
        val figures = mapper.readTree(line)
        val name = Option.when(figures.has("name"))(figures.path("name").asText)
        batches.add(UUID.fromString(figures.path("id").asText), name, line)
      } catch {
        case NonFatal(failure) =>
          if (!failed) logWarning("Figures of an event log cannot be read", failure)
          failed = true
      }
    case _ =>
  }

  store.onFlush {
    batches.lines.zipWithIndex.foreach { case ((id, name, lines), position) =>
      store.write(new StoredFigures(id.toString, name.orNull, position, lines))
    }
  }
}

/**
 * The figures of a query in the store of a history server, which may be on disk.
 *
 * @param position
 *   the query with the last batch has the highest
 */
final private[monitor] class StoredFigures(
    @KVIndexParam val id: String,
    val name: String,
    val position: Int,
    val lines: Seq[String]
)
