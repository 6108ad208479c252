package org.apache.spark.sql.streamjoin.arrangement.index

/**
 * What an index knows of its rows: where each one is, how many copies there are, and in which
 * versions. Entries are numbered from 0. The numbers of an entry are next to each other, because a
 * look-up needs all of them, and what it waits for is memory.
 */
final private[index] class IndexEntries(initial: Int) {
  import IndexEntries._

  private var numbers = new Array[Int](initial * Numbers)
  private var used = 0

  def size: Int = used

  /** For how many entries there is room. */
  def capacity: Int = numbers.length / Numbers

  def bytes: Long = 4L * numbers.length

  /** Adds an entry that is in all versions from `from` on; returns its number. */
  def add(block: Int, position: Int, copies: Int, from: Int): Int = {
    val at = used * Numbers
    if (at == numbers.length)
      numbers = java.util.Arrays.copyOf(numbers, Math.multiplyExact(numbers.length, 2))
    numbers(at) = block
    numbers(at + 1) = position
    numbers(at + 2) = copies
    numbers(at + 3) = from
    numbers(at + 4) = Live
    used += 1
    used - 1
  }

  /** The number of the block that has the row. */
  def block(entry: Int): Int = numbers(entry * Numbers)

  /** Where the row is in its block. */
  def position(entry: Int): Int = numbers(entry * Numbers + 1)

  def copies(entry: Int): Int = numbers(entry * Numbers + 2)

  /** The version that added the row. */
  def from(entry: Int): Int = numbers(entry * Numbers + 3)

  /** The version that removed the row; higher than all versions if none has. */
  def to(entry: Int): Int = numbers(entry * Numbers + 4)

  def isLive(entry: Int): Boolean = to(entry) == Live

  def isIn(entry: Int, version: Int): Boolean = from(entry) <= version && version < to(entry)

  /** Removes the row in a version. */
  def end(entry: Int, version: Int): Unit = numbers(entry * Numbers + 4) = version
}

private object IndexEntries {
  private val Numbers = 5
  private val Live = Int.MaxValue
}
