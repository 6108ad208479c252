package org.apache.spark.sql.streamjoin.state

import java.util.UUID
import java.util.zip.CRC32C

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * The values of the state store as bytes. They begin with a magic number, the format and a checksum
 * of all that follows. Numbers are in native byte order, as in the Spark rows between them.
 *
 * {{{
 *   value     magic  format  crc  bytes | body: one of those below
 *
 *   segment   bucket  number  side  rows  fields  batch + 1     header
 *             length  flags  row | length  flags  row | ...     rows; a place is where a length is
 *             bytes of the rows  gone  flagged                  summary
 *             lowest  highest | lowest  highest | ...             per expiring time
 *   flags     rows  0 | two bits a row                          1 is matched, 2 is gone
 *   header    token  sides                                      one per version of the state
 *             width of a bucket  segments  flagged  rows          per side
 *             limits  limit ...
 *   page      bytes
 *
 *   array     null bits  offset and length | value | padding    what the store is given
 * }}}
 *
 * In memory, a value is an array that starts like an `UnsafeRow` with one binary column, so the
 * store receives the array without a copy. The offsets below count from the start of the value.
 *
 * A segment records the batch that wrote it, for tools that inspect the state; it is 0 if an older
 * version wrote it, and no batch reads it.
 *
 * The flags of a row share four bytes with its number in the segment. The summary describes the
 * rows at the time of writing; if no row is gone, it is sufficient to open the segment. Format 2
 * has neither, and its checksum does not cover the format. Format 3 has buckets of one width only.
 */
private[streamjoin] object SegmentFormat {

  /**
   * Format 1 had a value per row, before the first release; since format 4 a bucket's number
   * includes its width, see [[Buckets]]. Format 5 is that of one value: see [[VersionOfPages]].
   */
  val Version = 4

  /**
   * The format of the value that counts the rows of a [[VersionTable]] in pages. Versions that do
   * not know these pages stop at it.
   */
  val VersionOfPages = 5

  /** The oldest format that can be read. */
  val OldestVersion = 2

  private val SegmentMagic = 0x534a5347
  private val FlagsMagic = 0x534a4d4b
  private val HeaderMagic = 0x534a4844
  private val PageMagic = 0x534a5047

  /** Where the value starts in its array: after the null bits and an offset with a length. */
  val ValueAt = 16

  private val MagicAt = 0
  private val VersionAt = 4
  private val ChecksumAt = 8
  private val SizeAt = 12
  private val BodyAt = 16

  private val BucketAt = 16
  private val NumberAt = 24
  private val SideAt = 32
  private val RowCountAt = 36
  private val FieldsAt = 40
  private val BatchAt = 44

  /** Where the rows of a segment start. */
  val RowsAt = 48

  private val FlagsRowCountAt = 16
  private val BitsAt = 24

  /** A value is not the expected one; `found` describes it. */
  final class Unreadable(val found: String) extends Exception(found)

  /** An array for a value of this many bytes. */
  def newValue(size: Int): Array[Byte] = {
    val bytes = new Array[Byte](arraySize(size))
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET + 8L, (ValueAt.toLong << 32) | size)
    bytes
  }

  def arraySize(size: Int): Int = ValueAt + (size + 7) / 8 * 8

  /** Bytes of the value in an array. */
  def size(bytes: Array[Byte]): Int = Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET + 8L)

  /** A copy of the value in a row of the store. */
  def copyOf(row: UnsafeRow): Array[Byte] = {
    checkPlace(row)
    val bytes = newValue(length(row))
    Platform.copyMemory(row.getBaseObject, row.getBaseOffset + start(row), bytes, at(0), length(row).toLong)
    bytes
  }

  private def start(row: UnsafeRow): Int = (row.getLong(0) >>> 32).toInt
  private def length(row: UnsafeRow): Int = row.getLong(0).toInt

  private def checkPlace(row: UnsafeRow): Unit =
    if (start(row) < 0 || length(row) < 0 || start(row).toLong + length(row) > row.getSizeInBytes)
      throw new Unreadable("a value of another program")

  private def at(position: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + ValueAt + position
  private def int(bytes: Array[Byte], position: Int): Int = Platform.getInt(bytes, at(position))
  private def long(bytes: Array[Byte], position: Int): Long = Platform.getLong(bytes, at(position))

  private def close(bytes: Array[Byte], magic: Int, version: Int = Version): Unit = {
    Platform.putInt(bytes, at(MagicAt), magic)
    Platform.putInt(bytes, at(VersionAt), version)
    Platform.putInt(bytes, at(SizeAt), size(bytes))
    Platform.putInt(bytes, at(ChecksumAt), checksum(bytes))
  }

  private def checksum(bytes: Array[Byte]): Int = checksum(bytes, ValueAt, size(bytes))

  private def checksum(bytes: Array[Byte], from: Int, size: Int): Int = {
    val format = Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + from + VersionAt)
    val crc = new CRC32C
    if (format > 2) crc.update(format)
    crc.update(bytes, from + BodyAt, size - BodyAt)
    crc.getValue.toInt
  }

  private def open(bytes: Array[Byte], magic: Int, what: String): Unit =
    open(bytes, ValueAt, size(bytes), magic, what)

  /** Checks the value that starts at `from`. */
  private def open(bytes: Array[Byte], from: Int, size: Int, magic: Int, what: String): Unit = {
    def int(position: Int) = Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + from + position)
    if (size < BodyAt || int(MagicAt) != magic) throw new Unreadable(s"$what of another program")
    if (int(VersionAt) < OldestVersion || int(VersionAt) > VersionOfPages)
      throw new Unreadable(s"$what of format ${int(VersionAt)}")
    if (int(SizeAt) != size) throw new Unreadable(s"$what cut to $size of ${int(SizeAt)} bytes")
    if (int(ChecksumAt) != checksum(bytes, from, size)) throw new Unreadable(s"$what whose checksum is wrong")
  }

  private def format(bytes: Array[Byte]): Int = int(bytes, VersionAt)

  // Segments.

  private val GoneAt = 8
  private val FlaggedAt = 12
  private val TimesAt = 16

  /** Bytes of the summary after the rows. */
  def summarySize(times: Int): Int = TimesAt + 16 * times

  /** The summary of a segment's rows, so that they do not have to be read. */
  final case class Summary(payload: Long, gone: Int, flagged: Int, lowest: Array[Long], highest: Array[Long])

  def writeSummary(bytes: Array[Byte], rowsEnd: Int, summary: Summary): Unit = {
    Platform.putLong(bytes, at(rowsEnd), summary.payload)
    Platform.putInt(bytes, at(rowsEnd + GoneAt), summary.gone)
    Platform.putInt(bytes, at(rowsEnd + FlaggedAt), summary.flagged)
    summary.lowest.indices.foreach { i =>
      Platform.putLong(bytes, at(rowsEnd + TimesAt + 16 * i), summary.lowest(i))
      Platform.putLong(bytes, at(rowsEnd + TimesAt + 16 * i + 8), summary.highest(i))
    }
  }

  /** Where the rows of a segment end. */
  def rowsEnd(bytes: Array[Byte], times: Int): Int =
    size(bytes) - (if (format(bytes) > 2) summarySize(times) else 0)

  /** None in format 2, which has no summary. */
  def readSummary(bytes: Array[Byte], times: Int): Option[Summary] =
    if (format(bytes) == 2) None
    else {
      val from = rowsEnd(bytes, times)
      def time(i: Int, next: Int): Long = long(bytes, from + TimesAt + 16 * i + next)
      Some(
        Summary(
          long(bytes, from),
          int(bytes, from + GoneAt),
          int(bytes, from + FlaggedAt),
          Array.tabulate(times)(time(_, 0)),
          Array.tabulate(times)(time(_, 8))
        )
      )
    }

  def writeHeader(
      bytes: Array[Byte],
      side: Int,
      bucket: Long,
      number: Long,
      rows: Int,
      fields: Int,
      batch: Long
  ): Unit = {
    Platform.putLong(bytes, at(BucketAt), bucket)
    Platform.putLong(bytes, at(NumberAt), number)
    Platform.putInt(bytes, at(SideAt), side)
    Platform.putInt(bytes, at(RowCountAt), rows)
    Platform.putInt(bytes, at(FieldsAt), fields)
    Platform.putInt(bytes, at(BatchAt), (batch + 1).toInt)
    close(bytes, SegmentMagic)
  }

  /** The batch that wrote a segment, if recorded. */
  def batchOf(bytes: Array[Byte]): Option[Long] = Some(int(bytes, BatchAt) - 1L).filter(_ >= 0)

  /** The number of rows of a segment; fails unless it is intact and the expected one. */
  def checkSegment(bytes: Array[Byte], side: Int, bucket: Long, number: Long, fields: Int): Int = {
    open(bytes, SegmentMagic, "a segment")
    if (int(bytes, SideAt) != side || long(bytes, BucketAt) != bucket || long(bytes, NumberAt) != number)
      throw new Unreadable(
        s"segment ${long(bytes, NumberAt)} of bucket ${long(bytes, BucketAt)}, side ${int(bytes, SideAt)}, " +
          s"in place of segment $number of bucket $bucket, side $side"
      )
    if (int(bytes, FieldsAt) != fields)
      throw new Unreadable(s"a segment of rows with ${int(bytes, FieldsAt)} columns in place of $fields")
    int(bytes, RowCountAt)
  }

  // Pages: opaque bytes. A [[Backlog]] never commits its pages; a [[VersionTable]] does.

  /** The content of a page: the bytes of an array from `from` until `until`. */
  final case class Page(bytes: Array[Byte], from: Int, until: Int) {
    def isEmpty: Boolean = from == until
  }

  val NoPage: Page = Page(Array.emptyByteArray, 0, 0)

  /** A page to fill in, and then to [[seal]]. */
  def newPage(size: Int): Page = Page(newValue(BodyAt + size), ValueAt + BodyAt, ValueAt + BodyAt + size)

  def newPage(content: Array[Byte]): Page = {
    val page = newPage(content.length)
    System.arraycopy(content, 0, page.bytes, page.from, content.length)
    page
  }

  /** The value of a new page. */
  def seal(page: Page, version: Int = Version): Array[Byte] = {
    close(page.bytes, PageMagic, version)
    page.bytes
  }

  def writePage(content: Array[Byte]): Array[Byte] = seal(newPage(content))

  /** The page in a row of the store, without a copy: stores never change the bytes of a value. */
  def pageIn(row: UnsafeRow): Page = row.getBaseObject match {
    case bytes: Array[Byte] =>
      checkPlace(row)
      val from = (row.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt + start(row)
      open(bytes, from, length(row), PageMagic, "a page")
      Page(bytes, from + BodyAt, from + length(row))
    case _ => pageIn(row.copy())
  }

  def readPage(bytes: Array[Byte]): Array[Byte] = {
    open(bytes, PageMagic, "a page")
    java.util.Arrays.copyOfRange(bytes, ValueAt + BodyAt, ValueAt + size(bytes))
  }

  // Flags.

  def flagsSize(rows: Int): Int = BitsAt + (rows + 3) / 4

  def writeFlagsHeader(bytes: Array[Byte], rows: Int): Unit = {
    Platform.putInt(bytes, at(FlagsRowCountAt), rows)
    close(bytes, FlagsMagic)
  }

  def setFlags(bytes: Array[Byte], row: Int, flags: Int): Unit =
    bytes(flagsAt(row)) = (bytes(flagsAt(row)) | (flags << (2 * (row % 4)))).toByte

  def flags(bytes: Array[Byte], row: Int): Int = (bytes(flagsAt(row)) >>> (2 * (row % 4))) & 3

  /** Whether any row is gone. */
  def hasGone(bytes: Array[Byte]): Boolean = {
    val end = ValueAt + size(bytes)
    var at = ValueAt + BitsAt
    while (at < end && (bytes(at) & 0xaa) == 0) at += 1
    at < end
  }

  private def flagsAt(row: Int): Int = ValueAt + BitsAt + row / 4

  def checkFlags(bytes: Array[Byte], rows: Int): Unit = {
    open(bytes, FlagsMagic, "flags")
    if (int(bytes, FlagsRowCountAt) != rows)
      throw new Unreadable(s"flags of ${int(bytes, FlagsRowCountAt)} rows for a segment of $rows")
  }

  // The header of a version.

  /** One side in a version; `flagged` counts its segments with separate flags. */
  final case class SideHeader(
      bucketWidth: Long,
      segments: Long,
      flagged: Long,
      rows: Long,
      evictedBelow: Seq[Long]
  )

  /**
   * @param token
   *   new with every commit; an index with the same token equals this version
   */
  final case class VersionHeader(token: UUID, sides: Seq[SideHeader]) {
    def bytes: Array[Byte] = {
      val longs = Seq(token.getMostSignificantBits, token.getLeastSignificantBits, sides.size.toLong) ++
        sides.flatMap(side =>
          Seq(
            side.bucketWidth,
            side.segments,
            side.flagged,
            side.rows,
            side.evictedBelow.size.toLong
          ) ++ side.evictedBelow
        )
      val bytes = newValue(BodyAt + 8 * longs.size)
      longs.zipWithIndex.foreach { case (value, i) => Platform.putLong(bytes, at(BodyAt + 8 * i), value) }
      close(bytes, HeaderMagic)
      bytes
    }
  }

  def readVersionHeader(bytes: Array[Byte]): VersionHeader = {
    open(bytes, HeaderMagic, "a state header")
    val longs = Iterator.range(BodyAt, size(bytes), 8).map(long(bytes, _))
    val token = new UUID(longs.next(), longs.next())
    val sides = Seq.fill(longs.next().toInt) {
      val (width, segments, flagged, rows) = (longs.next(), longs.next(), longs.next(), longs.next())
      SideHeader(width, segments, flagged, rows, Seq.fill(longs.next().toInt)(longs.next()))
    }
    VersionHeader(token, sides)
  }
}
