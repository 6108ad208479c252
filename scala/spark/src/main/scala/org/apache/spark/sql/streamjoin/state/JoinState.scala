package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import streamjoin.core.Side

/**
 * A row that is kept.
 *
 * @param times
 *   the row's event times in microseconds by position among the watermark keys of its side
 */
final private[streamjoin] class KeptRow(
    val side: Side,
    val key: UnsafeRow,
    val row: UnsafeRow,
    val times: Array[Long]
) {

  /** It has met a row of the other side. */
  var matched: Boolean = false

  /** It has left: expired, or gone with its first match. */
  var gone: Boolean = false

  /** Its number in the store, negative until it is there. */
  private[state] var id: Long = -1L

  /** The store knows that it matched. */
  private[state] var matchedInStore: Boolean = false

  /** Where it stands among the rows of its key. */
  private[state] var position: Int = -1

  /** The same with a row of its own, for the one at hand belongs to Spark and is overwritten. */
  def durable: KeptRow = {
    val copy = new KeptRow(side, key, row.copy(), times)
    copy.matched = matched
    copy
  }
}

/**
 * The rows that one task of a join keeps, both sides. It knows keys, times and rows, not joins.
 *
 * Nothing is durable before [[commit]]; what is not committed is given up by [[abort]].
 */
private[streamjoin] trait JoinState {

  /** Keeps a row; row, key and times are the state's from here on. */
  def append(kept: KeptRow): Unit

  /**
   * The rows of a side with a key. A row may be removed while they are walked through, the one last returned included.
   *
   * @param time
   *   the position of the time that is looked at, with the lowest and highest value that may be of use, both included:
   *   rows outside may be left out
   */
  def probe(side: Side, key: UnsafeRow, time: Int, from: Long, to: Long): Iterator[KeptRow]

  /** The row has met one of the other side. */
  def markMatched(kept: KeptRow): Unit

  /** The row leaves. */
  def remove(kept: KeptRow): Unit

  /** Removes the rows of a side whose time at a position is below a limit, and returns them one by one. */
  def evict(side: Side, time: Int, below: Long): Iterator[KeptRow]

  /** How many rows of a side are kept. */
  def rows(side: Side): Long

  /** The lowest time at a position among the rows of a side. */
  def lowest(side: Side, time: Int): Option[Long]

  /** Makes all of it durable. */
  def commit(): Unit

  /** Gives up what is not committed. */
  def abort(): Unit
}
