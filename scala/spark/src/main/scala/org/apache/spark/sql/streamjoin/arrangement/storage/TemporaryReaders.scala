package org.apache.spark.sql.streamjoin.arrangement.storage

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.streamjoin.base.RunningQuery

/**
 * Releases the leases of a query whose checkpoint is temporary: Spark deletes the checkpoint when
 * the query ends, so no reader will return for them. Spark keeps the checkpoint if the query has
 * failed.
 */
final private[streamjoin] class TemporaryReaders(session: SparkSession)
    extends StreamingQueryListener
    with Logging {
  import TemporaryReaders._

  /** Runs in the query's thread, before its sources are used. */
  override def onQueryStarted(event: QueryStartedEvent): Unit =
    RunningQuery.of(session, event.id).foreach { query =>
      if (starting.remove(query.resolvedCheckpointRoot)) leases.put(event.id, Map.empty)
    }

  override def onQueryProgress(event: QueryProgressEvent): Unit = ()

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit =
    Option(leases.remove(event.id)).filter(_ => event.exception.isEmpty).foreach {
      _.foreach { case (reader, folder) =>
        try new LeaseFiles(folder).release(reader)
        catch {
          case NonFatal(error) =>
            logWarning(s"The lease of $reader in ${folder.root} could not be removed", error)
        }
      }
    }
}

private[streamjoin] object TemporaryReaders {

  /** The temporary checkpoints of queries that are about to start. */
  private val starting = ConcurrentHashMap.newKeySet[String]()

  /** The leases of running queries that have a temporary checkpoint. */
  private val leases = new ConcurrentHashMap[UUID, Map[String, ArrangementFolder]]

  def expect(checkpoint: String): Unit = starting.add(checkpoint): Unit

  /** Called when this thread's query gets a lease. */
  def add(folder: ArrangementFolder, reader: String): Unit =
    RunningQuery.current.foreach { query =>
      leases.computeIfPresent(query.id, (_, own) => own.updated(reader, folder))
    }
}
