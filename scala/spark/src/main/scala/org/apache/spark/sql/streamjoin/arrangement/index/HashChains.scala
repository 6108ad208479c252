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
  // For each entry its hash and the number, plus one, of the next in its chain; 0 ends a chain.
  private var links = new Array[Int](2 * capacity)
  private var heads = new Array[Int](2 * capacity)
  private var entries = 0

  def bytes: Long = 4L * (links.length + heads.length)

  def hash(entry: Int): Int = links(2 * entry)

  /** Adds the next entry. */
  def add(hash: Int): Unit = {
    if (2 * entries == links.length) grow()
    links(2 * entries) = hash
    entries += 1
    link(entries)
  }

  def first(hash: Int): Int = heads(headOf(hash)) - 1

  def next(entry: Int): Int = links(2 * entry + 1) - 1

  private def link(number: Int): Unit = {
    val head = headOf(hash(number - 1))
    links(2 * number - 1) = heads(head)
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
    val size = Math.multiplyExact(links.length, 2)
    links = java.util.Arrays.copyOf(links, size)
    heads = new Array[Int](size)
    var number = 1
    while (number <= entries) {
      link(number)
      number += 1
    }
  }
}
