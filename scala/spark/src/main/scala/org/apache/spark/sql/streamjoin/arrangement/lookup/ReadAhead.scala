package org.apache.spark.sql.streamjoin.arrangement.lookup

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.arrangement.index.{KeyGroup, KeyIndex}
import org.apache.spark.sql.streamjoin.arrangement.storage.RowKey

/**
 * Hands on rows that will be looked up, a group at a time, once what their look-ups need has been
 * read ([[KeyIndex.readAhead]]). A row is valid until the next one is requested.
 *
 * @param key
 *   position of the key in the rows
 * @param isLookedUp
 *   whether a row will be looked up
 * @param partitions
 *   number of partitions of the index
 */
final private[lookup] class ReadAhead(
    rows: Iterator[InternalRow],
    key: RowKey,
    isLookedUp: InternalRow => Boolean,
    partitions: Int,
    indexFor: Int => KeyIndex
) extends Iterator[InternalRow] {
  import ReadAhead._

  private val group = new Array[InternalRow](Rows)
  private val keys = new Array[KeyGroup](partitions)
  private var count, at = 0

  override def hasNext: Boolean = at < count || rows.hasNext

  override def next(): InternalRow = {
    if (at == count) fill()
    at += 1
    group(at - 1)
  }

  private def fill(): Unit = {
    at = 0
    count = 0
    while (count < Rows && rows.hasNext) {
      keep(rows.next())
      if (isLookedUp(group(count))) {
        val hash = key.hash(group(count))
        val partition = Math.floorMod(hash, partitions)
        if (keys(partition) == null) keys(partition) = new KeyGroup(Rows)
        keys(partition).add(hash)
      }
      count += 1
    }
    if (count == 0) throw new NoSuchElementException("no more rows")
    var partition = 0
    while (partition < partitions) {
      val of = keys(partition)
      if (of != null && of.size > 0) {
        indexFor(partition).readAhead(of)
        of.clear()
      }
      partition += 1
    }
  }

  private def keep(row: InternalRow): Unit = (row, group(count)) match {
    case (unsafe: UnsafeRow, kept: UnsafeRow) => kept.copyFrom(unsafe)
    case _ => group(count) = row.copy()
  }
}

private object ReadAhead {

  /** More would no longer be in the processor's caches when they are needed. */
  private val Rows = 64
}
