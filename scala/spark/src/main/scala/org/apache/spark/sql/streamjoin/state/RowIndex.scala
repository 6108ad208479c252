package org.apache.spark.sql.streamjoin.state

import java.util.{HashMap => JHashMap, PriorityQueue, UUID}

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import streamjoin.core.Side

/**
 * The rows of one task in memory: by side and key, and by time.
 *
 * @param sides
 *   how many event times the rows of each side have
 */
final private[streamjoin] class RowIndex(sides: Map[Side, Int]) {

  /** The commit that this index equals. */
  private[state] var token: UUID = _

  /** The number of the next row in the store. */
  private[state] var nextId: Long = 0L

  private val bySide: Map[Side, Rows] = sides.map { case (side, times) => side -> new Rows(times) }

  final private class Rows(times: Int) {
    val byKey = new JHashMap[UnsafeRow, mutable.ArrayBuffer[KeptRow]]
    val byTime: Array[PriorityQueue[KeptRow]] =
      Array.tabulate(times)(at =>
        new PriorityQueue[KeptRow]((a, b) => java.lang.Long.compare(a.times(at), b.times(at)))
      )
    var count = 0L
  }

  def rows(side: Side): Long = bySide(side).count

  def add(kept: KeptRow): Unit = {
    val rows = bySide(kept.side)
    val sameKey = rows.byKey.computeIfAbsent(kept.key, _ => new mutable.ArrayBuffer[KeptRow](1))
    kept.position = sameKey.size
    sameKey += kept
    rows.byTime.foreach(_.add(kept))
    rows.count += 1
  }

  /** The last row takes the place of the one removed. */
  def remove(kept: KeptRow): Unit = {
    val rows = bySide(kept.side)
    val sameKey = rows.byKey.get(kept.key)
    val last = sameKey.remove(sameKey.size - 1)
    if (last ne kept) {
      sameKey(kept.position) = last
      last.position = kept.position
    }
    if (sameKey.isEmpty) rows.byKey.remove(kept.key)
    kept.gone = true
    rows.count -= 1
  }

  /** From the last to the first: a removal then moves only a row that was already returned. */
  def probe(side: Side, key: UnsafeRow): Iterator[KeptRow] = {
    val sameKey = bySide(side).byKey.get(key)
    if (sameKey == null) Iterator.empty else Iterator.range(sameKey.size - 1, -1, -1).map(sameKey(_))
  }

  /** The rows whose time is below a limit, lowest first; the caller removes them. */
  def below(side: Side, time: Int, limit: Long): Iterator[KeptRow] = {
    val queue = bySide(side).byTime(time)
    Iterator
      .continually(first(queue))
      .takeWhile(kept => kept != null && kept.times(time) < limit)
      .map(_ => queue.poll())
  }

  def lowest(side: Side, time: Int): Option[Long] =
    Option(first(bySide(side).byTime(time))).map(_.times(time))

  /** A row that has left some other way is dropped from the queue when it comes up. */
  private def first(queue: PriorityQueue[KeptRow]): KeptRow = {
    while (!queue.isEmpty && queue.peek().gone) queue.poll()
    queue.peek()
  }
}
