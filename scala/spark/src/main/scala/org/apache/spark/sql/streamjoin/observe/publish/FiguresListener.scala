package org.apache.spark.sql.streamjoin.observe.publish

import java.util.UUID

import scala.collection.concurrent.TrieMap

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.streamjoin.base.{QueryOwner, RunningQuery, SessionListeners, StreamJoinConf}
import org.apache.spark.sql.streamjoin.observe.read.{
  FiguresHistory,
  FiguresJson,
  QueryFigures,
  StoppedQueries
}

/**
 * Passes the figures of each batch to the components that show or store them. Failures are logged
 * once per query and never affect the query.
 */
final private[streamjoin] class FiguresListener(session: SparkSession)
    extends StreamingQueryListener
    with Logging {
  import FiguresListener._

  private val queries = TrieMap.empty[UUID, Watched]

  /** In the query's thread, because the query may end later and Spark then forgets it. */
  override def onQueryStarted(event: QueryStartedEvent): Unit = newGuard("start") {
    RunningQuery
      .of(session, event.id)
      .map(query =>
        new Watched(query, QueryOwner.id(session), history(query), shown(query), metrics(query), newGuard)
      )
      .filter(_.isAskedFor)
      .foreach(queries.put(event.runId, _))
  }

  private def shown(query: MicroBatchExecution): Option[ShownFigures] = {
    val conf = query.sparkSession.sessionState.conf
    Option.when(conf.getConf(StreamJoinConf.UiEnabled))(new ShownFigures(session.sparkContext))
  }

  private def metrics(query: MicroBatchExecution): Option[QueryMetrics] = {
    val conf = query.sparkSession.sessionState.conf
    Option.when(conf.streamingMetricsEnabled) {
      val source = FiguresSource.of(session.sparkContext)
      new QueryMetrics(source, query, isOurs(query.analyzedPlan), conf.getConf(StreamJoinConf.IndexMemory))
    }
  }

  private def isOurs(plan: LogicalPlan): Boolean = plan.exists {
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case other => other.getClass.getName.startsWith(Package)
  }

  private def history(query: MicroBatchExecution): Option[FiguresHistory] = {
    val state = query.sparkSession.sessionState
    state.conf.getConf(StreamJoinConf.History).map { folder =>
      val most = state.conf.getConf(StreamJoinConf.HistoryMaxBatches)
      val maxAge = state.conf.getConf(StreamJoinConf.HistoryMaxAge)
      new FiguresHistory(new Path(folder, query.id.toString), state.newHadoopConf(), most, maxAge)
    }
  }

  override def onQueryProgress(event: QueryProgressEvent): Unit =
    queries.get(event.progress.runId).foreach { watched =>
      import watched.guard
      guard("figures") {
        val progress = event.progress
        val figures = QueryFigures
          .of(watched.query, progress)
          .map(new FiguresJson(_, progress, System.currentTimeMillis(), watched.showsKeys).root)
        guard("metrics")(watched.metrics.foreach(_.add(progress, figures)))
        figures.foreach { json =>
          val line = json.toString
          val name = Option(progress.name)
          RecentFigures.add(watched.owner, progress.id, name, line)
          guard("page")(watched.shown.foreach(_.add(progress.id, name, line)))
          guard("history")(
            watched.history.foreach(_.add(line, System.nanoTime(), System.currentTimeMillis()))
          )
        }
      }
    }

  /** There was no data: the query may never have had a batch. */
  override def onQueryIdle(event: QueryIdleEvent): Unit = queries.get(event.runId).foreach { watched =>
    watched.guard("metrics")(watched.metrics.foreach(_.idle()))
  }

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit =
    queries.remove(event.runId).foreach { watched =>
      watched.guard("metrics")(watched.metrics.foreach(_.remove()))
      watched.guard("history")(watched.history.foreach(_.write(System.currentTimeMillis())))
      watched.guard("plan") {
        val query = watched.query
        val figures = QueryFigures.of(query)
        // Without figures, it keeps no rows or has had no batch, but it is known.
        if (figures.isDefined || isOurs(query.analyzedPlan))
          StoppedQueries.add(
            watched.owner,
            query.id,
            Option(query.name),
            figures,
            System.currentTimeMillis()
          )
      }
    }

  private def newGuard: Guard = new Guard((what, failure) =>
    logWarning(s"The figures of a query cannot be shown or kept ($what)", failure)
  )
}

private[streamjoin] object FiguresListener {

  /** The common package prefix of all our plan nodes. */
  private val Package = classOf[FiguresListener].getPackageName.stripSuffix("observe.publish")

  final private class Watched(
      val query: MicroBatchExecution,
      val owner: String,
      val history: Option[FiguresHistory],
      val shown: Option[ShownFigures],
      val metrics: Option[QueryMetrics],
      val guard: Guard
  ) {
    def isAskedFor: Boolean = history.isDefined || shown.isDefined || metrics.isDefined

    val showsKeys: Boolean = query.sparkSession.sessionState.conf.getConf(StreamJoinConf.UiShowKeys)
  }

  /** Starts to pass on the figures of a session's queries. */
  def listen(session: SparkSession): Unit =
    SessionListeners.addOnce(session)(new FiguresListener(session))
}
