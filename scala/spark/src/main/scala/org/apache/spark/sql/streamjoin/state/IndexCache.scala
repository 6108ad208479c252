package org.apache.spark.sql.streamjoin.state

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreId, StateStoreProviderId}

/** An index that waits for the next batch of its store, for any kind of operator. */
private[streamjoin] trait CachedIndex {
  def memory: IndexMemory

  /** When it was put into the cache, in nanoseconds. */
  @volatile private[state] var idleSince: Long = 0L

  /** Drops the index, which is then no longer counted. */
  private[state] def close(): Unit
}

/**
 * The executor's indexes between batches, by the state store that they equal. An index lives as
 * long as the store's provider: when Spark unloads that (the query stopped, the partition moved to
 * another executor), the index is dropped at most [[SweepSeconds]] later. A task takes an index out
 * of the cache while it works on it, so no two tasks share one.
 *
 * A store has one index, that of its latest run. The index of a stopped run is dropped when the
 * next run starts, so that it does not use a share of the memory.
 */
private[streamjoin] object IndexCache {
  val SweepSeconds = 5L
  private val IdleSeconds = 60L

  private case class Held(store: StateStoreProviderId, index: CachedIndex)

  private val indexes = new ConcurrentHashMap[StateStoreId, Held]

  private lazy val sweeper = {
    val executor = Executors.newSingleThreadScheduledExecutor { task =>
      val thread = new Thread(task, "streamjoin-index-sweeper")
      thread.setDaemon(true)
      thread
    }
    executor.scheduleWithFixedDelay(() => sweep(), SweepSeconds, SweepSeconds, TimeUnit.SECONDS)
  }

  /** Removes and returns the index of a store, of the type that its operator uses. */
  def take[T <: CachedIndex: ClassTag](store: StateStoreProviderId): Option[T] =
    Option(indexes.remove(store.storeId)).flatMap {
      case Held(`store`, index: T) => Some(index)
      case Held(`store`, other) =>
        other.close()
        throw new IllegalStateException(s"the index of $store is a ${other.getClass.getName}")
      case ofAnotherRun =>
        ofAnotherRun.index.close()
        None
    }

  def put(store: StateStoreProviderId, index: CachedIndex): Unit = {
    index.idleSince = System.nanoTime()
    Option(indexes.put(store.storeId, Held(store, index))).map(_.index).filter(_ ne index).foreach(_.close())
    sweeper: Unit
  }

  /**
   * Drops the indexes of stores that Spark has unloaded. While memory is short, also drops those
   * that hold more than their share and have been idle for a while, because only its own tasks can
   * shrink an index.
   */
  def sweep(
      isLoaded: StateStoreProviderId => Boolean = StateStore.isLoaded,
      idleNanos: Long = TimeUnit.SECONDS.toNanos(IdleSeconds)
  ): Unit = {
    val now = System.nanoTime()
    indexes.asScala.foreach { case (id, held @ Held(store, index)) =>
      val isOfNoUse = !isLoaded(store) || now - index.idleSince >= idleNanos && index.memory.exceeded
      if (isOfNoUse && indexes.remove(id, held)) index.close()
    }
  }

  /** Stores whose indexes are in the cache. */
  def held: Set[StateStoreProviderId] = indexes.values.asScala.map(_.store).toSet
}
