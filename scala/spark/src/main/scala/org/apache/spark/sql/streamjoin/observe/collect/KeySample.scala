package org.apache.spark.sql.streamjoin.observe.collect

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.state.RowLayout

/**
 * A sample of the keys of an input, with the times of their rows. It contains the keys with the
 * lowest hash values, so that the samples of two inputs share keys if the inputs do. Keys that
 * differ only in blanks, case or leading zeros have the same hash value.
 */
final private[streamjoin] class KeySample extends Serializable {
  import KeySample._

  private val entries = mutable.TreeMap.empty[Long, Entry]
  private var all = true

  /** The highest hash value of a sampled key. */
  private var highest = Long.MaxValue

  /** @param timeField field with its time */
  def add(row: UnsafeRow, layout: RowLayout, timeField: Int): Unit = {
    val hash = layout.plainHash(row.getBaseObject, row.getBaseOffset)
    if (hash <= highest) {
      val time = row.getLong(timeField)
      add(hash, Entry(entries.get(hash).fold(layout.keyText(row))(_.text), time, time))
    } else all = false
  }

  private def add(hash: Long, entry: Entry): Unit =
    if (hash <= highest) {
      entries(hash) = entries.get(hash).fold(entry)(_.and(entry))
      if (entries.size > Size) {
        entries -= entries.lastKey
        all = false
      }
      if (entries.size == Size) highest = entries.lastKey
    }

  def add(other: KeySample): Unit = {
    other.entries.foreach { case (hash, entry) => add(hash, entry) }
    all &&= other.all
  }

  def size: Int = entries.size

  /** Whether the sample contains all keys of the rows. */
  def isAll: Boolean = all

  def keys: Seq[Entry] = entries.values.toSeq

  /** The keys in both samples, each as it occurs in this one and in the other one. */
  def common(other: KeySample): Seq[(Entry, Entry)] =
    entries.toSeq.flatMap { case (hash, entry) => other.entries.get(hash).map(entry -> _) }
}

private[streamjoin] object KeySample {
  private val Size = 128

  /**
   * @param text
   *   its values as text
   * @param first
   *   the earliest time of its rows, in microseconds
   */
  final case class Entry(text: String, first: Long, last: Long) {
    def and(other: Entry): Entry = Entry(
      if (text <= other.text) text else other.text,
      math.min(first, other.first),
      math.max(last, other.last)
    )
  }
}
