package org.apache.spark.sql.streamjoin.arrangement

import java.util.LinkedHashSet
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.state.IndexMemory

/**
 * A block of a file, in memory while there is room.
 *
 * @param version
 *   that wrote the file
 */
final private[streamjoin] class FileBlock(
    root: Path,
    val version: Long,
    file: String,
    ref: BlockRef,
    hadoopConf: Configuration,
    memory: BlockMemory
) extends LoadedBlock {
  private var loaded: Array[Byte] = _
  private var released = false

  /** Since it was last looked at for unloading. */
  private[arrangement] var isUsed = false

  /** Its file is too old to be there for sure: it cannot be read again. */
  @volatile private[arrangement] var isLast = false

  def rawBytes: Int = ref.rawBytes

  override def bytes: Array[Byte] = {
    isUsed = true
    val present = synchronized(loaded)
    if (present != null) present
    else {
      val read =
        try BlockFiles.read(root, file, ref, hadoopConf)
        catch {
          case error: Throwable =>
            memory.countFailure(root)
            throw error
        }
      val isFirst = synchronized {
        val first = loaded == null && !released
        if (first) loaded = read
        first
      }
      // Outside of the lock: it may unload another block.
      if (isFirst) memory.add(this)
      read
    }
  }

  /** Who holds the bytes goes on with them. Returns how many there were. */
  private[arrangement] def unload(): Long = synchronized {
    val bytes = if (loaded == null) 0L else loaded.length.toLong
    loaded = null
    bytes
  }

  /** No index has it any more. Who is still at work with an old one reads it again. */
  private[arrangement] def release(): Long = synchronized {
    released = true
    unload()
  }
}

/**
 * The blocks that are in memory. Beyond what the executor allows, those that have not been used for
 * longest are unloaded, and read again where a probe needs them.
 */
final private[streamjoin] class BlockMemory(val memory: IndexMemory) {

  /** The next to be unloaded comes first. */
  private val loaded = new LinkedHashSet[FileBlock]

  /** A block may have to be read again. */
  @volatile var hasUnloaded = false

  private val failed = new ConcurrentHashMap[Path, Int]

  /** How often a block of an arrangement could not be read: others may have gone as well. */
  def failures(root: Path): Int = failed.getOrDefault(root, 0)

  private[arrangement] def countFailure(root: Path): Unit = failed.merge(root, 1, (a, b) => a + b): Unit

  private[arrangement] def add(block: FileBlock): Unit = {
    synchronized(loaded.add(block))
    memory.add(block.rawBytes.toLong)
    while (memory.exceeded && unloadOne()) hasUnloaded = true
  }

  private def unloadOne(): Boolean = {
    val chosen = synchronized {
      // Each gets a second chance.
      var chances = 2 * loaded.size
      while (chances > 0 && isNeeded(loaded.iterator.next())) {
        val used = takeFirst()
        used.isUsed = false
        loaded.add(used)
        chances -= 1
      }
      // The last one is at work.
      if (loaded.size > 1 && !isNeeded(loaded.iterator.next())) Some(takeFirst()) else None
    }
    chosen.foreach(block => memory.add(-block.unload()))
    chosen.isDefined
  }

  private def isNeeded(block: FileBlock) = block.isUsed || block.isLast

  /** What cannot be unloaded, or has been, asks for indexes from newer files. */
  def isScarce: Boolean = hasUnloaded || memory.exceeded

  private def takeFirst(): FileBlock = {
    val first = loaded.iterator.next()
    loaded.remove(first)
    first
  }

  private[arrangement] def release(blocks: Iterable[FileBlock]): Unit =
    blocks.foreach { block =>
      synchronized(loaded.remove(block))
      memory.add(-block.release())
    }
}
