package org.apache.spark.sql.streamjoin.operators.table

import org.apache.spark.sql.streamjoin.analysis.StreamInput
import org.apache.spark.sql.streamjoin.arrangement.ArrangementOptions
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * How an arrangement is looked up.
 *
 * @param options
 *   of the relation in the query
 */
final private[streamjoin] case class TableOptions(options: ArrangementOptions) {

  /** The version before the newest. */
  def isPrevious: Boolean = options.text(TableOptions.AsOf).contains(TableOptions.Previous)

  /** The version that has to be there before the query begins. */
  def atLeast: Option[Long] = options.number(TableOptions.AtLeast, 0)

  /** For how long a row without a match may get one later, in microseconds of event time. */
  def rematch: Option[Long] = options.text(TableOptions.Rematch).map { length =>
    val input = new StreamInput("sj.table")
    val micros = input.length(TableOptions.Rematch, length)
    if (micros <= 0) throw input.duration(TableOptions.Rematch, length, "it is not positive")
    micros
  }
}

private[streamjoin] object TableOptions {

  /** An arrangement as a table that a stream looks up, and not as rows to read in each batch. */
  val Table = "streamjoin.table"
  val AsOf = "asOf"
  val AtLeast = "atLeast"
  val Rematch = "rematch"

  val Previous = "previous"

  def isTable(options: CaseInsensitiveStringMap): Boolean = options.getBoolean(Table, false)
}
