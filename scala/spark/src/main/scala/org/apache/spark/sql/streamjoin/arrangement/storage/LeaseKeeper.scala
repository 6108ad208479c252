package org.apache.spark.sql.streamjoin.arrangement.storage

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinConf}

/**
 * Renews the leases of running queries: a batch may take long, a trigger may come rarely, and an
 * arrangement that does not change has nothing to commit.
 */
private[storage] object LeaseKeeper extends Logging {

  /** A lease is renewed several times before it ends, and now and then if it lasts long. */
  private val Parts = 4
  private val Longest = TimeUnit.MINUTES.toMillis(10)
  private val Interval = 500L

  final private class Kept(
      val folder: ArrangementFolder,
      val query: MicroBatchExecution,
      val every: Long,
      @volatile var renewedMs: Long
  )

  /** By folder of the arrangement and reader. */
  private val kept = new ConcurrentHashMap[(String, String), Kept]

  /**
   * Keeps the lease of a reader for as long as the query of this thread runs.
   *
   * @return
   *   whether the caller is to renew it now
   */
  def keep(folder: ArrangementFolder, reader: String): Boolean = RunningQuery.current.forall { query =>
    renewer: Unit
    val (key, now) = ((folder.root.toString, reader), System.currentTimeMillis())
    val known = Option(kept.get(key)).filter(_.query eq query)
    val isDue = known.forall(now - _.renewedMs >= known.get.every)
    if (isDue) {
      val age = SQLConf.get.getConf(StreamJoinConf.ArrangementLeaseAge)
      kept.put(key, new Kept(folder, query, math.min(age / Parts, Longest), now))
    }
    isDue
  }

  private def renew(): Unit = kept.asScala.foreach { case (key @ (_, reader), lease) =>
    if (!lease.query.isActive) kept.remove(key, lease): Unit
    else if (System.currentTimeMillis() - lease.renewedMs >= lease.every) {
      lease.renewedMs = System.currentTimeMillis()
      try new Leases(lease.folder).showAlive(reader)
      catch {
        // Its arrangement was dropped, or it was released: the reader will say so.
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
