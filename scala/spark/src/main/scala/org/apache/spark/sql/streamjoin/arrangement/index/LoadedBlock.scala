package org.apache.spark.sql.streamjoin.arrangement.index

/** A block that an index refers to. Its bytes may be dropped and reread. */
private[streamjoin] trait LoadedBlock {
  def bytes: Array[Byte]

  /** Its bytes if they are in memory, or null. */
  def bytesInMemory: Array[Byte]
}
