package org.apache.spark.sql.streamjoin.arrangement.storage

/** The columns that a stream of changes has besides those of the rows. */
private[streamjoin] object ChangeColumns {

  /** The version that added or removed a row. */
  val Version = "_version"

  /** How many copies were added, or removed if negative. */
  val Diff = "_diff"

  /** What a stream of the changes of an arrangement has after the columns of the rows. */
  val OfSource: Seq[String] = Seq(Version, Diff)

  /** The latest time of the changes that a row of a join comes from, if all inputs have one. */
  val Time = "_time"
}
