package org.apache.spark.sql.streamjoin.plans

/** Initial number of partitions of an operator; each has its own state store. */
sealed private[streamjoin] trait FirstPartitions {

  /**
   * @param stores
   *   number of partitions of Spark's own operators
   * @param atOnce
   *   number of tasks that run at once
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
