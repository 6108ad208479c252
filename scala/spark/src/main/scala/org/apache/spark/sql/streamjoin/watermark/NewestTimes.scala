package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.sql.catalyst.util.DateTimeUtils.millisToMicros

/** The newest event time of a column's rows before a batch. */
sealed private[streamjoin] trait NewestTime

private[streamjoin] object NewestTime {

  /** In microseconds, rounded down to milliseconds. */
  final case class At(micros: Long) extends NewestTime

  /** There was no row. */
  case object NoRow extends NewestTime

  /** The checkpoint does not have it yet. */
  case object NotKnown extends NewestTime

  /** Nothing records it: the rows come from a stateful operator of Spark's. */
  case object NeverKnown extends NewestTime

  /** Of the rows of several columns. */
  def latest(all: Seq[NewestTime]): NewestTime =
    if (all.contains(NeverKnown)) NeverKnown
    else if (all.contains(NotKnown)) NotKnown
    else all.collect { case At(micros) => micros }.maxOption.fold[NewestTime](NoRow)(At)
}

/**
 * The newest event times before a batch, in the columns of a query that may not have run yet.
 *
 * @param recorded
 *   the watermarks of the batch as the checkpoint has them, perhaps of another query
 * @param sources
 *   names of the sources that have been read; none if sources have no names
 */
final private[streamjoin] class NewestTimes(
    keys: WatermarkKeys,
    recorded: => Option[KeyedWatermarks],
    sources: => Option[Set[String]]
) {
  import ColumnWatermark._
  import NewestTime._

  private lazy val entry = recorded

  /** Of the rows that had the column, or would have had it, anywhere in the query. */
  def of(column: ColumnWatermark): NewestTime = column match {
    case Marked(origin) => ofMark(keys.origins.indexOf(origin))
    case Shifted(_, shifted, most) =>
      of(shifted) match {
        case At(micros) => At(micros + most)
        case other => other
      }
    case Smallest(branches) => latest(branches.map(of))
    case ForSpark(output, _) => of(output)
    case output: Output => of(output.columns(output.key))
    case SparkWide | Unknown | _: Propagated => NeverKnown
  }

  private def ofMark(key: Int): NewestTime = entry.fold[NewestTime](NotKnown) { entry =>
    val column = keys.columns(key)
    column.source match {
      case None => entry.of(keys.columns).fold[NewestTime](NotKnown)(among(_, Seq(key)))
      case Some(source) =>
        // A source that is read once more has no rows of its own.
        val known = entry.columns.indices.filter(entry.columns(_) == column)
        if (known.nonEmpty) among(entry, known)
        else if (sources.exists(!_(source))) NoRow
        else NotKnown
    }
  }

  private def among(entry: KeyedWatermarks, keys: Seq[Int]): NewestTime = {
    // An older version has recorded the watermark alone.
    val hasRows = keys.exists(entry.millis(_).isDefined)
    keys.flatMap(entry.newest.lift(_).flatten).maxOption match {
      case Some(millis) => At(millisToMicros(millis))
      case None => if (hasRows) NotKnown else NoRow
    }
  }
}
