package org.apache.spark.sql.streamjoin.watermark

import streamjoin.core.Watermark

/**
 * The watermarks that one of our operators receives.
 *
 * @param columns
 *   by watermark key
 * @param compared
 *   by the watermark key of each column that evicts rows: the keys of the columns that its times
 *   are compared with
 */
final private[streamjoin] case class ReceivedWatermarks(
    ordinal: Int,
    columns: IndexedSeq[ColumnWatermark],
    compared: Map[Int, Set[Int]]
)

private[streamjoin] object ReceivedWatermarks {

  /** Each column is compared with all others. */
  def each(columns: Seq[ColumnWatermark]): Map[Int, Set[Int]] =
    columns.indices.map(key => key -> (columns.indices.toSet - key)).toMap
}

/**
 * Computes how far active inputs advance the watermarks of idle ones. Pure: depends only on
 * watermarks and the shape of the query.
 *
 * An idle input follows the times that its own are compared with. Where several of its columns are
 * compared, such as a time and the day of it, it follows with the one that advances it least: if it
 * were ahead, rows would leave before their matches, also after it has become active again.
 *
 * @param operators
 *   the watermarks that our operators receive
 * @param isIdle
 *   whether the input of an origin is idle
 */
final private[streamjoin] class CarriedWatermarks(
    operators: Seq[ReceivedWatermarks],
    isIdle: WatermarkId => Boolean
) {
  import ColumnWatermark._

  private val upwards = operators.sortBy(_.ordinal)

  /** The origins of everything an operator receives; none if it also receives something else. */
  private val below: Map[Int, Option[Set[WatermarkId]]] =
    upwards.foldLeft(Map.empty[Int, Option[Set[WatermarkId]]]) { (known, operator) =>
      known + (operator.ordinal -> all(operator.columns.map(origins(_, known))))
    }

  private def all(sets: Seq[Option[Set[WatermarkId]]]): Option[Set[WatermarkId]] =
    if (sets.forall(_.isDefined)) Some(sets.flatten.flatten.toSet) else None

  private def origins(
      column: ColumnWatermark,
      known: Map[Int, Option[Set[WatermarkId]]]
  ): Option[Set[WatermarkId]] =
    column match {
      case Marked(origin) => Some(Set(origin))
      case Shifted(_, shifted, _) => origins(shifted, known)
      case Smallest(branches) => all(branches.map(origins(_, known)))
      case output: Output => known.getOrElse(output.ordinal, all(output.columns.map(origins(_, known))))
      case _ => None
    }

  private def isSilent(column: ColumnWatermark): Boolean = origins(column, below).exists(_.forall(isIdle))

  /**
   * The watermarks for eviction.
   *
   * @param keyed
   *   watermarks before they are advanced, in microseconds, by origin
   * @param valuesOf
   *   computes the values of a batch from watermarks by origin
   */
  def carried(
      keyed: Map[WatermarkId, Long],
      valuesOf: Map[WatermarkId, Long] => WatermarkValues
  ): Map[WatermarkId, Long] = {
    def together(
        columns: IndexedSeq[ColumnWatermark],
        compared: Map[Int, Set[Int]],
        from: Map[WatermarkId, Long]
    ): Map[WatermarkId, Long] = {
      // A column that never has a watermark does not count.
      val silent = compared.keys.toSeq.filter(key => columns(key).isDefined && isSilent(columns(key)))
      if (silent.isEmpty) from
      else {
        val values = valuesOf(from)
        val times = silent.flatMap { key =>
          val others = compared(key).toSeq.map(columns).filter(_.isDefined)
          followed(columns(key), reached(columns(key), others, values))
        }
        raised(from, times, values)
      }
    }
    def united(column: ColumnWatermark, from: Map[WatermarkId, Long]): Map[WatermarkId, Long] = column match {
      case Shifted(_, shifted, _) => united(shifted, from)
      case Smallest(branches) =>
        val inner = branches.foldLeft(from)((known, branch) => united(branch, known))
        // The other input of its join advances a union that is idle as a whole.
        if (isSilent(column)) inner
        else together(branches.toIndexedSeq, ReceivedWatermarks.each(branches), inner)
      case _ => from
    }
    upwards.foldLeft(keyed) { (from, operator) =>
      val keys = operator.compared.flatMap { case (key, others) => others + key }.toSeq.distinct.sorted
      val inner = keys.map(operator.columns).foldLeft(from)((known, column) => united(column, known))
      together(operator.columns, operator.compared, inner)
    }
  }

  /**
   * The watermark of a silent column: that of the lowest active one of the others or, if all are
   * idle, its own or theirs.
   */
  private def reached(
      column: ColumnWatermark,
      others: Seq[ColumnWatermark],
      values: WatermarkValues
  ): Long = {
    val speaking = others.filterNot(isSilent)
    if (speaking.nonEmpty) speaking.map(_.value(values)).min
    else others.map(highest(_, values)).minOption.foldLeft(highest(column, values))(math.max)
  }

  /** The branch of a union that is ahead. */
  private def highest(column: ColumnWatermark, values: WatermarkValues): Long = column match {
    case Smallest(branches) => branches.map(highest(_, values)).max
    case other => other.value(values)
  }

  /** The marks and outputs of joins that a column comes from, each with the time that it needs. */
  private def followed(column: ColumnWatermark, to: Long): Seq[(ColumnWatermark, Long)] = column match {
    case Shifted(by, shifted, _) => followed(shifted, Watermark.postponed(to, by))
    case Smallest(branches) => branches.flatMap(followed(_, to))
    case other => Seq(other -> to)
  }

  /** Of several times that a mark or an output needs, the lowest counts. */
  private def raised(
      keyed: Map[WatermarkId, Long],
      times: Seq[(ColumnWatermark, Long)],
      values: WatermarkValues
  ): Map[WatermarkId, Long] =
    times.groupBy { case (column, _) => id(column) }.values.map(_.minBy(_._2)).foldLeft(keyed) {
      case (known, (column, to)) if column.value(values) < to =>
        origins(column, below).toSeq.flatten.foldLeft(known) { (all, origin) =>
          all.updatedWith(origin)(before => Some(before.fold(to)(math.max(_, to))))
        }
      case (known, _) => known
    }

  private def id(column: ColumnWatermark): (Option[WatermarkId], Option[(Int, Int)]) = column match {
    case Marked(origin) => (Some(origin), None)
    case output: Output => (None, Some((output.ordinal, output.key)))
    case _ => (None, None)
  }
}

private[streamjoin] object CarriedWatermarks {

  /**
   * The marks that a column's watermark comes from, unless it comes through one of our operators.
   */
  def marks(column: ColumnWatermark): Seq[WatermarkId] = column match {
    case ColumnWatermark.Marked(origin) => Seq(origin)
    case ColumnWatermark.Shifted(_, shifted, _) => marks(shifted)
    case ColumnWatermark.Smallest(branches) => branches.flatMap(marks)
    case _ => Nil
  }
}
