package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.LinkedHashSet
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  BaseRef,
  BlockFiles,
  BlockRef,
  BlockView,
  Manifest
}
import org.apache.spark.sql.streamjoin.state.IndexMemory

/**
 * A block of a file, kept in memory while there is room.
 *
 * @param version
 *   version whose changes it contains, or whose rows if it belongs to a base
 * @param view
 *   what the index takes from the block, unless it takes the stored bytes
 */
final private[streamjoin] class FileBlock(
    root: Path,
    val version: Long,
    file: String,
    ref: BlockRef,
    hadoopConf: Configuration,
    memory: BlockMemory,
    view: Option[BlockView] = None
) extends LoadedBlock {
  @volatile private var loaded: Array[Byte] = _
  private var released = false

  /** Its bytes have been dropped while an index still refers to it. */
  private var isUnloaded = false

  /** Whether it was used since the last check for unloading. */
  private[arrangement] var isUsed = false

  /** Whether its file may be gone: then it cannot be reread. */
  @volatile private[arrangement] var isLast = false

  /**
   * Whether its file is among those of an arrangement.
   *
   * @param filesOf
   *   paths of the files of a base: after a restore, another base may have the same number
   */
  private[arrangement] def isKept(newest: Manifest, filesOf: BaseRef => Set[String]): Boolean =
    if (file.startsWith(s"${ArrangementFolder.Bases}/"))
      newest.bases.exists(base => base.version == version && filesOf(base)(file))
    else newest.oldestNeeded <= version

  /** Its bytes in memory; if it is a part of a block, at most as many before it has been read. */
  def rawBytes: Int = rawSize
  @volatile private var rawSize = ref.rawBytes

  override def bytesInMemory: Array[Byte] = loaded

  override def bytes: Array[Byte] = {
    // Tasks share it: only a change is written.
    if (!isUsed) isUsed = true
    val present = loaded
    if (present != null) present
    else {
      val read =
        try
          view.fold(BlockFiles.read(root, file, ref, hadoopConf)) {
            memory.parts.get(root, file, ref, _, hadoopConf)
          }
        catch {
          case error: Throwable =>
            memory.countFailure(root)
            throw error
        }
      val isFirst = synchronized {
        val first = loaded == null && !released
        if (first) {
          loaded = read
          rawSize = read.length
          markUnloaded(false)
        }
        first
      }
      // Outside the lock, because it may unload another block.
      if (isFirst) memory.add(this)
      read
    }
  }

  /** Whether its bytes are in memory. */
  private[arrangement] def isLoaded: Boolean = loaded != null

  private def markUnloaded(is: Boolean): Unit = if (isUnloaded != is) {
    isUnloaded = is
    memory.countUnloaded(if (is) 1 else -1)
  }

  private def drop(): Long = {
    val bytes = if (loaded == null) 0L else loaded.length.toLong
    loaded = null
    bytes
  }

  /** Drops the bytes and returns how many there were. Tasks that hold them can still use them. */
  private[arrangement] def unload(): Long = synchronized {
    if (!released) markUnloaded(true)
    drop()
  }

  /** No index refers to it any longer. Tasks still holding an old index reread the block. */
  private[arrangement] def release(): Long = synchronized {
    released = true
    markUnloaded(false)
    drop()
  }
}

/**
 * The blocks in memory. Beyond the executor's limit, the least recently used ones are unloaded, and
 * reread when a probe needs them.
 */
final private[streamjoin] class BlockMemory(val memory: IndexMemory) {
  val parts = new BlockParts(memory)

  /** The next block to unload comes first. */
  private val loaded = new LinkedHashSet[FileBlock]

  /** Blocks of indexes that are not in memory. */
  private val unloaded = new AtomicInteger
  @volatile private var unloadedSoFar = 0L

  private[arrangement] def countUnloaded(change: Int): Unit = unloaded.addAndGet(change): Unit

  private val failed = new ConcurrentHashMap[Path, Int]

  /** How often a block of an arrangement could not be read: other files may be missing too. */
  def failures(root: Path): Int = failed.getOrDefault(root, 0)

  private[arrangement] def countFailure(root: Path): Unit = failed.merge(root, 1, (a, b) => a + b): Unit

  private[arrangement] def add(block: FileBlock): Unit = {
    synchronized(loaded.add(block))
    memory.add(block.rawBytes.toLong)
    while (memory.exceeded && parts.dropOne()) {}
    while (memory.exceeded && unloadOne()) synchronized(unloadedSoFar += 1)
  }

  private def unloadOne(): Boolean = {
    val chosen = synchronized {
      // Each block gets a second chance.
      var chances = 2 * loaded.size
      while (chances > 0 && isNeeded(loaded.iterator.next())) {
        val used = takeFirst()
        used.isUsed = false
        loaded.add(used)
        chances -= 1
      }
      // The last block is in use.
      if (loaded.size > 1 && !isNeeded(loaded.iterator.next())) Some(takeFirst()) else None
    }
    chosen.foreach(block => memory.add(-block.unload()))
    chosen.isDefined
  }

  private def isNeeded(block: FileBlock) = block.isUsed || block.isLast

  /** How many blocks have been unloaded so far. */
  def unloads: Long = unloadedSoFar

  def hasUnloaded(of: KeyIndex): Boolean = unloaded.get > 0 && unloadedOf(of).nonEmpty

  private def unloadedOf(of: KeyIndex): Seq[FileBlock] =
    of.usedBlocks.collect { case block: FileBlock if !block.isLoaded => block }

  /** Reads the blocks of an index that are not in memory, if there is room for all of them. */
  def refill(index: KeyIndex): Unit = {
    val missing = unloadedOf(index)
    if (memory.hasRoomFor(missing.map(_.rawBytes.toLong).sum)) missing.foreach(_.bytes)
  }

  private def takeFirst(): FileBlock = {
    val first = loaded.iterator.next()
    loaded.remove(first)
    first
  }

  /** Releases the blocks of an index that satisfy a condition. */
  private[index] def release(index: KeyIndex)(which: FileBlock => Boolean): Unit =
    index.usedBlocks.foreach {
      case block: FileBlock if which(block) => release(block)
      case _ =>
    }

  private[index] def release(block: FileBlock): Unit = {
    synchronized(loaded.remove(block))
    memory.add(-block.release())
  }
}
