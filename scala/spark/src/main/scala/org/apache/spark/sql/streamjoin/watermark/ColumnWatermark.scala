package org.apache.spark.sql.streamjoin.watermark

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.catalyst.util.DateTimeUtils.{microsToMillis, millisToMicros}

import streamjoin.core.{TimeBounds, Watermark}

/**
 * Identifies an event-time column by the node that marks it, in any form of a query's plan: the
 * node's id and its occurrence among nodes with that id, top down and left to right. In a
 * self-join, both copies of the stream share the id (`DeduplicateRelations` renews only
 * attributes). The column's own id is useless: the optimizer replaces it with the source's
 * (`RemoveRedundantAliases`).
 */
final private[streamjoin] case class WatermarkId(node: UUID, occurrence: Int)

private[streamjoin] object WatermarkId {

  /** The origins of a plan's marks, from their node ids, top down and left to right. */
  def number(nodes: Seq[UUID]): Seq[WatermarkId] = occurrences(nodes).map { case (node, at) =>
    WatermarkId(node, at)
  }

  /** Pairs each element with the number of equal ones before it. */
  private[watermark] def occurrences[T](all: Seq[T]): Seq[(T, Int)] =
    all.zipWithIndex.map { case (one, at) => one -> all.take(at).count(_ == one) }
}

/**
 * How to compute the watermark of a column anywhere in a plan, as data: a pure function of the
 * batch's watermarks at the origins, so that every task and every replay gets the same value.
 */
sealed private[streamjoin] trait ColumnWatermark extends Serializable {

  /** In microseconds; [[Watermark.Undefined]] if no watermark is known yet. */
  def value(of: WatermarkValues): Long

  /** The newest time seen, from the newest times at the origins. */
  def newest(of: WatermarkId => Option[Long]): Option[Long]

  /**
   * No later time has been seen, given the newest times at the origins. The last time of all if
   * nothing records how far the rows have come.
   */
  def highest(of: WatermarkId => Option[Long]): Option[Long] = newest(of)

  /** The origin that decides the value: others may advance without changing it. */
  def decidedBy(of: WatermarkValues): Option[WatermarkId]

  /**
   * Whether the column has a watermark once every stream has one. A column that no time bound ties
   * to another never has one.
   */
  def isDefined: Boolean = value(ColumnWatermark.everywhere) != Watermark.Undefined
}

private[streamjoin] object ColumnWatermark {

  /** The marked column itself. */
  final case class Marked(origin: WatermarkId) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = of.keyed(origin)
    override def decidedBy(of: WatermarkValues): Option[WatermarkId] = Some(origin)
    override def newest(of: WatermarkId => Option[Long]): Option[Long] = of(origin)
  }

  /**
   * Another column plus a constant, in microseconds; the lower end if clocks change or times are
   * rounded.
   *
   * @param most
   *   the upper end
   */
  final case class Shifted(by: Long, column: ColumnWatermark, most: Long) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = Watermark.postponed(column.value(of), -by)
    override def decidedBy(of: WatermarkValues): Option[WatermarkId] = column.decidedBy(of)
    override def newest(of: WatermarkId => Option[Long]): Option[Long] = column.newest(of).map(_ + by)
    override def highest(of: WatermarkId => Option[Long]): Option[Long] =
      column.highest(of).map(Watermark.postponed(_, -most))
  }

  object Shifted {
    def apply(by: Long, column: ColumnWatermark): Shifted = Shifted(by, column, most = by)
  }

  /** A column of a union: the slowest branch decides. */
  final case class Smallest(branches: Seq[ColumnWatermark]) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = branches.map(_.value(of)).min
    override def decidedBy(of: WatermarkValues): Option[WatermarkId] =
      branches.minBy(_.value(of)).decidedBy(of)
    override def newest(of: WatermarkId => Option[Long]): Option[Long] =
      branches.flatMap(_.newest(of)).maxOption
    override def highest(of: WatermarkId => Option[Long]): Option[Long] =
      branches.flatMap(_.highest(of)).maxOption
  }

  /** Spark's watermark, one for the whole query. */
  case object SparkWide extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = of.spark
    override def decidedBy(of: WatermarkValues): Option[WatermarkId] = None
    override def newest(of: WatermarkId => Option[Long]): Option[Long] = None
    override def highest(of: WatermarkId => Option[Long]): Option[Long] = NotRecorded
  }

  /**
   * The watermark that Spark's operators receive, in whole milliseconds.
   *
   * @param lag
   *   minimum distance below the watermark, in microseconds
   */
  final case class ForSpark(column: ColumnWatermark, lag: Long) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = {
      val now = column.value(of) match {
        case Watermark.Undefined => Watermark.Undefined
        case micros => millisToMicros(microsToMillis(micros - lag))
      }
      column match {
        case output: Output => of.withoutStep(output.ordinal, now)(passed => Some(passed.forSpark))
        case _ => now
      }
    }

    override def decidedBy(of: WatermarkValues): Option[WatermarkId] = column.decidedBy(of)
    override def newest(of: WatermarkId => Option[Long]): Option[Long] = column.newest(of)
  }

  /** No watermark is known. */
  case object Unknown extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = Watermark.Undefined
    override def decidedBy(of: WatermarkValues): Option[WatermarkId] = None
    override def newest(of: WatermarkId => Option[Long]): Option[Long] = None
    override def highest(of: WatermarkId => Option[Long]): Option[Long] = NotRecorded
  }

  /**
   * An output column of one of Spark's stateful operators. The operator uses the smallest watermark
   * that it receives from below: Spark's own, or that of one of our operators. Until Spark has a
   * watermark, ours do not count, because Spark asks for them only then
   * (`PropagateWatermarkSimulator`).
   */
  final case class Propagated(from: Seq[ColumnWatermark]) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long =
      if (of.spark <= 0) of.spark else from.map(_.value(of)).minOption.fold(of.spark)(math.max(_, 0L))
    override def decidedBy(of: WatermarkValues): Option[WatermarkId] =
      from.minByOption(_.value(of)).flatMap(_.decidedBy(of))
    override def newest(of: WatermarkId => Option[Long]): Option[Long] = None
    override def highest(of: WatermarkId => Option[Long]): Option[Long] = NotRecorded
    override def isDefined: Boolean = from.forall(_.isDefined)
  }

  /** The output watermark of a column of one of our operators. */
  // Not case classes: in a long chain, very many paths lead to a column, and they must not be
  // compared, hashed or printed.
  sealed abstract class Output extends ColumnWatermark {

    /** Watermarks received, by watermark key of the operator. */
    def columns: IndexedSeq[ColumnWatermark]

    /** The watermark key of the column. */
    def key: Int

    /** The ordinal of the operator. */
    def ordinal: Int

    protected def work(of: WatermarkValues): Long

    final override def value(of: WatermarkValues): Long = of.output(ordinal, key)(work(of))
    final override def newest(of: WatermarkId => Option[Long]): Option[Long] = columns(key).newest(of)
    final override def highest(of: WatermarkId => Option[Long]): Option[Long] = columns(key).highest(of)
  }

  final class OfJoin(
      override val columns: IndexedSeq[ColumnWatermark],
      bounds: TimeBounds,
      override val key: Int,
      override val ordinal: Int
  ) extends Output {
    override protected def work(of: WatermarkValues): Long =
      of.weaker
        .get(ordinal)
        .fold(bounds)(bounds.weaker)
        .output(key, columns(_).value(of), of.lowestKept(ordinal, _))
    override def decidedBy(of: WatermarkValues): Option[WatermarkId] =
      columns(bounds.decidedBy(key, columns(_).value(of), of.lowestKept(ordinal, _))).decidedBy(of)
  }

  /**
   * The output watermark of an operator that emits in the order of the column with key 0.
   *
   * @param maxLagMicros
   *   by watermark key, the largest distance of a row's time behind that column, in microseconds
   */
  final class OfOrder(
      override val columns: IndexedSeq[ColumnWatermark],
      maxLagMicros: IndexedSeq[Long],
      override val key: Int,
      override val ordinal: Int
  ) extends Output {
    override protected def work(of: WatermarkValues): Long = columns(key).value(of) match {
      case Watermark.Undefined => Watermark.Undefined
      case known =>
        val out = Watermark.postponed(math.max(known, of.ordered(ordinal)), maxLagMicros(key))
        of.weaker.get(ordinal).flatMap(_.get((key, 0))).fold(out) {
          _.fold(Watermark.Undefined)(Watermark.postponed(out, _))
        }
    }
    override def decidedBy(of: WatermarkValues): Option[WatermarkId] = columns(key).decidedBy(of)
  }

  /**
   * The output watermark of an operator that emits in time order.
   *
   * @param time
   *   watermark of the order
   * @param maxLagMicros
   *   as in [[OfOrder]]; none if unknown
   */
  def ofOrder(
      time: ColumnWatermark,
      maxLagMicros: IndexedSeq[Option[Long]],
      key: Int,
      ordinal: Int
  ): ColumnWatermark =
    new OfOrder(
      maxLagMicros.map(known => if (known.isDefined) time else Unknown),
      maxLagMicros.map(_.getOrElse(0L)),
      key,
      ordinal
    )

  /** The output watermarks of our nearest operators below that a watermark depends on. */
  def outputs(watermark: ColumnWatermark): Seq[Output] = watermark match {
    case output: Output => Seq(output)
    case Shifted(_, column, _) => outputs(column)
    case Smallest(branches) => branches.flatMap(outputs)
    case _ => Nil
  }

  private val NotRecorded = Some(Long.MaxValue)

  /** Every stream has a watermark. */
  private def everywhere = new WatermarkValues(_ => 1L, 1L, _ => Watermark.Undefined)
}

/**
 * The watermarks that one batch sees, in microseconds.
 *
 * @param keyed
 *   by origin; undefined if there is none
 * @param spark
 *   Spark's own watermark, which its stateful operators use
 * @param ordered
 *   by ordinal of an operator that emits in time order: a lower bound on the times that it has not
 *   emitted yet, from the rows kept below it, in addition to the watermarks
 * @param lowestKept
 *   by ordinal and watermark key: a lower bound on the times in state ([[LowestKept]])
 * @param floors
 *   by ordinal: what an operator had passed when the query was changed
 * @param ceilings
 *   the same, if the query before has run this batch: whatever the operator would have passed by
 *   now, it may still emit the rows that it has kept until then
 * @param weaker
 *   by ordinal, while an operator keeps rows from before a change: by how much the constraints
 *   between two times of a row are weaker for them; none if there is none
 */
final private[streamjoin] class WatermarkValues(
    val keyed: WatermarkId => Long,
    val spark: Long,
    val ordered: Int => Long,
    val lowestKept: (Int, Int) => Long = (_, _) => Watermark.Undefined,
    floors: Map[Int, Passed] = Map.empty,
    ceilings: Map[Int, Passed] = Map.empty,
    val weaker: Map[Int, Map[(Int, Int), Option[Long]]] = Map.empty
) {
  private val known = mutable.Map.empty[(Int, Int), Long]

  /**
   * What an operator has passed, as far as the query before allows.
   *
   * @param now
   *   what it has passed, had the query always been this one
   */
  def withoutStep(ordinal: Int, now: Long)(of: Passed => Option[Long]): Long = {
    val highest = ceilings.get(ordinal).flatMap(of).getOrElse(Long.MaxValue)
    math.max(math.min(now, highest), floors.get(ordinal).flatMap(of).getOrElse(Watermark.Undefined))
  }

  /**
   * The time below which an operator has evicted rows before the query was changed.
   *
   * @param key
   *   watermark key of the operator
   */
  def evictedBelow(ordinal: Int, key: Int): Long =
    floors.get(ordinal).flatMap(_.evicted.lift(key)).getOrElse(Watermark.Undefined)

  /**
   * The output watermark of a key of one of our operators, computed once. It never goes back, even
   * if the query was changed.
   */
  def output(ordinal: Int, key: Int)(value: => Long): Long = known.get((ordinal, key)) match {
    case Some(before) => before
    case None =>
      val now = withoutStep(ordinal, value)(_.outputs.lift(key))
      known((ordinal, key)) = now
      now
  }
}
