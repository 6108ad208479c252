package org.apache.spark.sql.streamjoin.state

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, StateStore}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types._

import streamjoin.core.Side

/**
 * Reads and writes the values of a state store by kind: the header, segments, and the flags of
 * segments that changed after they were written. Uses `get`, `put`, `remove` and `iterator` only,
 * so any provider works.
 *
 * @param firstBatch
 *   the batch whose state is version 0 of the store
 */
final private[state] class SegmentStore(val store: ReadStateStore, firstBatch: Long = 0) {
  import SegmentFormat.Unreadable
  import SegmentStore._

  private val key = new UnsafeRow(KeySchema.size)
  key.pointTo(new Array[Byte](KeyBytes), KeyBytes)
  private val value = new UnsafeRow(ValueSchema.size)

  private def writable: StateStore = store.asInstanceOf[StateStore]

  /** The next call overwrites the result; stores copy the values that they keep. */
  private def keyOf(kind: Int, side: Int, bucket: Long, number: Long): UnsafeRow = {
    key.setInt(0, kind)
    key.setInt(1, side)
    key.setLong(2, bucket)
    key.setLong(3, number)
    key
  }

  private def put(key: UnsafeRow, bytes: Array[Byte]): Unit = {
    value.pointTo(bytes, bytes.length)
    writable.put(key, value)
  }

  private def get(key: UnsafeRow): Option[Array[Byte]] = Option(store.get(key)).map(SegmentFormat.copyOf)

  def readHeader(): Option[SegmentFormat.VersionHeader] =
    readable(get(keyOf(HeaderKind, 0, 0, 0)).map(SegmentFormat.readVersionHeader))

  def writeHeader(header: SegmentFormat.VersionHeader): Unit =
    put(keyOf(HeaderKind, 0, 0, 0), header.bytes)

  def write(side: Int, segment: Segment): Unit = {
    val image = segment.sealedImage(side, store.version + firstBatch)
    put(keyOf(SegmentKind, side, segment.bucket, segment.number), image)
    segment.isStored = true
    if (segment.flagsInStore) writable.remove(keyOf(FlagsKind, side, segment.bucket, segment.number))
    segment.flagsInStore = false
    segment.flagsChanged = false
  }

  def writeFlags(side: Int, segment: Segment): Unit = {
    put(keyOf(FlagsKind, side, segment.bucket, segment.number), segment.flagsImage)
    segment.flagsInStore = true
    segment.flagsChanged = false
  }

  def remove(side: Int, segment: Segment): Unit =
    if (segment.isStored) {
      writable.remove(keyOf(SegmentKind, side, segment.bucket, segment.number))
      if (segment.flagsInStore) writable.remove(keyOf(FlagsKind, side, segment.bucket, segment.number))
    }

  /** Reads the rows of an unloaded segment. */
  def read(side: Int, segment: Segment): Unit = readable {
    def missing(what: String): Nothing =
      throw new Unreadable(
        s"no $what of segment ${segment.number} of bucket ${segment.bucket}, side $side"
      )
    val rows =
      get(keyOf(SegmentKind, side, segment.bucket, segment.number)).getOrElse(missing("rows"))
    val flags =
      if (segment.flagsInStore)
        get(keyOf(FlagsKind, side, segment.bucket, segment.number)).getOrElse(missing("flags"))
      else null
    load(side, segment, rows, flags)
  }

  private def check(side: Int, segment: Segment, rows: Array[Byte], flags: Array[Byte]): Int = {
    val count =
      SegmentFormat.checkSegment(rows, side, segment.bucket, segment.number, segment.layout.fields)
    if (flags != null) SegmentFormat.checkFlags(flags, count)
    count
  }

  private def load(side: Int, segment: Segment, rows: Array[Byte], flags: Array[Byte]): Unit = {
    val count = check(side, segment, rows, flags)
    segment.load(rows, flags)
    counted(segment, count)
  }

  private def counted(segment: Segment, count: Int): Unit =
    if (segment.rows != count)
      throw new Unreadable(s"a segment of ${segment.rows} rows in place of $count")

  /** Spills rows to the store until [[takePage]], within a batch. */
  def writePage(side: Int, bucket: Long, number: Long, content: Array[Byte]): Unit =
    put(keyOf(PageKind, side, bucket, number), SegmentFormat.writePage(content))

  def takePage(side: Int, bucket: Long, number: Long): Array[Byte] = readable {
    val page = get(keyOf(PageKind, side, bucket, number)).map(SegmentFormat.readPage)
    writable.remove(keyOf(PageKind, side, bucket, number))
    page.getOrElse(throw new Unreadable(s"no page $number of bucket $bucket, side $side"))
  }

  // For a [[VersionTable]].

  /** The entries of a page. */
  def readVersions(page: Long): SegmentFormat.Page = {
    val found = store.get(keyOf(VersionPageKind, 0, page, 0))
    if (found == null) SegmentFormat.NoPage else readable(SegmentFormat.pageIn(found))
  }

  /** @param entries a new page */
  def writeVersions(page: Long, entries: SegmentFormat.Page): Unit = {
    val key = keyOf(VersionPageKind, 0, page, 0)
    if (entries.isEmpty) writable.remove(key) else put(key, SegmentFormat.seal(entries))
  }

  /**
   * The hashes of the keys of a table without pages, in which each hash has a value, and about how
   * many bytes these have.
   */
  def hashesWithoutPages: (Array[Long], Long) = {
    val hashes = Array.newBuilder[Long]
    var bytes = 0L
    store.iterator().filter(_.key.getInt(0) == VersionsKind).foreach { pair =>
      hashes += pair.key.getLong(2)
      bytes += pair.value.getSizeInBytes
    }
    (hashes.result(), bytes)
  }

  def takeWithoutPage(hash: Long): SegmentFormat.Page = {
    val key = keyOf(VersionsKind, 0, hash, 0)
    val entries = readable(SegmentFormat.pageIn(store.get(key)))
    writable.remove(key)
    entries
  }

  /** The entries of all keys, with pages and without. */
  def allVersions: Iterator[SegmentFormat.Page] = {
    val kinds = Set(VersionsKind, VersionPageKind)
    store.iterator().filter(pair => kinds(pair.key.getInt(0))).map { pair =>
      readable(SegmentFormat.pageIn(pair.value))
    }
  }

  /** None if there is no entry. */
  def readVersionCounts(): Option[VersionTable.Counts] =
    readable(get(keyOf(VersionCountKind, 0, 0, 0)).map(SegmentFormat.readPage)).map { content =>
      val numbers = ByteBuffer.wrap(content)
      // Older versions wrote the first or the first two.
      def next() = if (numbers.hasRemaining) numbers.getLong else 0L
      VersionTable.Counts(next(), next(), VersionPages.Extent(next(), next()))
    }

  def writeVersionCounts(counts: VersionTable.Counts): Unit = {
    val numbers = Seq(counts.rows, counts.deletions, counts.pages.pages, counts.pages.bytes)
    val content = ByteBuffer.allocate(8 * numbers.size)
    numbers.foreach(content.putLong)
    val page = SegmentFormat.newPage(content.array)
    put(keyOf(VersionCountKind, 0, 0, 0), SegmentFormat.seal(page, SegmentFormat.VersionOfPages))
  }

  def removeVersionCounts(): Unit = writable.remove(keyOf(VersionCountKind, 0, 0, 0))

  // For [[LeavingRows]].

  def writeLeaving(side: Int, number: Long, content: Array[Byte]): Unit =
    put(keyOf(LeavingKind, side, 0, number), SegmentFormat.writePage(content))

  def takeLeaving(side: Int, number: Long): Option[Array[Byte]] = readable {
    val page = get(keyOf(LeavingKind, side, 0, number)).map(SegmentFormat.readPage)
    if (page.isDefined) writable.remove(keyOf(LeavingKind, side, 0, number))
    page
  }

  // For [[Tombstones]].

  def readDeletions(number: Long): Option[Array[Byte]] =
    readable(get(keyOf(DeletionsKind, 0, 0, number)).map(SegmentFormat.readPage))

  def writeDeletions(number: Long, content: Array[Byte]): Unit =
    put(keyOf(DeletionsKind, 0, 0, number), SegmentFormat.writePage(content))

  def removeDeletions(number: Long): Unit = writable.remove(keyOf(DeletionsKind, 0, 0, number))

  /**
   * Lists the segments, for states that also have a table of many keys: without the list,
   * [[readAll]] scans every value.
   */
  def writeCatalogue(all: Seq[(Int, Segment)]): Unit = {
    val places = all.map { case (side, segment) => (side, segment.bucket, segment.number) }.sorted
    val content = ByteBuffer.allocate(places.size * CatalogueEntryBytes)
    places.foreach { case (side, bucket, number) => content.putInt(side).putLong(bucket).putLong(number) }
    put(keyOf(CatalogueKind, 0, 0, 0), SegmentFormat.writePage(content.array))
  }

  def removeCatalogue(): Unit = writable.remove(keyOf(CatalogueKind, 0, 0, 0))

  /**
   * Reads every segment for which `make` returns one, in no particular order. If the rows need no
   * inspection, they stay out of memory unless `take` loads them.
   */
  def readAll(make: (Int, Long) => Option[Segment])(take: (Int, Segment, () => Unit) => Unit): Unit =
    readable {
      get(keyOf(CatalogueKind, 0, 0, 0)).map(SegmentFormat.readPage).map(ByteBuffer.wrap) match {
        case Some(content) =>
          while (content.hasRemaining)
            readOne((content.getInt(), content.getLong(), content.getLong()), make, take)
        case None => scan(readValue(_, _, make, take))
      }
    }

  /** Reads some segments, like [[readAll]]. */
  def readSome(
      places: Seq[Place]
  )(make: (Int, Long) => Option[Segment])(take: (Int, Segment, () => Unit) => Unit): Unit =
    readable(places.foreach(readOne(_, make, take)))

  private def readOne(
      place: Place,
      make: (Int, Long) => Option[Segment],
      take: (Int, Segment, () => Unit) => Unit
  ): Unit = {
    val (side, bucket, number) = place
    def missing = throw new Unreadable(s"no segment $number of bucket $bucket, side $side")
    readValue(place, get(keyOf(SegmentKind, side, bucket, number)).getOrElse(missing), make, take)
  }

  private def readValue(
      place: Place,
      value: => Array[Byte],
      make: (Int, Long) => Option[Segment],
      take: (Int, Segment, () => Unit) => Unit
  ): Unit = {
    val (side, bucket, number) = place
    if (!Side.both.exists(_.index == side)) throw new Unreadable(s"a segment of side $side")
    make(side, bucket).foreach { segment =>
      segment.number = number
      segment.isStored = true
      val rows = value
      val flags = get(keyOf(FlagsKind, side, bucket, number))
      segment.flagsInStore = flags.isDefined
      val count = check(side, segment, rows, flags.orNull)
      if (segment.describe(rows, flags.orNull)) segment.forget()
      else segment.load(rows, flags.orNull)
      counted(segment, count)
      take(side, segment, () => if (!segment.isLoaded) segment.load(rows, flags.orNull))
      if (!segment.isLoaded) segment.keepKeys(rows)
    }
  }

  private def scan(read: (Place, => Array[Byte]) => Unit): Unit = {
    val all = store.iterator()
    try
      all.foreach { pair =>
        pair.key.getInt(0) match {
          case HeaderKind | FlagsKind | DeletionsKind | LeavingKind =>
          case VersionsKind | VersionPageKind | VersionCountKind =>
          case SegmentKind =>
            read(
              (pair.key.getInt(1), pair.key.getLong(2), pair.key.getLong(3)),
              SegmentFormat.copyOf(pair.value)
            )
          case other => throw new Unreadable(s"a value of kind $other")
        }
      }
    finally all.close()
  }

  private def readable[T](read: => T): T =
    try read
    catch { case unreadable: Unreadable => fail(unreadable.found) }

  def fail(found: String): Nothing =
    throw StreamJoinErrors.runtime(
      "STREAMJOIN_STATE_FORMAT",
      "partition" -> store.id.partitionId.toString,
      "checkpoint" -> store.id.checkpointRootLocation,
      "version" -> store.version.toString,
      "found" -> found,
      "expected" -> (SegmentFormat.OldestVersion to SegmentFormat.VersionOfPages).mkString(" and ")
    )
}

private[streamjoin] object SegmentStore {
  val KeySchema: StructType = new StructType()
    .add("kind", IntegerType, nullable = false)
    .add("side", IntegerType, nullable = false)
    .add("bucket", LongType, nullable = false)
    .add("number", LongType, nullable = false)
  val ValueSchema: StructType = new StructType().add("value", BinaryType, nullable = false)

  private val KeyBytes = 8 + 4 * 8

  /** The location of a segment: its side, bucket and number. */
  type Place = (Int, Long, Long)

  private val HeaderKind = 0
  private val SegmentKind = 1
  private val FlagsKind = 2
  private val PageKind = 3
  private val VersionsKind = 4
  private val VersionCountKind = 5
  private val CatalogueKind = 6
  private val DeletionsKind = 7
  private val LeavingKind = 8
  private val VersionPageKind = 9

  private val CatalogueEntryBytes = 4 + 8 + 8
}
