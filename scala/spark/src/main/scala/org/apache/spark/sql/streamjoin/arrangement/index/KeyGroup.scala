package org.apache.spark.sql.streamjoin.arrangement.index

/** Hashes of keys that will be looked up one after the other. */
final private[streamjoin] class KeyGroup(capacity: Int) {
  private[index] val hashes = new Array[Int](capacity)
  private[index] val entries = new Array[Int](capacity)

  /** What was read for them: without it, the compiler would leave the reads out. */
  private[index] var read = 0

  private var count = 0

  def size: Int = count

  def add(hash: Int): Unit = {
    hashes(count) = hash
    count += 1
  }

  def clear(): Unit = count = 0
}
