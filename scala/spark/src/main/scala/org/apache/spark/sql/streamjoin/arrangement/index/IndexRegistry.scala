package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}
import java.util.{Collections, IdentityHashMap, UUID}

import scala.annotation.tailrec
import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  BaseRef,
  BlockFile,
  Manifest,
  RowKey,
  VersionId
}
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, StreamJoinRuntimeException}
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, IndexMemory}

/** An arrangement, in the form that tasks receive. */
final private[streamjoin] case class ArrangementRef(root: String, meta: ArrangementMeta)

/** The cost of bringing an index to the requested version. */
final private[streamjoin] class LoadStats {
  var rows = 0L
  var bytes = 0L
  var nanos = 0L

  /** Whether the index was built from a base instead of being advanced from an older version. */
  var rebuilt = false
}

/**
 * The executor's indexes: one [[KeyIndex]] for each partition of each key of an arrangement, shared
 * by all tasks of all queries of the application. The changes of each version advance it. An index
 * that begins after the requested version is replaced, never changed, because other tasks may hold
 * it. An index whose versions do not precede the requested one is replaced too: after a restore, an
 * arrangement gets other versions with the same numbers.
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

  private val slots = new ConcurrentHashMap[SlotKey, Slot]
  private val blockMemory = new BlockMemory(new IndexMemory(Long.MaxValue, executor))
  private def memory: IndexMemory = blockMemory.memory

  private val manifests = new ManifestCache

  @volatile private var idleNanos = Long.MaxValue

  /** The indexes that each running task uses, by the id of its attempt. */
  private val users = new ConcurrentHashMap[Long, mutable.Set[Slot]]

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
    orRetained(arrangement, low - 1, folder)(manifests.line(arrangement, low, high, folder))

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
    val key = SlotKey(arrangement.root, arrangement.meta.id, index, partition)
    val root = new Path(arrangement.root)
    val slot = slots.computeIfAbsent(key, _ => new Slot)
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
        val loader = new Loader(arrangement, root, index, partition, hadoopConf, stats)
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

  /** A task requests an index once, and then uses it until it ends. */
  private def keepWhileUsed(slot: Slot): Unit = Option(TaskContext.get()).foreach { context =>
    val task = context.taskAttemptId()
    val own: mutable.Set[Slot] = ConcurrentHashMap.newKeySet[Slot].asScala
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

  /** Created for each look-up; usually the index already has the requested versions. */
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
    private def manifest(version: VersionId) = manifests.get(arrangement, version, folder)
    private lazy val rowKey = RowKey.of(meta, index)

    /** Whether the newest version of an index is the given version or a successor of it. */
    def follows(slot: Slot, version: VersionId): Boolean =
      slot.newest.exists(manifests.isOrFollows(arrangement, _, version, folder))

    /** Also returns the newest version of the index. */
    def load(slot: Slot, low: Long, high: VersionId): (KeyIndex, VersionId) =
      orRetained(arrangement, low, folder) {
        val target = manifest(high)
        checkRetains(low, arrangement, target)
        slot.index
          .filter(known => known.oldest <= low && canGoOn(slot, known, high))
          .filter(known => advance(slot, known, high, target))
          .map { known =>
            keepOld(slot, known, target)
            (compacted(known, math.min(low, target.since)), high)
          }
          .getOrElse {
            // Other tasks need the versions that it had, unless they were restored away.
            val newest = slot.newest.filter(of => follows(slot, high) && isThere(of)).getOrElse(high)
            (build(low, newest), newest)
          }
      }

    private def isThere(version: VersionId): Boolean =
      folder.manifestOf(version.number).exists(_.id == version.id)

    /**
     * Whether the files of blocks that may have to be reread still exist. While memory suffices, no
     * block has to be reread, and no file is looked up. Once memory suffices again, missing blocks
     * are read back.
     */
    def canGoOn(slot: Slot, known: KeyIndex, high: VersionId): Boolean = {
      val unloads = blockMemory.unloads
      val isSafe = slot.unloads == unloads && !memory.exceeded && !blockMemory.hasUnloaded(known)
      isSafe || {
        val newest = newestManifest(high)
        val filesOf = pathsIfThere(newest)
        val isSo = known.usedBlocks.forall {
          case block: FileBlock => block.isKept(newest, filesOf); case _ => true
        } && isRefilled(known)
        if (isSo) slot.unloads = unloads
        isSo
      }
    }

    /** False if a file has been removed in the meantime. */
    private def isRefilled(known: KeyIndex): Boolean =
      try {
        blockMemory.refill(known)
        true
      } catch { case error: StreamJoinRuntimeException if isUnreadable(error) => false }

    /** An older manifest may name bases that have been removed. */
    private def newestManifest(atLeast: VersionId) = {
      val newest = folder.newest
      if (newest <= atLeast.number) manifest(atLeast) else manifests.current(arrangement, newest, folder)
    }

    /** Pins the blocks whose files will be removed when the bases change. */
    private def keepOld(slot: Slot, known: KeyIndex, target: Manifest): Unit =
      if (slot.bases != target.bases) {
        slot.bases = target.bases
        val filesOf = pathsIfThere(target)
        known.usedBlocks.foreach {
          case block: FileBlock => block.isLast = !block.isKept(target, filesOf)
          case _ =>
        }
      }

    @tailrec
    private def build(low: Long, high: VersionId): KeyIndex = {
      val newest = newestManifest(high)
      checkRetains(low, arrangement, newest)
      val base = newest.baseFor(low)
      val built =
        try Some(buildFrom(base, high, newest))
        catch {
          // It was removed while it was being read.
          case error: StreamJoinRuntimeException if isUnreadable(error) && {
                manifests.forget(arrangement)
                !base.forall(newestManifest(high).bases.contains)
              } =>
            None
        }
      built match {
        case Some(done) => done
        case None => build(low, high)
      }
    }

    /**
     * The files of a base that a manifest keeps. Only the number of the version that names them is
     * known, and the version in memory may have been removed.
     */
    private def filesOf(base: BaseRef, newest: Manifest): Seq[BlockFile] =
      if (base.manifest == newest.version) newest.baseFiles
      else manifests.upTo(arrangement, base.manifest, newest.versionId, folder).baseFiles

    /**
     * The paths of the files of a base. Each base is listed once for all blocks of an index; the
     * result is empty if the base has been deleted in the meantime.
     */
    private def pathsIfThere(newest: Manifest): BaseRef => Set[String] = {
      val found = mutable.Map.empty[BaseRef, Set[String]]
      base =>
        found.getOrElseUpdate(
          base,
          try filesOf(base, newest).map(_.path).toSet
          catch { case _: StreamJoinRuntimeException => Set.empty[String] }
        )
    }

    private def buildFrom(base: Option[BaseRef], high: VersionId, newest: Manifest): KeyIndex = {
      stats.rebuilt = true
      val built = new KeyIndex(meta.schema.length, rowKey, base.fold(0L)(_.version))
      try {
        val changes = manifests.line(arrangement, base.fold(0L)(_.version + 1), high, folder)
        base.foreach { base =>
          val files = changes.find(_.version == base.manifest).fold(filesOf(base, newest))(_.baseFiles)
          add(built, base.version, files)
        }
        changes.foreach(manifest => add(built, manifest.version, manifest.changes))
        built
      } catch {
        case error: Throwable =>
          release(built, _ => true)
          throw error
      }
    }

    /** Adds the versions up to `high`, unless they do not follow those of the index. */
    private def advance(slot: Slot, known: KeyIndex, high: VersionId, target: Manifest): Boolean =
      high.number > known.newest && target.oldestNeeded <= known.newest + 1 && {
        val changes = manifests.line(arrangement, known.newest + 1, high, folder)
        val isNext = slot.newest.contains(manifests.before(arrangement, changes.head, folder))
        if (isNext) changes.foreach(manifest => add(known, manifest.version, manifest.changes))
        isNext
      }

    private def add(known: KeyIndex, version: Long, files: Seq[BlockFile]): Unit =
      known.load(
        version,
        for {
          file <- files.iterator
          block <- file.blocks.iterator
          if block.index == index && block.partition == partition
        } yield {
          stats.rows += block.rows
          stats.bytes += block.bytes
          (new FileBlock(root, version, file.path, block, hadoopConf, blockMemory), block.rawBytes)
        }
      )

    /** Drops rows that no reader needs, once there are many. */
    private def compacted(known: KeyIndex, since: Long): KeyIndex =
      if (known.entryCount < SmallIndex || since <= known.oldest || known.goneShare(since) < 0.5) known
      else known.from(since)
  }

  /** Holds one index. */
  private class Slot {
    var index: Option[KeyIndex] = None

    /** The newest version of the index. */
    var newest: Option[VersionId] = None
    var usedAt = 0L
    var isDropped = false

    /** How many tasks use it. */
    var users = 0

    /** The bases that were retained when it last advanced. */
    var bases: Seq[BaseRef] = Nil

    /** The number of failed reads of the arrangement's files when the index was created. */
    var failures = 0

    /**
     * The number of blocks, of any index, that had been unloaded when its files were last checked.
     */
    var unloads = 0L
    private var counted = 0L

    def put(loaded: KeyIndex, version: VersionId): Unit = {
      count(loaded.bytes)
      val kept = Collections.newSetFromMap(new IdentityHashMap[LoadedBlock, java.lang.Boolean])
      index.filter(_ ne loaded).foreach { old =>
        loaded.usedBlocks.foreach(kept.add)
        release(old, block => !kept.contains(block))
      }
      index = Some(loaded)
      newest = Some(version)
    }

    def empty(): Unit = {
      count(0)
      index.foreach(release(_, _ => true))
      index = None
      newest = None
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

  /**
   * Drops indexes that no task uses: those that have been idle for some time and, while memory is
   * scarce, the least recently used ones.
   */
  def sweep(
      idleNanos: Long = idleNanos,
      scarceNanos: Long = TimeUnit.SECONDS.toNanos(30)
  ): Unit = {
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
    slots.asScala.foreach { case (key, slot) =>
      slot.synchronized {
        slot.drop()
        slots.remove(key)
      }
    }
  }
}

private[streamjoin] object IndexRegistry {

  /** An index with fewer entries is not worth compacting. */
  private val SmallIndex = 10000

  final private case class SlotKey(root: String, id: UUID, index: Int, partition: Int)

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

  /** The error says so if a file is missing because its version is too old. */
  private[arrangement] def orRetained[T](
      arrangement: ArrangementRef,
      version: Long,
      folder: ArrangementFolder
  )(
      body: => T
  ): T =
    try body
    catch {
      case error: StreamJoinRuntimeException if isUnreadable(error) =>
        folder.manifestOf(folder.newest).foreach(checkRetains(version, arrangement, _))
        throw error
    }

  private def isUnreadable(error: StreamJoinRuntimeException) =
    error.getCondition == "STREAMJOIN_ARRANGEMENT_UNREADABLE"

  private def checkRetains(version: Long, arrangement: ArrangementRef, newest: Manifest): Unit =
    newest.checkRetains(version, arrangement.root, StreamJoinErrors.runtime(_, _: _*))
}
