package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.streamjoin.state.SegmentFormat.Page
import org.apache.spark.unsafe.types.ByteArray

/**
 * The entries of a [[VersionTable]] in pages, each a value of the store, so that the store has far
 * fewer values than the table has keys.
 *
 * The pages grow by linear hashing: a page that is added takes entries from one other page. The
 * upper bits of a hash select the page, so tasks that access keys in the order of their hashes
 * access each page once. The entries of the current page are changed in memory.
 *
 * @param before
 *   the pages of the version that the batch starts from
 * @param hashOf
 *   hash of an entry
 */
final private[state] class VersionPages(
    segments: SegmentStore,
    before: VersionPages.Extent,
    hashOf: Array[Byte] => Long
) {
  import VersionPages._

  private var extent = before

  /** The current page: its number, its entries, and whether they differ from those in the store. */
  private var number = -1L
  private var current = SegmentFormat.NoPage
  private var changed = false

  /** How many pages there are, and the bytes of all entries. */
  def size: Extent = extent

  /** The entries of the page of a hash, which becomes the current one. */
  def of(hash: Long): Page = {
    moveTo(pageOf(hash, extent.pages))
    current
  }

  /** Puts an entry in place of a part of the current page. */
  def replace(from: Int, until: Int, entry: Array[Byte]): Unit = {
    val (old, more) = (current, entry.length - (until - from))
    if (more != 0 || !changed) {
      current = SegmentFormat.newPage(old.until - old.from + more)
      System.arraycopy(old.bytes, old.from, current.bytes, current.from, from - old.from)
      System.arraycopy(
        old.bytes,
        until,
        current.bytes,
        current.until - (old.until - until),
        old.until - until
      )
    }
    System.arraycopy(entry, 0, current.bytes, current.from + from - old.from, entry.length)
    extent = extent.copy(bytes = extent.bytes + more)
    changed = true
  }

  /**
   * Adds pages before entries are added.
   *
   * @param keys
   *   the number of keys there will be, at most
   * @param more
   *   bytes that will be added, at most
   */
  def grow(keys: Long, more: Long): Unit = {
    val pages = wanted(keys, extent.bytes + more)
    if (pages > extent.pages) {
      write()
      number = -1
      val old = extent.pages
      extent = extent.copy(pages = pages)
      // From each page that may have entries of the added ones; either way counts these once.
      val sources =
        if (extent.bytes == 0) Iterator.empty
        else if (pages - old < old) Iterator.iterate(old)(_ + 1).takeWhile(_ < pages).map(sourceOf)
        else Iterator.iterate(0L)(_ + 1).takeWhile(_ < old)
      sources.foreach(distribute)
    }
  }

  /** Moves the entries of a page to where they belong now. */
  private def distribute(source: Long): Unit = {
    val page = segments.readVersions(source)
    val byPage = VersionTable.entries(page).toSeq.groupBy(entry => pageOf(hashOf(entry), extent.pages))
    if (byPage.exists(_._1 != source))
      (byPage + (source -> byPage.getOrElse(source, Nil))).foreach { case (to, entries) =>
        segments.writeVersions(to, SegmentFormat.newPage(ByteArray.concat(entries: _*)))
      }
  }

  private def moveTo(page: Long): Unit = if (page != number) {
    write()
    number = page
    current = segments.readVersions(page)
  }

  /** Writes the current page, if it was changed. */
  def write(): Unit = if (changed) {
    segments.writeVersions(number, current)
    changed = false
  }
}

private[state] object VersionPages {

  /**
   * @param pages
   *   number of pages, some of which may be empty; it stays when entries are removed
   * @param bytes
   *   bytes of all entries
   */
  final case class Extent(pages: Long, bytes: Long)

  val Empty: Extent = Extent(1, 0)

  /** Bytes of entries in a page, on average: fewer mean more values, more mean longer writes. */
  private val PageBytes = 1024

  private def wanted(keys: Long, bytes: Long): Long = math.max(1, math.min(keys, bytes / PageBytes))

  /** The upper bits of the hash, the first one last: as many as there are pages. */
  private def pageOf(hash: Long, pages: Long): Long = {
    val upper = java.lang.Long.reverse(hash)
    val half = java.lang.Long.highestOneBit(pages)
    val page = upper & (2 * half - 1)
    if (page < pages) page else upper & (half - 1)
  }

  /** The page from which a page takes its entries when it is added. */
  private def sourceOf(page: Long): Long = page - java.lang.Long.highestOneBit(page)
}
