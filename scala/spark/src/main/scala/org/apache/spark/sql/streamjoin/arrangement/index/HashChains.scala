package org.apache.spark.sql.streamjoin.arrangement.index

/**
 * A hash table of entries, which are numbered from 0 in insertion order. A chain contains the
 * entries of a slot, the newest first, including those with other hashes.
 *
 * {{{
 *   for (entry <- chains.first(hash), then chains.next(entry), until it is negative)
 *     if (chains.hash(entry) == hash) ...
 * }}}
 */
final private[index] class HashChains(capacity: Int) {
  import HashChains._

  private var hashes = new Array[Int](capacity)

  // The number of an entry plus one; 0 ends a chain.
  private var following = new Array[Int](capacity)
  private var heads = new Array[Int](2 * capacity)
  private var entries = 0

  def bytes: Long = hashes.length * EntryBytes

  def hash(entry: Int): Int = hashes(entry)

  /** Adds the next entry. */
  def add(hash: Int): Unit = {
    if (entries == hashes.length) grow()
    hashes(entries) = hash
    entries += 1
    link(entries)
  }

  def first(hash: Int): Int = heads(headOf(hash)) - 1

  def next(entry: Int): Int = following(entry) - 1

  private def link(number: Int): Unit = {
    val head = headOf(hashes(number - 1))
    following(number - 1) = heads(head)
    heads(head) = number
  }

  /**
   * Mixes the hash, because all hashes of a partition agree in the bits that determine the
   * partition.
   */
  private def headOf(hash: Int): Int = {
    val mixed = hash * 0x9e3779b9
    (mixed ^ (mixed >>> 15)) & (heads.length - 1)
  }

  private def grow(): Unit = {
    val size = Math.multiplyExact(entries, 2)
    hashes = java.util.Arrays.copyOf(hashes, size)
    following = new Array[Int](size)
    heads = new Array[Int](2 * size)
    var number = 1
    while (number <= entries) {
      link(number)
      number += 1
    }
  }
}

private object HashChains {

  /** Hash, next, and two heads. */
  val EntryBytes = 16L
}
