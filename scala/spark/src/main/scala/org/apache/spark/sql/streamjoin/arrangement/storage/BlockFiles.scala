package org.apache.spark.sql.streamjoin.arrangement.storage

import java.io.FileNotFoundException
import java.util.UUID
import java.util.zip.CRC32C

import scala.collection.mutable

import com.github.luben.zstd.Zstd
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Options.OpenFileOptions
import org.apache.hadoop.fs.{ChecksumException, FSDataInputStream, Path}
import org.apache.hadoop.util.functional.FutureIO

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.unsafe.Platform

/**
 * A block in memory: a sequence of rows, each preceded by its length and the number of copies that
 * are added, or removed if negative. Numbers are in the machine's byte order, as in Spark's rows.
 *
 * {{{
 *   length  copies  row | length  copies  row | ...
 * }}}
 */
private[streamjoin] object Block {
  val HeaderBytes = 8

  /** Length of the row whose header is at a position. */
  def length(bytes: Array[Byte], at: Int): Int =
    Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at)

  def copies(bytes: Array[Byte], at: Int): Int =
    Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at + 4)

  /** Points a row to the one whose header is at a position. */
  def point(row: UnsafeRow, bytes: Array[Byte], at: Int): Unit =
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at + HeaderBytes, length(bytes, at))

  /** Position of the next header. */
  def next(bytes: Array[Byte], at: Int): Int = at + HeaderBytes + length(bytes, at)
}

/** Collects the rows of one block. */
final private[streamjoin] class BlockBuilder {
  private var bytes = new Array[Byte](4096)
  private var used = 0
  private var count = 0

  def rows: Int = count
  def size: Int = used

  def add(row: UnsafeRow, copies: Int): Unit = {
    val length = row.getSizeInBytes
    val needed = used.toLong + Block.HeaderBytes + length
    if (needed > bytes.length) {
      val grown = math.min(math.max(needed, bytes.length * 2L), Int.MaxValue - 16L).toInt
      bytes = java.util.Arrays.copyOf(bytes, grown)
    }
    val at = Platform.BYTE_ARRAY_OFFSET.toLong + used
    Platform.putInt(bytes, at, length)
    Platform.putInt(bytes, at + 4, copies)
    Platform.copyMemory(row.getBaseObject, row.getBaseOffset, bytes, at + Block.HeaderBytes, length.toLong)
    used += Block.HeaderBytes + length
    count += 1
  }

  def rawBytes: Array[Byte] = if (used == bytes.length) bytes else java.util.Arrays.copyOf(bytes, used)

  def compressed: Array[Byte] = Zstd.compress(rawBytes, BlockFiles.CompressionLevel)
}

/** Receives the rows of a task, each for a partition of an index. */
private[streamjoin] trait BlockWriter {
  def add(index: Int, partition: Int, row: UnsafeRow, copies: Int): Unit

  /** The file, or none if no row was added. */
  def commit(): Option[BlockFile]
  def abort(): Unit
}

/**
 * Writes the file of one task, with blocks of many partitions. A block that grows large is closed,
 * and another one is started for the same partition.
 *
 * @param folder
 *   relative to the arrangement's folder
 * @param run
 *   run id of the query
 */
final private[streamjoin] class BlockFileWriter(
    root: Path,
    folder: String,
    task: Int,
    run: UUID,
    hadoopConf: Configuration
) extends BlockWriter {
  private val relative = s"$folder/$task-${ArrangementFolder.tag(run)}-${UUID.randomUUID()}"
  private val path = new Path(root, relative)
  // No other file has this name, so an object store does not need to look for one.
  private lazy val out = path
    .getFileSystem(hadoopConf)
    .createFile(path)
    .recursive()
    .overwrite(true)
    .opt("fs.s3a.create.performance", true)
    .build()
  private var offset = 0L
  private var opened = false
  private val open = mutable.Map.empty[(Int, Int), BlockBuilder]
  private val refs = mutable.ArrayBuffer.empty[BlockRef]

  override def add(index: Int, partition: Int, row: UnsafeRow, copies: Int): Unit = {
    val block = open.getOrElseUpdate((index, partition), new BlockBuilder)
    block.add(row, copies)
    if (block.size >= BlockFiles.LargestBlock) {
      write(index, partition, block)
      open -= ((index, partition)): Unit
    }
  }

  private def write(index: Int, partition: Int, block: BlockBuilder): Unit = {
    val bytes = block.compressed
    opened = true
    out.write(bytes)
    refs += BlockRef(
      index,
      partition,
      offset,
      bytes.length,
      block.size,
      block.rows,
      BlockFiles.checksum(bytes)
    )
    offset += bytes.length
  }

  override def commit(): Option[BlockFile] = {
    open.toSeq.sortBy(_._1).foreach { case ((index, partition), block) => write(index, partition, block) }
    open.clear()
    if (opened) {
      out.close()
      Some(BlockFile(relative, refs.toIndexedSeq))
    } else None
  }

  override def abort(): Unit = if (opened) {
    opened = false
    try out.close()
    finally path.getFileSystem(hadoopConf).delete(path, false): Unit
  }
}

private[streamjoin] object BlockFiles {

  /** Size at which a block is closed, in bytes of memory; a row may be longer. */
  val LargestBlock: Int = 4 << 20

  val CompressionLevel = 1

  def checksum(bytes: Array[Byte]): Int = {
    val crc = new CRC32C
    crc.update(bytes, 0, bytes.length)
    crc.getValue.toInt
  }

  /**
   * @throws org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException if it is missing or
   * damaged
   */
  def read(root: Path, file: String, block: BlockRef, hadoopConf: Configuration): Array[Byte] = {
    val path = new Path(root, file)
    def unreadable(reason: String) = StreamJoinErrors.runtime(
      "STREAMJOIN_ARRANGEMENT_UNREADABLE",
      "file" -> path.toString,
      "reason" -> reason
    )
    val bytes = new Array[Byte](block.bytes)
    try {
      val in = open(path, block, hadoopConf)
      try in.readFully(block.offset, bytes)
      finally in.close()
    } catch {
      case _: FileNotFoundException => throw unreadable("it does not exist")
      case _: java.io.EOFException => throw unreadable("it is truncated")
      // The file system's own checksum.
      case _: ChecksumException => throw unreadable("its checksum is wrong")
    }
    if (checksum(bytes) != block.checksum) throw unreadable("the checksum of a block is wrong")
    Zstd.decompress(bytes, block.rawBytes)
  }

  /**
   * Passes the end of the block, so that an object store is not asked for the length of the file.
   */
  private def open(path: Path, block: BlockRef, hadoopConf: Configuration): FSDataInputStream =
    FutureIO.awaitFuture(
      path
        .getFileSystem(hadoopConf)
        .openFile(path)
        .optLong(OpenFileOptions.FS_OPTION_OPENFILE_LENGTH, block.offset + block.bytes)
        .opt(
          OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY,
          OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM
        )
        .build()
    )
}
