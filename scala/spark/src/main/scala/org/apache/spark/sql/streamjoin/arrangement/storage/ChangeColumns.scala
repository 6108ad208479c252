package org.apache.spark.sql.streamjoin.arrangement.storage

/** The columns that a stream of changes has in addition to those of the rows. */
private[streamjoin] object ChangeColumns {

  /** The version that added or removed a row. */
  val Version = "_version"

  /** How many copies were added, or removed if negative. */
  val Diff = "_diff"

  /** The columns that a stream of an arrangement's changes has after those of the rows. */
  val OfSource: Seq[String] = Seq(Version, Diff)

  /** The latest time of the changes that a joined row comes from, if all inputs have one. */
  val Time = "_time"
}
