package org.apache.spark.sql.streamjoin.arrangement.index

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The time of a row, or `None`, which sorts last. */
private[streamjoin] trait RowTime {
  def apply(row: UnsafeRow): Long
}

private[streamjoin] object RowTime {
  val None: Long = Long.MaxValue
}

/**
 * Entries of an index by the time of their rows, as a binary heap: the oldest is first. The cost of
 * finding the entries before a limit depends only on how many they are, not on how many come after
 * it.
 */
final private[index] class TimeHeap {
  private var times = new Array[Long](TimeHeap.Initial)
  private var entries = new Array[Int](TimeHeap.Initial)
  private var size = 0

  def bytes: Long = times.length * TimeHeap.EntryBytes

  def add(entry: Int, time: Long): Unit = {
    if (size == times.length) {
      val larger = Math.multiplyExact(size, 2)
      times = java.util.Arrays.copyOf(times, larger)
      entries = java.util.Arrays.copyOf(entries, larger)
    }
    var at = size
    size += 1
    while (at > 0 && times((at - 1) / 2) > time) {
      move((at - 1) / 2, at)
      at = (at - 1) / 2
    }
    put(at, entry, time)
  }

  /**
   * The entries before a limit, in no particular order. Removes outdated entries from the front.
   */
  def before(limit: Long, isGone: Int => Boolean): Array[Int] = {
    while (size > 0 && times(0) < limit && isGone(entries(0))) removeFirst()
    val found = new mutable.ArrayBuilder.ofInt
    val open = mutable.Stack(0)
    while (open.nonEmpty) {
      val at = open.pop()
      if (at < size && times(at) < limit) {
        found += entries(at)
        open.push(2 * at + 1, 2 * at + 2)
      }
    }
    found.result()
  }

  private def removeFirst(): Unit = {
    size -= 1
    val (entry, time) = (entries(size), times(size))
    var at = 0
    var child = 1
    while (child < size) {
      if (child + 1 < size && times(child + 1) < times(child)) child += 1
      if (times(child) < time) {
        move(child, at)
        at = child
        child = 2 * at + 1
      } else child = size
    }
    put(at, entry, time)
  }

  private def move(from: Int, to: Int): Unit = put(to, entries(from), times(from))

  private def put(at: Int, entry: Int, time: Long): Unit = {
    entries(at) = entry
    times(at) = time
  }
}

private object TimeHeap {
  private val Initial = 64
  private val EntryBytes = 12L
}

/** The entries by the time of their rows, as of the version `lastAt`. */
final private[index] class ByTime(timeOf: RowTime) {
  val heap = new TimeHeap
  var lastAt = 0

  def add(entry: Int, row: UnsafeRow): Unit = {
    val time = timeOf(row)
    if (time != RowTime.None) heap.add(entry, time)
  }
}
