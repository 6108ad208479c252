package org.apache.spark.sql.streamjoin.watermark

import streamjoin.core.Watermark

/**
 * Computes how far active inputs advance the watermarks of idle ones. Pure: depends only on
 * watermarks and the shape of the query.
 *
 * @param operators
 *   our operators: the watermarks that they receive, by ordinal
 * @param isIdle
 *   whether the input of an origin is idle
 */
final private[streamjoin] class CarriedWatermarks(
    operators: Seq[(Int, IndexedSeq[ColumnWatermark])],
    isIdle: WatermarkId => Boolean
) {
  import ColumnWatermark._

  /** The origins of everything an operator receives; none if it also receives something else. */
  private val below: Map[Int, Option[Set[WatermarkId]]] =
    operators.sortBy(_._1).foldLeft(Map.empty[Int, Option[Set[WatermarkId]]]) {
      case (known, (ordinal, columns)) =>
        known + (ordinal -> all(columns.map(origins(_, known))))
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
    def together(columns: Seq[ColumnWatermark], from: Map[WatermarkId, Long]): Map[WatermarkId, Long] = {
      // A column that never has a watermark does not count.
      val (silent, speaking) = columns.filter(_.isDefined).partition(isSilent)
      if (silent.isEmpty) from
      else {
        val values = valuesOf(from)
        val reached =
          if (speaking.nonEmpty) speaking.map(_.value(values)).min else silent.map(highest(_, values)).max
        silent.foldLeft(from)(raised(_, _, reached))
      }
    }
    def united(column: ColumnWatermark, from: Map[WatermarkId, Long]): Map[WatermarkId, Long] = column match {
      case Shifted(_, shifted, _) => united(shifted, from)
      case Smallest(branches) =>
        val inner = branches.foldLeft(from)((known, branch) => united(branch, known))
        // The other input of its join advances a union that is idle as a whole.
        if (isSilent(column)) inner else together(branches, inner)
      case _ => from
    }
    operators.sortBy(_._1).foldLeft(keyed) { case (from, (_, columns)) =>
      together(columns, columns.foldLeft(from)((known, column) => united(column, known)))
    }
  }

  /** The branch of a union that is ahead. */
  private def highest(column: ColumnWatermark, values: WatermarkValues): Long = column match {
    case Smallest(branches) => branches.map(highest(_, values)).max
    case other => other.value(values)
  }

  private def raised(
      keyed: Map[WatermarkId, Long],
      column: ColumnWatermark,
      to: Long
  ): Map[WatermarkId, Long] = column match {
    case Shifted(by, shifted, _) => raised(keyed, shifted, Watermark.postponed(to, by))
    case other =>
      origins(other, below).toSeq.flatten.foldLeft(keyed) { (known, origin) =>
        known.updatedWith(origin)(before =>
          Some(before.fold(to)(math.max(_, to))).filter(_ != Watermark.Undefined)
        )
      }
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
