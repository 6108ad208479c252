package org.apache.spark.sql.streamjoin.state

import java.util.UUID
import java.util.zip.CRC32C

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * What is in the state store: byte strings that begin with a magic number, the format's number and
 * a checksum of all that follows. Numbers are in the byte order of the machine, as in the rows of
 * Spark between them.
 *
 * In memory such a string is an array that starts with what makes it an `UnsafeRow` of one binary
 * column, so that the store is given the array as it is. The offsets below count from the string's
 * own beginning.
 *
 * {{{
 *   segment   magic  format  crc  bytes | bucket  number  side  rows  fields  0
 *                                       | length  flags  row | length  flags  row ...
 *                                       | bytes of the rows  gone  flagged
 *                                       | by expiring time: lowest  highest
 *   flags     magic  format  crc  bytes | rows  0 | two bits a row
 *   header    magic  format  crc  bytes | token  sides
 *                                       | per side: width of a bucket  segments  flags  rows
 *                                                   limits  limit ...
 * }}}
 *
 * With the flags of a row is its number in the segment. What follows the rows is about those that
 * are there, and enough to open a segment that none has left. Format 2 has neither, and its
 * checksum does not cover the format's number. Format 3 has buckets of one width only.
 */
private[streamjoin] object SegmentFormat {

  /**
   * 1 was a value for each row, before the first release; since 4 a bucket's number says how wide
   * the bucket is, see [[Buckets]].
   */
  val Version = 4

  /** The oldest that can be read. */
  val OldestVersion = 2

  private val SegmentMagic = 0x534a5347
  private val FlagsMagic = 0x534a4d4b
  private val HeaderMagic = 0x534a4844
  private val PageMagic = 0x534a5047

  /** Where the string begins in its array: after a null bit set, and an offset with a length. */
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

  /** Where the rows of a segment begin. */
  val RowsAt = 48

  private val FlagsRowCountAt = 16
  private val BitsAt = 24

  /** What was found in place of a value that is expected. */
  final class Unreadable(val found: String) extends Exception(found)

  /** An array for a string of so many bytes. */
  def newValue(size: Int): Array[Byte] = {
    val bytes = new Array[Byte](arraySize(size))
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET + 8L, (ValueAt.toLong << 32) | size)
    bytes
  }

  def arraySize(size: Int): Int = ValueAt + (size + 7) / 8 * 8

  /** The length of the string in an array. */
  def size(bytes: Array[Byte]): Int = Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET + 8L)

  /** A copy of what a row of the store has. */
  def copyOf(row: UnsafeRow): Array[Byte] = {
    val (from, length) = ((row.getLong(0) >>> 32).toInt, row.getLong(0).toInt)
    if (from < 0 || length < 0 || from.toLong + length > row.getSizeInBytes)
      throw new Unreadable("a value of another program")
    val bytes = newValue(length)
    Platform.copyMemory(row.getBaseObject, row.getBaseOffset + from, bytes, at(0), length.toLong)
    bytes
  }

  private def at(position: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + ValueAt + position
  private def int(bytes: Array[Byte], position: Int): Int = Platform.getInt(bytes, at(position))
  private def long(bytes: Array[Byte], position: Int): Long = Platform.getLong(bytes, at(position))

  private def close(bytes: Array[Byte], magic: Int): Unit = {
    Platform.putInt(bytes, at(MagicAt), magic)
    Platform.putInt(bytes, at(VersionAt), Version)
    Platform.putInt(bytes, at(SizeAt), size(bytes))
    Platform.putInt(bytes, at(ChecksumAt), checksum(bytes))
  }

  private def checksum(bytes: Array[Byte]): Int = {
    val crc = new CRC32C
    if (format(bytes) > 2) crc.update(format(bytes))
    crc.update(bytes, ValueAt + BodyAt, size(bytes) - BodyAt)
    crc.getValue.toInt
  }

  private def open(bytes: Array[Byte], magic: Int, what: String): Unit = {
    if (size(bytes) < BodyAt || int(bytes, MagicAt) != magic)
      throw new Unreadable(s"$what of another program")
    if (format(bytes) < OldestVersion || format(bytes) > Version)
      throw new Unreadable(s"$what of format ${format(bytes)}")
    if (int(bytes, SizeAt) != size(bytes))
      throw new Unreadable(s"$what cut to ${size(bytes)} of ${int(bytes, SizeAt)} bytes")
    if (int(bytes, ChecksumAt) != checksum(bytes)) throw new Unreadable(s"$what whose checksum is wrong")
  }

  private def format(bytes: Array[Byte]): Int = int(bytes, VersionAt)

  // Segments.

  private val GoneAt = 8
  private val FlaggedAt = 12
  private val TimesAt = 16

  /** Of what follows the rows. */
  def summarySize(times: Int): Int = TimesAt + 16 * times

  /** What is known of the rows of a segment without a look at them. */
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

  /** None for a segment of format 2. */
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

  def writeHeader(bytes: Array[Byte], side: Int, bucket: Long, number: Long, rows: Int, fields: Int): Unit = {
    Platform.putLong(bytes, at(BucketAt), bucket)
    Platform.putLong(bytes, at(NumberAt), number)
    Platform.putInt(bytes, at(SideAt), side)
    Platform.putInt(bytes, at(RowCountAt), rows)
    Platform.putInt(bytes, at(FieldsAt), fields)
    close(bytes, SegmentMagic)
  }

  /** How many rows a segment has, if it is whole and the one that is expected. */
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

  // Pages: bytes that mean nothing here. Those of rows on their way are never committed; those of
  // versions are.

  def writePage(content: Array[Byte]): Array[Byte] = {
    val bytes = newValue(BodyAt + content.length)
    Platform.copyMemory(content, Platform.BYTE_ARRAY_OFFSET, bytes, at(BodyAt), content.length.toLong)
    close(bytes, PageMagic)
    bytes
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

  /** Some of the rows are gone. */
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

  /** What a version has of one side; `flagged` is how many of its segments have flags apart. */
  final case class SideHeader(
      bucketWidth: Long,
      segments: Long,
      flagged: Long,
      rows: Long,
      evictedBelow: Seq[Long]
  )

  /**
   * @param token
   *   new with every commit: an index that carries it equals this version
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
