package org.apache.spark.sql.streamjoin.plans

/** With how many partitions an operator begins; each has a state store of its own. */
sealed private[streamjoin] trait FirstPartitions {

  /**
   * @param stores
   *   the number for Spark's own operators
   * @param atOnce
   *   how many tasks run at once
   */
  def number(stores: Int, atOnce: Int): Int = this match {
    case FirstPartitions.AsStores => stores
    case FirstPartitions.AtOnce => math.min(stores, atOnce)
    case FirstPartitions.One => 1
  }
}

private[streamjoin] object FirstPartitions {
  case object AsStores extends FirstPartitions
  case object AtOnce extends FirstPartitions
  case object One extends FirstPartitions
}
