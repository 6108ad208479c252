package org.apache.spark.sql.streamjoin.joins.interval

import java.util.concurrent.TimeUnit

import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.EquiKeys
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.evolve.RecordedValue
import org.apache.spark.sql.types.{DataType, TimestampType}

import streamjoin.core.{Side, Watermark}

/**
 * A bound by a value that each row of a side carries, such as the end of an auction: `value >= in -
 * postpone`. A row leaves once the watermark of `in` has passed its value.
 *
 * {{{
 *   b.t BETWEEN a.t AND a.expires    value a.expires, in b.t: an auction leaves once the watermark
 *                                    of b.t has passed its end; a bid leaves by the bound on a.t
 * }}}
 *
 * @param side
 *   side of `value`, whose rows the bound keeps
 * @param value
 *   expression over columns of that side
 * @param less
 *   what the conjunct compares it with: `in` plus a constant
 * @param strict
 *   whether `less` must be below the value
 * @param postpone
 *   in microseconds
 */
final private[streamjoin] case class CarriedBound(
    side: Side,
    value: Expression,
    less: Expression,
    strict: Boolean,
    in: Attribute,
    postpone: Long,
    conjunct: Expression
)

/**
 * How long a row with such a value may stay.
 *
 * @param micros
 *   longest distance from the row's event time; none if there is no limit
 * @param beyond
 *   what happens to a row whose value is further away
 */
final private[streamjoin] case class MaxLifetime(micros: Option[Long], beyond: String) {
  def fails: Boolean = beyond == StreamJoinConf.Fail
  def cuts: Boolean = beyond == StreamJoinConf.Cut
}

private[streamjoin] object MaxLifetime {
  def of(conf: SQLConf): MaxLifetime = {
    val beyond = conf.getConf(StreamJoinConf.BeyondMaxLifetime)
    MaxLifetime(
      Option.when(beyond != StreamJoinConf.Keep)(
        TimeUnit.MILLISECONDS.toMicros(conf.getConf(StreamJoinConf.MaxLifetime))
      ),
      beyond
    )
  }
}

/**
 * A bound by a carried value, as the join applies it.
 *
 * @param key
 *   number of the value: those of values follow the watermark keys
 * @param time
 *   watermark key of the event time from which the longest lifetime counts; none without a limit
 */
final private[streamjoin] case class CarriedKey(
    bound: CarriedBound,
    key: Int,
    time: Option[Int],
    max: MaxLifetime
) {
  def side: Side = bound.side

  /** How far the time may be behind the other side's, by the longest lifetime. */
  def longest: Option[Long] = max.micros.map(Watermark.postponed(_, -bound.postpone))

  /** The stored value, over the columns of its side. */
  def stored(times: Int => Attribute): Expression = bound.value match {
    case column: Attribute if !max.cuts => column
    case value => CarriedValue(value, time.map(times), max.micros, max.cuts)
  }

  /** With `cut`, the condition compares with the longest lifetime, too. */
  def cut(times: Int => Attribute): Option[Expression] =
    if (max.cuts) Some(WithinLifetime(bound.less, times(time.get), max.micros.get, bound.strict)) else None

  /** The bound by the longest lifetime: it holds for every pair. */
  def ofLifetime(times: Int => Attribute): Option[FoundBound] =
    longest.map(FoundBound(side, times(time.get), bound.in, _, bound.conjunct, exact = false))

  /** For the checkpoint: a value that is stored must mean the same after a restart. */
  def description(text: Expression => String): String = {
    val limit = max.micros.fold("")(micros => s" at most $micros us")
    s"${side.name}: ${text(bound.value)} in zone $zone, ${max.beyond}$limit"
  }

  def record: RecordedValue = RecordedValue(key, zone, max.beyond, time, max.micros)

  private def zone: String = EquiKeys.zone(Seq(bound.value))
}

/**
 * A value that decides how long its row is kept. If it cannot be computed, as when a sum of
 * timestamps overflows, the row is kept as long as a row may be: plain Spark computes the value
 * only for pairs with equal keys, so a row without a match must not fail the query.
 *
 * @param time
 *   event time of the row
 * @param max
 *   longest distance of the value from that time, in microseconds
 * @param cuts
 *   whether a value further away is cut
 */
final private[streamjoin] case class CarriedValue(
    value: Expression,
    time: Option[Expression],
    max: Option[Long],
    cuts: Boolean
) extends Expression
    with CodegenFallback {
  override def children: Seq[Expression] = value +: time.toSeq
  override def nullable: Boolean = true
  override def dataType: DataType = TimestampType
  override def prettyName: String = "carried_value"

  override def eval(input: InternalRow): Any = Try(value.eval(input)) match {
    case Failure(_) => latest(input)
    case Success(micros: Long) if cuts => math.min(micros, latest(input))
    case Success(computed) => computed
  }

  private def latest(input: InternalRow): Long = time.map(_.eval(input)) match {
    case Some(from: Long) => Watermark.postponed(from, -max.get)
    case _ => Long.MaxValue
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): CarriedValue =
    copy(value = children.head, time = children.lift(1))
}

/**
 * Whether a time of one side is at most the longest lifetime after a time of the other; if strict,
 * less than that.
 */
final private[streamjoin] case class WithinLifetime(
    left: Expression,
    right: Expression,
    micros: Long,
    strict: Boolean
) extends BinaryExpression
    with CodegenFallback
    with Predicate {
  override def prettyName: String = "within_lifetime"
  override def nullIntolerant: Boolean = true

  override def sql: String =
    s"(${left.sql} ${if (strict) "<" else "<="} ${right.sql} + $micros microseconds)"

  override protected def nullSafeEval(time: Any, from: Any): Any = {
    val (own, last) = (time.asInstanceOf[Long], Watermark.postponed(from.asInstanceOf[Long], -micros))
    if (strict) own < last else own <= last
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): WithinLifetime =
    copy(left = newLeft, right = newRight)
}
