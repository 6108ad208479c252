package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.{Collections, IdentityHashMap}

import scala.annotation.tailrec
import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.arrangement.storage._
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, StreamJoinRuntimeException}

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
 * Loads the index of a slot, or brings it to the requested versions. One is created for each
 * look-up. Usually the index already has the versions.
 */
final private[index] class IndexLoader(
    arrangement: ArrangementRef,
    index: Int,
    partition: Int,
    hadoopConf: Configuration,
    stats: LoadStats,
    manifests: ManifestCache,
    blockMemory: BlockMemory
) {
  import IndexLoader._

  private val root = new Path(arrangement.root)
  private val meta = arrangement.meta
  private lazy val folder = new ArrangementFolder(root, hadoopConf)
  private def manifest(version: VersionId) = manifests.get(arrangement, version, folder)
  private lazy val rowKey = RowKey.of(meta, index)
  private lazy val part = IndexPartition(meta, index, partition)
  private val converters = mutable.Map.empty[Option[String], Option[StoredRows]]

  /** Whether the newest version of an index is the given version or a successor of it. */
  def follows(slot: IndexSlot, version: VersionId): Boolean =
    slot.newest.exists(manifests.isOrFollows(arrangement, _, version, folder))

  /** Also returns the newest version of the index. */
  def load(slot: IndexSlot, low: Long, high: VersionId): (KeyIndex, VersionId) =
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
  def canGoOn(slot: IndexSlot, known: KeyIndex, high: VersionId): Boolean = {
    val unloads = blockMemory.unloads
    val isSafe = slot.unloads == unloads && !blockMemory.memory.exceeded && !blockMemory.hasUnloaded(known)
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

  private def isRefilled(known: KeyIndex): Boolean = ifThere {
    blockMemory.refill(known)
    true
  }

  /** False if a file has been removed in the meantime. */
  private def ifThere(body: => Boolean): Boolean =
    try body
    catch { case error: StreamJoinRuntimeException if isUnreadable(error) => false }

  /** An older manifest may name bases that have been removed. */
  private def newestManifest(atLeast: VersionId) = {
    val newest = folder.newestFrom(atLeast.number)
    if (newest <= atLeast.number) manifest(atLeast) else manifests.current(arrangement, newest, folder)
  }

  /** Pins the blocks whose files will be removed when the bases change. */
  private def keepOld(slot: IndexSlot, known: KeyIndex, target: Manifest): Unit =
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
   * The manifest that names the files of a base that a manifest keeps. Only its number is known,
   * and the version in memory may have been removed.
   */
  private def naming(base: BaseRef, newest: Manifest): Manifest =
    if (base.manifest == newest.version) newest
    else manifests.upTo(arrangement, base.manifest, newest.versionId, folder)

  /**
   * The paths of the files of a base. Each base is listed once for all blocks of an index; the
   * result is empty if the base has been deleted in the meantime.
   */
  private def pathsIfThere(newest: Manifest): BaseRef => Set[String] = {
    val found = mutable.Map.empty[BaseRef, Set[String]]
    base =>
      found.getOrElseUpdate(
        base,
        try naming(base, newest).baseFiles.map(_.path).toSet
        catch { case _: StreamJoinRuntimeException => Set.empty[String] }
      )
  }

  private def buildFrom(base: Option[BaseRef], high: VersionId, newest: Manifest): KeyIndex = {
    stats.rebuilt = true
    val built = new KeyIndex(meta.schema.length, rowKey, base.fold(0L)(_.version))
    try {
      val changes = manifests.line(arrangement, base.fold(0L)(_.version + 1), high, folder)
      base.foreach { base =>
        val named = changes.find(_.version == base.manifest).getOrElse(naming(base, newest))
        add(built, base.version, named.baseFiles, named)
      }
      changes.foreach(addChanges(built, _))
      built
    } catch {
      case error: Throwable =>
        blockMemory.release(built)(_ => true)
        throw error
    }
  }

  /**
   * Adds the versions up to `high`. False if they do not follow those of the index, or if their
   * files have been removed: a version after `high` may need fewer files than `high` does.
   */
  private def advance(slot: IndexSlot, known: KeyIndex, high: VersionId, target: Manifest): Boolean = {
    val next = known.newest + 1
    def isThere = next == high.number || folder.hasVersion(next)
    next <= high.number && target.oldestNeeded <= next && isThere && ifThere {
      val changes = manifests.line(arrangement, next, high, folder)
      val isNext = slot.newest.contains(manifests.before(arrangement, changes.head, folder))
      if (isNext) changes.foreach(addChanges(known, _))
      isNext
    }
  }

  private def addChanges(known: KeyIndex, manifest: Manifest): Unit =
    add(known, manifest.version, manifest.changes, manifest)

  /** The files of a version before the key was added have its rows by the primary key only. */
  private def viewOf(manifest: Manifest): BlockView = {
    val isThere = !meta.isOfRows || index < manifests.described(arrangement, manifest, folder).keys.size
    new BlockView(
      part,
      manifest.partitions,
      converters.getOrElseUpdate(manifest.description, manifests.storedRows(arrangement, manifest, folder)),
      if (isThere) meta.number(index) else 0,
      ofOther = Option.unless(isThere)(meta.keys(index))
    )
  }

  /** @param by names the files */
  private def add(known: KeyIndex, version: Long, files: Seq[BlockFile], by: Manifest): Unit = {
    val view = viewOf(by)
    val converting = Option.unless(view.isPlain)(view)
    known.load(
      version,
      for {
        file <- files.iterator
        block <- file.blocks.iterator
        if view.canBeIn(block)
        loaded = new FileBlock(root, version, file.path, block, hadoopConf, blockMemory, converting)
        size = if (converting.isDefined) sizeOf(loaded) else block.rawBytes
        if size > 0
      } yield {
        if (converting.isEmpty) stats.rows += block.rows
        stats.bytes += block.bytes
        (loaded, size)
      }
    )
  }

  /** Reads it: how large the rows of the partition are is not known before. */
  private def sizeOf(block: FileBlock): Int = {
    val part = block.bytes
    stats.rows += BlockParts.rows(part)
    if (part.isEmpty) blockMemory.release(block)
    part.length
  }

  /** Drops rows that no reader needs, once there are many, or once they slow down look-ups. */
  private def compacted(known: KeyIndex, since: Long): KeyIndex = {
    known.needOnlyFrom(since)
    def hasMany = known.entryCount >= SmallIndex && known.goneShare(since) >= 0.5
    if (since > known.oldest && (known.isWorn || hasMany)) known.from(since) else known
  }
}

/** Holds one index. */
final private[index] class IndexSlot(blockMemory: BlockMemory) {
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
      blockMemory.release(old)(block => !kept.contains(block))
    }
    index = Some(loaded)
    newest = Some(version)
  }

  def empty(): Unit = {
    count(0)
    index.foreach(blockMemory.release(_)(_ => true))
    index = None
    newest = None
  }

  def drop(): Unit = {
    empty()
    isDropped = true
  }

  private def count(bytes: Long): Unit = {
    blockMemory.memory.add(bytes - counted)
    counted = bytes
  }
}

private[arrangement] object IndexLoader {

  /** An index with fewer entries is not worth compacting. */
  private val SmallIndex = 10000

  /** The error says so if a file is missing because its version is too old. */
  def orRetained[T](
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
