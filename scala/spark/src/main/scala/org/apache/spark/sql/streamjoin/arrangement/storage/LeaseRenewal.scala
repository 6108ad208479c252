package org.apache.spark.sql.streamjoin.arrangement.storage

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinConf}

/**
 * Renews the leases of running queries: a batch may take long, triggers may be rare, and an
 * arrangement that does not change leaves nothing to commit.
 */
private[storage] object LeaseRenewal extends Logging {

  /** A lease is renewed several times before it ends, and at regular intervals if it lasts long. */
  private val Parts = 4
  private val Longest = TimeUnit.MINUTES.toMillis(10)
  private val Interval = 500L

  final private class Kept(
      val folder: ArrangementFolder,
      val query: MicroBatchExecution,
      val version: Option[VersionId],
      val every: Long,
      @volatile var renewedMs: Long
  )

  /** By folder of the arrangement and reader. */
  private val kept = new ConcurrentHashMap[(String, String), Kept]

  /**
   * @param isDue
   *   whether the caller has to renew the lease now
   * @param isKnown
   *   whether this run already keeps it for the same version
   * @param begins
   *   the query of this thread, if its run renews the lease from now on
   */
  final case class Seen(isDue: Boolean, isKnown: Boolean, begins: Option[MicroBatchExecution] = None)

  /** Keeps the lease of a reader for as long as the query of this thread runs. */
  def keep(folder: ArrangementFolder, reader: String, version: Option[VersionId]): Seen =
    RunningQuery.current.fold(Seen(isDue = true, isKnown = false)) { query =>
      renewer: Unit
      val (key, now) = ((folder.root.toString, reader), System.currentTimeMillis())
      val known = Option(kept.get(key)).filter(_.query eq query)
      val isDue = known.forall(now - _.renewedMs >= known.get.every)
      val isKnown = known.exists(_.version == version)
      if (isDue || !isKnown) {
        val every = math.min(SQLConf.get.getConf(StreamJoinConf.ArrangementLeaseAge) / Parts, Longest)
        val renewedMs = known.filterNot(_ => isDue).fold(now)(_.renewedMs)
        kept.put(key, new Kept(folder, query, version, every, renewedMs))
      }
      Seen(isDue, isKnown, Option.when(known.isEmpty)(query))
    }

  /** Whether this thread runs a query that does not keep the lease of a reader yet. */
  def isNotKept(folder: ArrangementFolder, reader: String): Boolean =
    RunningQuery.current.exists { query =>
      !Option(kept.get((folder.root.toString, reader))).exists(_.query eq query)
    }

  /** The query of this driver that currently renews a lease, if there is one. */
  def query(folder: ArrangementFolder, reader: String): Option[MicroBatchExecution] =
    Option(kept.get((folder.root.toString, reader))).map(_.query).filter(_.isActive)

  private def renew(): Unit = kept.asScala.foreach { case (key @ (_, reader), lease) =>
    if (!lease.query.isActive) kept.remove(key, lease): Unit
    else if (System.currentTimeMillis() - lease.renewedMs >= lease.every) {
      lease.renewedMs = System.currentTimeMillis()
      try new LeaseFiles(lease.folder).showAlive(reader)
      catch {
        // Its arrangement was dropped, or the lease was released: the reader will report it.
        case NonFatal(error) => logDebug(s"The lease of $reader was not renewed", error)
      }
    }
  }

  private lazy val renewer = {
    val executor = Executors.newSingleThreadScheduledExecutor { task =>
      val thread = new Thread(task, "streamjoin-lease-keeper")
      thread.setDaemon(true)
      thread
    }
    executor.scheduleWithFixedDelay(() => renew(), Interval, Interval, TimeUnit.MILLISECONDS)
  }
}
