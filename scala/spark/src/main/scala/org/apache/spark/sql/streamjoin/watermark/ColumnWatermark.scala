package org.apache.spark.sql.streamjoin.watermark

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.catalyst.util.DateTimeUtils.{microsToMillis, millisToMicros}

import streamjoin.core.{TimeBounds, Watermark}

/**
 * An event-time column where it was marked, in any form of one query's plan: the node's id, and
 * which of the nodes with that id it is, top down and left to right. The copies of a stream that is
 * joined with itself share the node's id (`DeduplicateRelations` renews attributes only). The
 * column's own id says nothing: the optimizer puts the source's in its place
 * (`RemoveRedundantAliases`).
 */
final private[streamjoin] case class Origin(node: UUID, occurrence: Int)

private[streamjoin] object Origin {

  /** The origins of the nodes of a plan, from their ids, top down and left to right. */
  def number(nodes: Seq[UUID]): Seq[Origin] = occurrences(nodes).map { case (node, at) => Origin(node, at) }

  /** Each with how many that are equal come before it. */
  private[watermark] def occurrences[T](all: Seq[T]): Seq[(T, Int)] =
    all.zipWithIndex.map { case (one, at) => one -> all.take(at).count(_ == one) }
}

/**
 * Where the watermark of a column somewhere in a plan comes from, as data: a pure function of the
 * watermarks that a batch has at its origins, so that every task and every replay get the same.
 */
sealed private[streamjoin] trait ColumnWatermark extends Serializable {

  /** In microseconds; [[Watermark.Undefined]] where no watermark is known yet. */
  def value(of: WatermarkValues): Long

  /** The newest time that has come, from those of the columns as they were marked. */
  def newest(of: Origin => Option[Long]): Option[Long]

  /**
   * There is one as soon as every stream has one. A column that no time bound ties to another never
   * has one.
   */
  def isDefined: Boolean = value(ColumnWatermark.everywhere) != Watermark.Undefined
}

private[streamjoin] object ColumnWatermark {

  /** The column as it was marked. */
  final case class Marked(origin: Origin) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = of.keyed(origin)
    override def newest(of: Origin => Option[Long]): Option[Long] = of(origin)
  }

  /**
   * A column that is the other one plus a constant (microseconds, the lower end where clocks
   * change).
   */
  final case class Shifted(by: Long, column: ColumnWatermark) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = Watermark.postponed(column.value(of), -by)
    override def newest(of: Origin => Option[Long]): Option[Long] = column.newest(of).map(_ + by)
  }

  /** A union, position by position: the slowest branch counts. */
  final case class Smallest(branches: Seq[ColumnWatermark]) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = branches.map(_.value(of)).min
    override def newest(of: Origin => Option[Long]): Option[Long] = branches.flatMap(_.newest(of)).maxOption
  }

  /** As Spark has it: one watermark for the whole query. */
  case object SparkWide extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = of.spark
    override def newest(of: Origin => Option[Long]): Option[Long] = None
  }

  /**
   * As Spark's operators are given it, in whole milliseconds.
   *
   * @param lag
   *   by how many microseconds it has to be below the watermark at least
   */
  final case class ForSpark(column: ColumnWatermark, lag: Long) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = column.value(of) match {
      case Watermark.Undefined => Watermark.Undefined
      case micros => millisToMicros(microsToMillis(micros - lag))
    }
    override def newest(of: Origin => Option[Long]): Option[Long] = column.newest(of)
  }

  /** Nothing is known of it. */
  case object Unknown extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = Watermark.Undefined
    override def newest(of: Origin => Option[Long]): Option[Long] = None
  }

  /**
   * A column of the output of a stateful operator of Spark's. Such an operator uses the smallest
   * watermark that it is given from below, which is Spark's own or that of an operator of ours.
   * They wait for nothing before Spark's watermark is there, for only then does Spark ask
   * (`PropagateWatermarkSimulator`).
   */
  final case class Propagated(from: Seq[ColumnWatermark]) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long =
      if (of.spark <= 0) of.spark else from.map(_.value(of)).minOption.fold(of.spark)(math.max(_, 0L))
    override def newest(of: Origin => Option[Long]): Option[Long] = None
    override def isDefined: Boolean = from.forall(_.isDefined)
  }

  /**
   * The output watermark of a column of an operator of ours.
   */
  // No case classes: a column of a long chain is reached in very many ways, which must not be
  // compared, hashed or printed.
  sealed abstract class Output extends ColumnWatermark {

    /** By watermark key of the operator. */
    def columns: IndexedSeq[ColumnWatermark]

    /** The column among them. */
    def key: Int

    /** Of the operator. */
    def ordinal: Int

    protected def work(of: WatermarkValues): Long

    final override def value(of: WatermarkValues): Long = of.output(ordinal, key)(work(of))
    final override def newest(of: Origin => Option[Long]): Option[Long] = columns(key).newest(of)
  }

  final class OfJoin(
      override val columns: IndexedSeq[ColumnWatermark],
      bounds: TimeBounds,
      override val key: Int,
      override val ordinal: Int
  ) extends Output {
    override protected def work(of: WatermarkValues): Long = bounds.output(key, columns(_).value(of))
  }

  /**
   * Of an operator that emits its rows in the order of the column with key 0.
   *
   * @param behind
   *   by watermark key: by how many microseconds at most a row's time is behind that column
   */
  final class OfOrder(
      override val columns: IndexedSeq[ColumnWatermark],
      behind: IndexedSeq[Long],
      override val key: Int,
      override val ordinal: Int
  ) extends Output {
    override protected def work(of: WatermarkValues): Long = columns(key).value(of) match {
      case Watermark.Undefined => Watermark.Undefined
      case known => Watermark.postponed(math.max(known, of.ordered(ordinal)), behind(key))
    }
  }

  /**
   * Of an operator that emits its rows in the order of a time.
   *
   * @param time
   *   the watermark of the order
   * @param behind
   *   as [[OfOrder]] has it; none where it is not known
   */
  def ofOrder(
      time: ColumnWatermark,
      behind: IndexedSeq[Option[Long]],
      key: Int,
      ordinal: Int
  ): ColumnWatermark =
    new OfOrder(
      behind.map(known => if (known.isDefined) time else Unknown),
      behind.map(_.getOrElse(0L)),
      key,
      ordinal
    )

  /** The output watermarks of the nearest operators of ours that a watermark comes from. */
  def outputs(watermark: ColumnWatermark): Seq[Output] = watermark match {
    case output: Output => Seq(output)
    case Shifted(_, column) => outputs(column)
    case Smallest(branches) => branches.flatMap(outputs)
    case _ => Nil
  }

  /** Every stream has one. */
  private def everywhere = new WatermarkValues(_ => 1L, 1L, _ => Watermark.Undefined)
}

/**
 * The watermarks that one batch sees, in microseconds.
 *
 * @param keyed
 *   by origin; undefined where there is none
 * @param spark
 *   Spark's own watermark, which its stateful operators use
 * @param ordered
 *   by the ordinal of an operator that emits in the order of a time: no row that it has not emitted
 *   yet has an earlier time, as far as the rows below it tell, beside the watermarks
 */
final private[streamjoin] class WatermarkValues(
    val keyed: Origin => Long,
    val spark: Long,
    val ordered: Int => Long
) {
  private val known = mutable.Map.empty[(Int, Int), Long]

  /** The output watermark of a key of an operator of ours, worked out once. */
  def output(ordinal: Int, key: Int)(value: => Long): Long = known.get((ordinal, key)) match {
    case Some(before) => before
    case None =>
      val now = value
      known((ordinal, key)) = now
      now
  }
}
