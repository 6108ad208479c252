package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.spark.sql.streamjoin.state.RowLayout
import org.apache.spark.sql.types.StructType

/**
 * An operator and the rows that it keeps, as data. It is in the checkpoint for tools that inspect
 * its state; no batch reads it.
 *
 * @param ordinal
 *   number of the operator in the query, from 0
 * @param title
 *   its name for users: `left outer interval join`
 * @param columns
 *   event-time columns by watermark key, as users write them
 */
final private[streamjoin] case class OperatorOutline(
    ordinal: Int,
    kind: String,
    title: String,
    columns: Seq[String],
    inputs: Seq[InputOutline]
)

/**
 * An input whose rows the operator keeps.
 *
 * @param side
 *   `left` or `right`; none if the operator keeps the rows of one input only
 * @param stored
 *   fields of a stored row: the columns of the input, then fields computed for the operator
 * @param shown
 *   how many of them are columns of the input
 * @param timeColumns
 *   the watermark key of each expiring time
 * @param limits
 *   a row leaves once one of them is reached
 * @param recordsMatches
 *   whether the state records which rows have matched
 * @param newestByKey
 *   whether the newest row of each key stays, in a table next to the buffered rows
 */
final private[streamjoin] case class InputOutline(
    side: Option[String],
    name: String,
    stored: StructType,
    shown: Int,
    keys: Seq[Int],
    times: Seq[Int],
    expiring: Seq[Int],
    timeColumns: Seq[Int],
    limits: Seq[KeepingLimit],
    recordsMatches: Boolean,
    newestByKey: Boolean
) {
  def layout: RowLayout =
    new RowLayout(stored.map(_.dataType), keys.toArray, times.toArray, expiring.toArray)

  /** How to read the rows. */
  private[checkpoint] def rows: Any = (stored, keys, times, expiring)

  /** The columns of the input. */
  def columns: StructType = StructType(stored.take(shown)).asNullable
}

private[streamjoin] object InputOutline {

  /** @param stored fields of a stored row, as in `layout` */
  def apply(
      side: Option[String],
      name: String,
      stored: StructType,
      shown: Int,
      layout: RowLayout,
      timeColumns: Seq[Int],
      limits: Seq[KeepingLimit],
      recordsMatches: Boolean = false,
      newestByKey: Boolean = false
  ): InputOutline = InputOutline(
    side,
    name,
    stored,
    shown,
    layout.keys.toSeq,
    layout.times.toSeq,
    layout.expiring.toSeq,
    timeColumns,
    limits,
    recordsMatches,
    newestByKey
  )
}

/**
 * When a row leaves: once each of some watermarks is later than the row's time by more than a
 * postpone time.
 *
 * @param time
 *   index among the expiring times of the row
 */
final private[streamjoin] case class KeepingLimit(time: Int, until: Seq[KeepingLimit.Reached])

private[streamjoin] object KeepingLimit {

  /**
   * @param key
   *   watermark key
   * @param postpone
   *   in microseconds
   */
  final case class Reached(key: Int, postpone: Long)

  def apply(time: Int, key: Int, postpone: Long): KeepingLimit =
    KeepingLimit(time, Seq(Reached(key, postpone)))
}
