package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, IOException}
import java.util.UUID

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, BlockFile, BlockRef}
import org.apache.spark.sql.types.{BinaryType, StructType}

/**
 * The report of a task about what it has written: the row that it passes to the sink.
 *
 * @param base
 *   its part of the base of the previous version, if the batch writes a base
 * @param counts
 *   changes to the counts of the arrangement
 * @param origin
 *   what the changes apply to; none for a task that only writes them
 * @param negativeRows
 *   its partition, and how many rows with negative copies the partition had before the batch
 */
final private[streamjoin] case class TaskOutput(
    changes: Option[BlockFile],
    base: Option[BlockFile],
    wroteBase: Boolean,
    counts: Map[String, Long],
    origin: Option[Origin] = None,
    negativeRows: Option[(Int, Long)] = None
) {
  def toBytes: Array[Byte] = TaskOutput.toBytes(this)
  def toRow: InternalRow = InternalRow(toBytes)
}

/**
 * The version that a task has compared the rows of a batch with.
 *
 * @param arrangement
 *   id of the arrangement
 * @param before
 *   id of the previous version, if there is one
 */
final private[streamjoin] case class Origin(arrangement: UUID, before: Option[UUID])

/**
 * Its bytes consist of text and numbers only, and only bytes written by a task are read. A query
 * can send any bytes to a sink, so they must not name classes, as Java serialization does.
 *
 * {{{
 *   mark | file? of changes | file? of base | wrote base | counts | origin? | negative rows?
 * }}}
 */
private[streamjoin] object TaskOutput {
  val Schema: StructType = new StructType().add("output", BinaryType, nullable = false)

  /** "sj" and the format number. The bytes are never stored: tasks and driver use the same jar. */
  private val Mark = 0x736a0001

  private val BytesOfBlock = 6 * 4 + 8
  private val BytesOfCount = 2 + 8

  /** A name that tasks give to files, never outside of the arrangement's folder. */
  private val FileOfTask = s"(${ArrangementFolder.Changes}|${ArrangementFolder.Bases})/\\d+/[\\w-]+".r

  private def toBytes(output: TaskOutput): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    def optional[A](value: Option[A])(write: A => Unit): Unit = {
      out.writeBoolean(value.isDefined)
      value.foreach(write)
    }
    def id(value: UUID): Unit = {
      out.writeLong(value.getMostSignificantBits)
      out.writeLong(value.getLeastSignificantBits)
    }
    def file(value: BlockFile): Unit = {
      out.writeUTF(value.path)
      out.writeInt(value.blocks.size)
      value.blocks.foreach { block =>
        Seq(block.index, block.partition).foreach(out.writeInt)
        out.writeLong(block.offset)
        Seq(block.bytes, block.rawBytes, block.rows, block.checksum).foreach(out.writeInt)
      }
    }
    out.writeInt(Mark)
    optional(output.changes)(file)
    optional(output.base)(file)
    out.writeBoolean(output.wroteBase)
    out.writeInt(output.counts.size)
    output.counts.foreach { case (name, count) =>
      out.writeUTF(name)
      out.writeLong(count)
    }
    optional(output.origin) { origin =>
      id(origin.arrangement)
      optional(origin.before)(id)
    }
    optional(output.negativeRows) { case (partition, rows) =>
      out.writeInt(partition)
      out.writeLong(rows)
    }
    bytes.toByteArray
  }

  /** None if the bytes were not written by a task. */
  def fromBytes(bytes: Array[Byte]): Option[TaskOutput] = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    def check(is: Boolean): Unit = if (!is) throw new IOException
    // No longer than the remaining bytes: a number alone must not allocate memory.
    def many[A](bytesOfOne: Int)(read: => A): IndexedSeq[A] = {
      val count = in.readInt()
      check(count >= 0 && count <= in.available() / bytesOfOne)
      IndexedSeq.fill(count)(read)
    }
    def optional[A](read: => A): Option[A] = Option.when(in.readBoolean())(read)
    def id(): UUID = new UUID(in.readLong(), in.readLong())
    def block() = BlockRef(
      index = in.readInt(),
      partition = in.readInt(),
      offset = in.readLong(),
      bytes = in.readInt(),
      rawBytes = in.readInt(),
      rows = in.readInt(),
      checksum = in.readInt()
    )
    def file() = {
      val path = in.readUTF()
      check(FileOfTask.matches(path))
      BlockFile(path, many(BytesOfBlock)(block()))
    }
    try {
      check(in.readInt() == Mark)
      val output = TaskOutput(
        changes = optional(file()),
        base = optional(file()),
        wroteBase = in.readBoolean(),
        counts = many(BytesOfCount)(in.readUTF() -> in.readLong()).toMap,
        origin = optional(Origin(id(), optional(id()))),
        negativeRows = optional((in.readInt(), in.readLong()))
      )
      check(in.available() == 0)
      Some(output)
    } catch { case _: IOException => None }
  }
}
