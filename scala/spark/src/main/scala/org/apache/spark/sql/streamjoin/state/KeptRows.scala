package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.ReadStateStore

/**
 * The rows of a committed version, for inspection. Each segment is read when its rows are
 * requested, so that only one segment is in memory.
 *
 * @param layouts
 *   layout of the rows of each buffer
 */
final private[streamjoin] class KeptRows(store: ReadStateStore, layouts: Seq[RowLayout]) {
  private val segments = new SegmentStore(store)
  private lazy val index = IndexReading.readOnly(store, layouts, budget = 0)

  /** The rows in the buffer of an input; each row overwrites the previous one. */
  def buffered(side: Int): Iterator[KeptRow] = {
    val buffer = index.all(side)
    buffer.segments.flatMap { segment =>
      if (!segment.isLoaded) segments.read(side, segment)
      val places = Array.newBuilder[Int]
      segment.foreachLive((_, place) => places += place)
      val row = new UnsafeRow(buffer.layout.fields)
      places.result().iterator.map { place =>
        segment.point(row, place)
        KeptRow(
          row,
          Some(SegmentId(segment.bucket, segment.number, segment.writtenIn)),
          segment.isMatched(place),
          isDeletion = false
        )
      } ++ {
        segment.unload()
        Iterator.empty
      }
    }
  }

  /** By input: the width of its buckets, and the times below which its rows have been evicted. */
  def headers: Seq[SegmentFormat.SideHeader] =
    segments.readHeader().fold(Seq.empty[SegmentFormat.SideHeader])(_.sides)

  /** The entries of the table, each with its key; the key is overwritten by the next one. */
  def entries(keyFields: Int): Iterator[(UnsafeRow, Array[Byte])] = {
    val key = new UnsafeRow(keyFields)
    segments.allVersions.flatMap(VersionTable.entries).map { entry =>
      VersionTable.pointToKey(key, entry)
      key -> entry
    }
  }

  /**
   * The entries of the table with other rows, each with its key.
   *
   * @param fields
   *   number of fields of the rows that are stored
   * @param row
   *   makes another row of one
   * @param key
   *   the key of such a row
   */
  def changedEntries(
      fields: Int
  )(row: UnsafeRow => UnsafeRow, key: UnsafeRow => UnsafeRow): Iterator[(UnsafeRow, Array[Byte])] =
    segments.allVersions.flatMap(VersionTable.entries).map { entry =>
      val now = row(VersionTable.row(entry, fields)._1)
      val ofNow = key(now)
      ofNow -> VersionTable.changed(entry, ofNow, now)
    }

  /** The row of each key in the table, and the deletions that are remembered. */
  def newestByKey(fields: Int): Iterator[KeptRow] =
    segments.allVersions.flatMap(VersionTable.entries).map(VersionTable.row(_, fields)).map {
      case (row, isDeletion) =>
        KeptRow(row, None, isMatched = false, isDeletion)
    }
}

/** @param segment none for a row in the table by key */
final private[streamjoin] case class KeptRow(
    row: UnsafeRow,
    segment: Option[SegmentId],
    isMatched: Boolean,
    isDeletion: Boolean
)

/** @param writtenIn batch that wrote the segment, if recorded */
final private[streamjoin] case class SegmentId(bucket: Long, number: Long, writtenIn: Option[Long])
