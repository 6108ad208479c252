package org.apache.spark.sql.streamjoin.arrangement

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}
import java.util.{Collections, IdentityHashMap, UUID}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, StreamJoinRuntimeException}
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, IndexMemory}

/** An arrangement, as a task knows it. */
final private[streamjoin] case class ArrangementRef(root: String, meta: ArrangementMeta)

/** What it took to bring an index to the version that was asked for. */
final private[streamjoin] class LoadStats {
  var rows = 0L
  var bytes = 0L
  var nanos = 0L

  /** The index was built from a base, not from the version before. */
  var rebuilt = false
}

/**
 * The executor's indexes, one for each partition of each key of an arrangement, shared by all tasks
 * of all queries of the application. Each is brought from version to version by what changed. One
 * that cannot serve a version, because it begins later, is replaced and never changed: other tasks
 * may hold it.
 */
final private[streamjoin] class IndexRegistry(executor: ExecutorMemory.Limit) {
  import IndexRegistry._

  private val slots = new ConcurrentHashMap[SlotKey, Slot]
  private val blockMemory = new BlockMemory(new IndexMemory(Long.MaxValue, executor))
  private def memory: IndexMemory = blockMemory.memory

  private val manifests = new ManifestCache

  /**
   * What changed with a version. It is read once.
   *
   * @throws org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException
   *   where it is older than the arrangement keeps, or is missing
   */
  def manifest(arrangement: ArrangementRef, version: Long, folder: ArrangementFolder): Manifest =
    orRetained(arrangement, version - 1, folder)(manifests.get(arrangement, version, folder))

  /**
   * The index with all versions from one to another.
   *
   * @throws org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException
   *   where the first is older than the arrangement keeps
   */
  def get(
      arrangement: ArrangementRef,
      index: Int,
      partition: Int,
      low: Long,
      high: Long,
      hadoopConf: Configuration,
      stats: LoadStats
  ): KeyIndex = {
    sweeper: Unit
    val key = SlotKey(arrangement.root, arrangement.meta.id, index, partition)
    val root = new Path(arrangement.root)
    val slot = slots.computeIfAbsent(key, _ => new Slot)
    val found = slot.synchronized {
      slot.usedAt = System.nanoTime()
      if (slot.isDropped) None
      else {
        val failures = blockMemory.failures(root)
        if (slot.failures != failures) {
          slot.empty()
          slot.failures = failures
        }
        val loader = new Loader(arrangement, root, index, partition, hadoopConf, stats)
        Some(slot.index.filter(known => known.covers(low, high) && loader.canGoOn(known, high)).getOrElse {
          val begun = System.nanoTime()
          val loaded =
            try loader.load(slot.index, low, high)
            catch {
              case error: Throwable =>
                // It may have a part of a version.
                slot.empty()
                throw error
            }
          slot.put(loaded)
          stats.nanos += System.nanoTime() - begun
          loaded
        })
      }
    }
    // It was swept in between.
    found.getOrElse(get(arrangement, index, partition, low, high, hadoopConf, stats))
  }

  /** Made for each look-up, where an index mostly has all that is asked for. */
  private class Loader(
      arrangement: ArrangementRef,
      root: Path,
      index: Int,
      partition: Int,
      hadoopConf: Configuration,
      stats: LoadStats
  ) {
    private val meta = arrangement.meta
    private lazy val folder = new ArrangementFolder(root, hadoopConf)
    private def manifest(version: Long) = manifests.get(arrangement, version, folder)
    private lazy val rowKey = RowKey.of(meta, index)

    def load(present: Option[KeyIndex], low: Long, high: Long): KeyIndex =
      orRetained(arrangement, low, folder) {
        val target = manifest(high)
        checkRetains(low, arrangement, target)
        present
          .filter(known => known.oldest <= low && canGoOn(known, high))
          .map { known =>
            advance(known, high)
            keepOld(known, target)
            compacted(known, math.min(low, target.since))
          }
          .getOrElse {
            // The bases that a manifest before the newest names may have gone.
            val newest = manifest(math.max(high, folder.newest))
            checkRetains(low, arrangement, newest)
            build(low, math.max(high, present.fold(high)(_.newest)), newest)
          }
      }

    /** Blocks that may have to be read again are still there. */
    def canGoOn(known: KeyIndex, high: Long): Boolean =
      !blockMemory.isScarce || oldestBase(manifest(math.max(high, folder.newest))).forall(_ <= known.oldest)

    private def oldestBase(target: Manifest): Option[Long] = target.bases.headOption.map(_.version)

    /** Of an index that began before the oldest base: what it has of files before that. */
    private def keepOld(known: KeyIndex, target: Manifest): Unit =
      for (oldest <- oldestBase(target) if oldest > known.oldest)
        known.usedBlocks.foreach {
          case block: FileBlock => block.isLast = block.version < oldest
          case _ =>
        }

    private def build(low: Long, high: Long, target: Manifest): KeyIndex = {
      stats.rebuilt = true
      val base = target.baseFor(low)
      val built = new KeyIndex(meta.schema.length, rowKey, base.fold(0L)(_.version))
      try {
        base.foreach(base => add(built, base.version, base.manifest, manifest(base.manifest).baseFiles))
        advance(built, high)
        built
      } catch {
        case error: Throwable =>
          release(built, _ => true)
          throw error
      }
    }

    private def advance(known: KeyIndex, high: Long): Unit =
      (known.newest + 1 to high).foreach(version => add(known, version, version, manifest(version).changes))

    private def add(known: KeyIndex, version: Long, writtenBy: Long, files: Seq[BlockFile]): Unit =
      known.load(
        version,
        for {
          file <- files.iterator
          block <- file.blocks.iterator
          if block.index == index && block.partition == partition
        } yield {
          stats.rows += block.rows
          stats.bytes += block.bytes
          (new FileBlock(root, writtenBy, file.path, block, hadoopConf, blockMemory), block.rawBytes)
        }
      )

    /** Without the rows that no reader needs, once they are many. */
    private def compacted(known: KeyIndex, since: Long): KeyIndex =
      if (known.entryCount < SmallIndex || since <= known.oldest || known.goneShare(since) < 0.5) known
      else known.from(since)
  }

  /** The place of one index. */
  private class Slot {
    var index: Option[KeyIndex] = None
    var usedAt = 0L
    var isDropped = false

    /** Of reads of the arrangement's files, when the index was begun. */
    var failures = 0
    private var counted = 0L

    def put(loaded: KeyIndex): Unit = {
      count(loaded.bytes)
      val kept = Collections.newSetFromMap(new IdentityHashMap[LoadedBlock, java.lang.Boolean])
      index.filter(_ ne loaded).foreach { old =>
        loaded.usedBlocks.foreach(kept.add)
        release(old, block => !kept.contains(block))
      }
      index = Some(loaded)
    }

    def empty(): Unit = {
      count(0)
      index.foreach(release(_, _ => true))
      index = None
    }

    def drop(): Unit = {
      empty()
      isDropped = true
    }

    private def count(bytes: Long): Unit = {
      memory.add(bytes - counted)
      counted = bytes
    }

  }

  private def release(old: KeyIndex, which: FileBlock => Boolean): Unit =
    blockMemory.release(old.usedBlocks.collect { case block: FileBlock if which(block) => block })

  /** Drops what has not been used for a while; where memory is scarce, for a shorter while. */
  def sweep(
      idleNanos: Long = TimeUnit.MINUTES.toNanos(10),
      scarceNanos: Long = TimeUnit.SECONDS.toNanos(30)
  ): Unit = {
    val now = System.nanoTime()
    slots.asScala.foreach { case (key, slot) =>
      slot.synchronized {
        val idle = now - slot.usedAt
        if (idle >= idleNanos || memory.exceeded && idle >= scarceNanos) {
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

  /** How many indexes are held. */
  def size: Int = slots.asScala.values.count(_.index.isDefined)

  /** As if the process had just begun. */
  def clear(): Unit = {
    manifests.clear()
    slots.asScala.foreach { case (key, slot) =>
      slot.synchronized {
        slot.drop()
        slots.remove(key)
      }
    }
  }
}

private[streamjoin] object IndexRegistry {

  /** Below so many entries an index is not worth the work of making it smaller. */
  private val SmallIndex = 10000

  final private case class SlotKey(root: String, id: UUID, index: Int, partition: Int)

  /** Some index of an arrangement has been in this process. */
  def isBegun: Boolean = ofProcess.isDefined

  @volatile private var ofProcess: Option[IndexRegistry] = None

  /**
   * That of this process.
   *
   * @param limit
   *   `spark.streamjoin.executorIndexMemory` of the query that asks: all share the indexes, and the
   *   limit is that of the one that asked last
   */
  def apply(limit: Option[Long]): IndexRegistry = {
    val wanted = ExecutorMemory.limit(limit)
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
    registry
  }

  /** What is missing may have gone because it is too old: then the error says so. */
  private[arrangement] def orRetained[T](
      arrangement: ArrangementRef,
      version: Long,
      folder: ArrangementFolder
  )(
      body: => T
  ): T =
    try body
    catch {
      case error: StreamJoinRuntimeException if error.getCondition == "STREAMJOIN_ARRANGEMENT_UNREADABLE" =>
        folder.manifestOf(folder.newest).foreach(checkRetains(version, arrangement, _))
        throw error
    }

  private def checkRetains(version: Long, arrangement: ArrangementRef, newest: Manifest): Unit =
    newest.checkRetains(version, arrangement.root, StreamJoinErrors.runtime(_, _: _*))

  /** Manifests that were read lately. */
  final private class ManifestCache {
    private val Kept = 256

    private val cache = new mutable.LinkedHashMap[(String, UUID, Long), Manifest]

    def clear(): Unit = synchronized(cache.clear())

    def get(arrangement: ArrangementRef, version: Long, folder: ArrangementFolder): Manifest = {
      val key = (arrangement.root, arrangement.meta.id, version)
      synchronized(cache.get(key)).getOrElse {
        val read = folder.manifest(version)
        synchronized {
          cache.put(key, read)
          while (cache.size > Kept) cache -= cache.head._1
        }
        read
      }
    }
  }
}
