package org.apache.spark.sql.streamjoin.state

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProviderId}

/**
 * The executor's indexes between batches, by the state store that they equal. An index is owned by the store's provider:
 * when Spark unloads that (the query stopped, the partition moved to another executor), the index goes with it, at
 * the latest [[SweepSeconds]] later. A task takes an index out while it works on it, so no two ever share one.
 */
private[streamjoin] object IndexCache {
  val SweepSeconds = 5L
  private val IdleSeconds = 60L

  private val indexes = new ConcurrentHashMap[StateStoreProviderId, JoinIndex]

  private lazy val sweeper = {
    val executor = Executors.newSingleThreadScheduledExecutor { task =>
      val thread = new Thread(task, "streamjoin-index-sweeper")
      thread.setDaemon(true)
      thread
    }
    executor.scheduleWithFixedDelay(() => sweep(), SweepSeconds, SweepSeconds, TimeUnit.SECONDS)
  }

  def take(store: StateStoreProviderId): Option[JoinIndex] = Option(indexes.remove(store))

  def put(store: StateStoreProviderId, index: JoinIndex): Unit = {
    index.idleSince = System.nanoTime()
    Option(indexes.put(store, index)).filter(_ ne index).foreach(_.close())
    sweeper: Unit
  }

  /**
   * Drops the indexes of stores that Spark has unloaded; and those that hold more than their share
   * of too much memory and have not been used for a while, for only the tasks of an index can make
   * it smaller.
   */
  def sweep(
      isLoaded: StateStoreProviderId => Boolean = StateStore.isLoaded,
      idleNanos: Long = TimeUnit.SECONDS.toNanos(IdleSeconds)
  ): Unit = {
    val now = System.nanoTime()
    indexes.asScala.foreach { case (store, index) =>
      val isOfNoUse = !isLoaded(store) || now - index.idleSince >= idleNanos && index.memory.exceeded
      if (isOfNoUse && indexes.remove(store, index)) index.close()
    }
  }

  /** The stores whose indexes are held. */
  def held: Set[StateStoreProviderId] = indexes.keySet.asScala.toSet
}
