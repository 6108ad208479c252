package org.apache.spark.sql.streamjoin.joins.temporal

/**
 * The columns of a temporal join.
 *
 * @param asOf
 *   event-time column of the left input
 * @param key
 *   columns that identify a row of the table, or fields of a column
 * @param time
 *   column with the time from which a version is valid
 * @param op
 *   column that says whether a row is a version or deletes its key; without it, all are versions
 * @param order
 *   column that breaks ties: of two rows with the same key and time, the one with the greater value
 *   is later
 * @param unavailable
 *   stands for a value that was not sent, if there is one
 * @tparam C
 *   a column name, or the column it resolves to
 * @tparam K
 *   the same for columns that may be fields
 */
final private[streamjoin] case class TemporalColumns[+C, +K](
    asOf: C,
    key: Seq[K],
    time: C,
    op: Option[C],
    order: Option[C] = None,
    unavailable: Option[String] = None
)
