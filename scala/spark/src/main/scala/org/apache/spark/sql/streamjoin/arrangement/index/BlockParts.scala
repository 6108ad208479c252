package org.apache.spark.sql.streamjoin.arrangement.index

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.arrangement.storage.{Block, BlockFiles, BlockRef, BlockView}
import org.apache.spark.sql.streamjoin.state.IndexMemory

/**
 * Reads blocks for readers with other columns or another number of partitions than the files have.
 * With another number, several partitions of a reader need the same block at about the same time,
 * so the first one reads and divides it for all of them.
 */
final private[streamjoin] class BlockParts(memory: IndexMemory) {
  import BlockParts._

  /** The oldest comes first. */
  private val kept = mutable.LinkedHashMap.empty[Key, Parts]
  private val reading = Array.fill(Readers)(new Object)

  /** The rows of a block that belong to a partition, with the columns of the reader. */
  def get(
      root: Path,
      file: String,
      ref: BlockRef,
      view: BlockView,
      hadoopConf: Configuration
  ): Array[Byte] = {
    def read() = BlockFiles.read(root, file, ref, hadoopConf)
    if (view.isWhole) view.converted(read())
    else part(Key(root, file, ref.offset, view.division), view, () => read())
  }

  private def part(key: Key, view: BlockView, read: () => Array[Byte]): Array[Byte] = {
    def known = synchronized(kept.get(key)).map(_.of(view.number))
    known.getOrElse {
      reading(Math.floorMod(key.hashCode, Readers)).synchronized {
        known.getOrElse {
          val parts = view.divided(read())
          keep(key, Parts(parts, System.nanoTime()))
          parts(view.number)
        }
      }
    }
  }

  private def keep(key: Key, parts: Parts): Unit = synchronized {
    if (memory.hasRoomFor(parts.bytes)) {
      kept.put(key, parts)
      memory.add(parts.bytes)
    }
  }

  private def dropFirst(): Unit = {
    val (key, parts) = kept.head
    kept -= key
    memory.add(-parts.bytes)
  }

  /** Drops the oldest block, if there is one. */
  def dropOne(): Boolean = synchronized {
    val isOne = kept.nonEmpty
    if (isOne) dropFirst()
    isOne
  }

  /** Drops the blocks that were read some time ago. */
  def dropOld(nanos: Long): Unit = synchronized {
    val now = System.nanoTime()
    while (kept.headOption.exists { case (_, parts) => now - parts.readAt >= nanos }) dropFirst()
  }
}

private[index] object BlockParts {

  final private case class Key(
      root: Path,
      file: String,
      offset: Long,
      division: BlockView.Division
  )

  /** @param of by partition of the reader */
  final private case class Parts(of: IndexedSeq[Array[Byte]], readAt: Long) {
    val bytes: Long = of.iterator.map(_.length.toLong).sum
  }

  /** How many blocks can be read at the same time. */
  private val Readers = 64

  /** The number of rows of a part. */
  def rows(part: Array[Byte]): Int =
    Iterator.iterate(0)(Block.next(part, _)).takeWhile(_ < part.length).size
}
