package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.UUID
import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  BlockRef,
  BlockView,
  Manifest,
  StoredRows,
  VersionId
}
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, IndexMemory}
import org.apache.spark.sql.types.StructType

/**
 * The executor's indexes: one [[KeyIndex]] for each partition of each key of an arrangement, shared
 * by all tasks of all queries of the application. The changes of each version advance it. An index
 * that begins after the requested version is replaced, never changed, because other tasks may hold
 * it. An index whose versions do not precede the requested one is replaced too: after a restore, an
 * arrangement gets other versions with the same numbers.
 *
 * Readers may have different columns and numbers of partitions, each with its own indexes.
 *
 * A file holds blocks, each of one partition of one key. An index loads its blocks in two levels:
 * the newest base that is not newer than the oldest version it serves, then the changes of each
 * version.
 *
 * {{{
 *            files of the arrangement             memory of an executor
 *
 *            versions/5 to 7: manifests, name     recent manifests
 *            files and their blocks ----------->         |
 *                                                        v
 *   level 1  bases/5/<file>                       KeyIndex of (key, partition), versions 4 to 7
 *            all rows of version 4                  hash -> entry -> entry ..., 36 bytes each:
 *   level 2  changes/5/<file>                       version added, version removed,
 *            changes/6/<file>                       copies, block, position
 *            changes/7/<file>                            |
 *              |                                         v
 *              +- block of (key, partition) ----> FileBlock: its rows, decompressed;
 *                                                 unloaded and reread if memory is scarce
 * }}}
 */
final private[streamjoin] class IndexRegistry(executor: ExecutorMemory.Limit) {
  import IndexRegistry._

  private val slots = new ConcurrentHashMap[SlotKey, IndexSlot]
  private val blockMemory = new BlockMemory(new IndexMemory(Long.MaxValue, executor))
  private def memory: IndexMemory = blockMemory.memory

  private val manifests = new ManifestCache

  @volatile private var idleNanos = Long.MaxValue

  /** The indexes that each running task uses, by the id of its attempt. */
  private val users = new ConcurrentHashMap[Long, mutable.Set[IndexSlot]]

  /**
   * The manifests of the versions from `low` to `high`, each followed by its successor.
   *
   * @throws org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException
   *   if one is missing, a version is older than the arrangement keeps, or another version has the
   *   number of `high`
   */
  def manifests(
      arrangement: ArrangementRef,
      low: Long,
      high: VersionId,
      folder: ArrangementFolder
  ): IndexedSeq[Manifest] =
    IndexLoader.orRetained(arrangement, low - 1, folder)(manifests.line(arrangement, low, high, folder))

  /**
   * The index with all versions from `low` to `high`.
   *
   * @throws org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException
   *   if `low` is older than the arrangement keeps, or another version has the number of `high`
   */
  def get(
      arrangement: ArrangementRef,
      index: Int,
      partition: Int,
      low: Long,
      high: VersionId,
      hadoopConf: Configuration,
      stats: LoadStats
  ): KeyIndex = {
    sweeper: Unit
    val meta = arrangement.meta
    val key = SlotKey(
      arrangement.root,
      meta.id,
      meta.number(index),
      meta.keys(index),
      partition,
      meta.partitions,
      meta.schema
    )
    val root = new Path(arrangement.root)
    val slot = slots.computeIfAbsent(key, _ => new IndexSlot(blockMemory))
    val found = slot.synchronized {
      slot.usedAt = System.nanoTime()
      if (slot.isDropped) None
      else {
        keepWhileUsed(slot)
        val failures = blockMemory.failures(root)
        if (slot.failures != failures) {
          slot.empty()
          slot.failures = failures
        }
        val loader = new IndexLoader(arrangement, index, partition, hadoopConf, stats, manifests, blockMemory)
        val known = slot.index.filter { known =>
          known.covers(low, high.number) && loader.follows(slot, high) && loader.canGoOn(slot, known, high)
        }
        Some(known.getOrElse {
          val begun = System.nanoTime()
          val (loaded, newest) =
            try loader.load(slot, low, high)
            catch {
              case error: Throwable =>
                // It may hold only part of a version.
                slot.empty()
                throw error
            }
          slot.put(loaded, newest)
          stats.nanos += System.nanoTime() - begun
          loaded
        })
      }
    }
    // The sweeper dropped the slot in the meantime.
    found.getOrElse(get(arrangement, index, partition, low, high, hadoopConf, stats))
  }

  /** The rows of a block that belong to a partition of a reader, with its columns. */
  def blockOf(
      root: Path,
      file: String,
      ref: BlockRef,
      view: BlockView,
      hadoopConf: Configuration
  ): Array[Byte] = blockMemory.parts.get(root, file, ref, view, hadoopConf)

  /** Converts the rows of a version for a reader, if they have other columns. */
  def storedRows(
      arrangement: ArrangementRef,
      manifest: Manifest,
      folder: ArrangementFolder
  ): Option[StoredRows] = manifests.storedRows(arrangement, manifest, folder)

  /** A task requests an index once, and then uses it until it ends. */
  private def keepWhileUsed(slot: IndexSlot): Unit = Option(TaskContext.get()).foreach { context =>
    val task = context.taskAttemptId()
    val own: mutable.Set[IndexSlot] = ConcurrentHashMap.newKeySet[IndexSlot].asScala
    val known = Option(users.putIfAbsent(task, own))
    if (known.getOrElse(own).add(slot)) slot.users += 1
    // If the task has already ended, the listener is called immediately.
    if (known.isEmpty) context.addTaskCompletionListener[Unit](_ => endTask(task))
  }

  private def endTask(task: Long): Unit = Option(users.remove(task)).foreach {
    _.foreach { slot =>
      slot.synchronized {
        slot.users -= 1
        slot.usedAt = System.nanoTime()
      }
    }
  }

  /**
   * Drops indexes that no task uses: those that have been idle for some time and, while memory is
   * scarce, the least recently used ones.
   */
  def sweep(
      idleNanos: Long = idleNanos,
      scarceNanos: Long = TimeUnit.SECONDS.toNanos(30)
  ): Unit = {
    blockMemory.parts.dropOld(math.min(idleNanos, PartsNanos))
    val now = System.nanoTime()
    val byUse = slots.asScala.toSeq.map { case (key, slot) => (slot.usedAt, key, slot) }.sortBy(_._1)
    byUse.foreach { case (_, key, slot) =>
      slot.synchronized {
        val idle = now - slot.usedAt
        if (slot.users == 0 && (idle >= idleNanos || memory.isExecutorFull && idle >= scarceNanos)) {
          slot.drop()
          slots.remove(key)
        }
      }
    }
  }

  private lazy val sweeper = {
    val executor = Executors.newSingleThreadScheduledExecutor { task =>
      val thread = new Thread(task, "streamjoin-arrangement-sweeper")
      thread.setDaemon(true)
      thread
    }
    executor.scheduleWithFixedDelay(() => sweep(), 5, 5, TimeUnit.SECONDS)
  }

  /** The bytes of all indexes and blocks in memory. */
  def bytes: Long = memory.used

  /** The number of indexes in memory. */
  def size: Int = slots.asScala.values.count(_.index.isDefined)

  /** Empties the registry, as if the process had just started. */
  def clear(): Unit = {
    manifests.clear()
    blockMemory.parts.dropOld(0)
    slots.asScala.foreach { case (key, slot) =>
      slot.synchronized {
        slot.drop()
        slots.remove(key)
      }
    }
  }
}

private[streamjoin] object IndexRegistry {

  /**
   * @param key
   *   columns of the index: if a query that adds a key fails before its first version, the next one
   *   may add another key
   */
  final private case class SlotKey(
      root: String,
      id: UUID,
      index: Int,
      key: Seq[String],
      partition: Int,
      of: Int,
      schema: StructType
  )

  /** How long the parts of a block are kept for the other partitions of a reader. */
  private val PartsNanos = TimeUnit.SECONDS.toNanos(30)

  /** Whether this process has ever had an index of an arrangement. */
  def isBegun: Boolean = ofProcess.isDefined

  @volatile private var ofProcess: Option[IndexRegistry] = None

  /**
   * The registry of this process.
   *
   * @param settings
   *   those of the calling query
   */
  def apply(settings: IndexSettings): IndexRegistry = {
    val wanted = ExecutorMemory.limit(settings.memory)
    val registry = ofProcess.getOrElse {
      synchronized {
        ofProcess.getOrElse {
          val made = new IndexRegistry(wanted)
          ofProcess = Some(made)
          made
        }
      }
    }
    registry.memory.limitTo(wanted.limit)
    registry.idleNanos = settings.idleAge.fold(Long.MaxValue)(TimeUnit.MILLISECONDS.toNanos)
    registry
  }
}
