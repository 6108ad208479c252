package org.apache.spark.sql.streamjoin.evolve

import scala.util.Try

import org.apache.spark.sql.streamjoin.checkpoint.JsonProperty
import org.apache.spark.sql.streamjoin.time.DurationText

import streamjoin.core.{Side, TimeBound, TimeBounds}

/**
 * What the rows of an interval join mean, for machines: recorded next to the text of its condition,
 * in the description of the operator.
 *
 * @param names
 *   names of the event-time columns, by watermark key ([[TimeNames]])
 * @param times
 *   the same columns for users, then the values that rows carry
 * @param sides
 *   by watermark key
 * @param windows
 *   watermark keys of columns that are windows: what is stored for them is computed
 * @param bounds
 *   the tightest bound of each pair of columns
 * @param only
 *   conjuncts of the condition on one side alone
 * @param pair
 *   the other conjuncts that are no bounds
 * @param routing
 *   how rows get to their task
 * @param equalities
 *   the equalities by which rows are stored and found
 * @param values
 *   the values that rows carry and by which they expire, at most one of a side
 */
final private[streamjoin] case class RecordedInterval(
    names: Seq[String],
    times: Seq[String],
    sides: Seq[Side],
    windows: Seq[Int],
    bounds: Seq[TimeBound],
    only: Map[Side, Seq[String]],
    pair: Seq[String],
    routing: String,
    equalities: Seq[String],
    values: Seq[RecordedValue] = Nil
) {
  import JsonProperty.{numbers, texts}
  import RecordedInterval._

  /**
   * @param columns
   *   names of the event-time columns
   * @param ofValues
   *   names of the columns of each value
   */
  def named(columns: Seq[String], ofValues: Seq[Seq[String]]): RecordedInterval =
    copy(columns, values = values.zip(ofValues).map { case (value, names) => value.copy(columns = names) })

  /** The number of event-time columns. */
  def columns: Int = times.size - values.size

  def value(side: Side): Option[RecordedValue] = values.find(value => sides(value.key) == side)

  /** The bound by such a value. */
  def boundOf(value: RecordedValue): TimeBound = bounds.find(_.out == value.key).get

  /** Whether a bound follows from the longest lifetime of rows that carry a value. */
  def isLifetime(bound: TimeBound): Boolean =
    values.exists(value => value.time.contains(bound.out) && boundOf(value).in == bound.in)

  def bound(out: Int, in: Int): Option[TimeBound] = bounds.find(bound => bound.out == out && bound.in == in)

  /** The watermark keys by which the rows of a side expire; the first decides their bucket. */
  def expiring(side: Side): Seq[Int] =
    TimeBounds.bounded(bounds, sides(_) == side, key => values.exists(_.key == key))

  /**
   * The first event-time column by which the rows of a side expire. None if only the values that
   * they carry decide when they leave.
   */
  def expiringColumn(side: Side): Option[Int] = expiring(side).find(_ < columns)

  /** Whether a row with a null there can match nothing. */
  def compares(key: Int): Boolean = bounds.exists(bound => bound.out == key || bound.in == key)

  /** How much later than a row its last match can be, in microseconds. */
  def reach(out: Int): Long = bounds.filter(_.out == out).map(_.postpone).max

  /** A bound as a user would write it. */
  def inWords(bound: TimeBound): String = {
    val (in, out) = (times(bound.in), times(bound.out))
    if (bound.postpone == 0) s"$in <= $out"
    else s"$in <= $out ${if (bound.postpone > 0) "+" else "-"} ${DurationText.of(math.abs(bound.postpone))}"
  }

  def inWords(value: RecordedValue): String = inWords(boundOf(value)) + value.inWords(times)

  def properties: Map[String, String] = TimeNames.properties(names) ++ Map(
    Times -> texts(times),
    Sides -> texts(sides.map(_.name)),
    Windows -> numbers(windows.map(_.toLong)),
    Bounds -> bounds
      .map(bound => numbers(Seq(bound.out.toLong, bound.in.toLong, bound.postpone)))
      .mkString("[", ",", "]"),
    Pair -> texts(pair),
    Route -> routing
  ) ++ Equalities.properties(equalities) ++ Side.both.map(side => conditionOf(side) -> texts(only(side))) ++
    Option.when(values.nonEmpty)(Values -> values.map(_.json).mkString("[", ",", "]"))
}

private[streamjoin] object RecordedInterval {
  import JsonProperty.elements

  /** What decides how long rows are kept by a value that they carry. */
  val CarriedBounds = "carried_bounds"

  private val Times = "time_columns"
  private val Sides = "time_sides"
  private val Windows = "time_windows"
  private val Bounds = "bounds_micros"
  private val Pair = "pair_condition"
  private val Route = "routing"
  private val Values = "carried_values"
  private def conditionOf(side: Side) = s"${side.name}_condition"

  /** None if an older version has recorded the join. */
  def of(properties: Map[String, String]): Option[RecordedInterval] = Try {
    def all(name: String) = elements(properties(name))
    RecordedInterval(
      TimeNames.of(properties).get,
      all(Times).map(_.asText),
      all(Sides).map(side => Side.both.find(_.name == side.asText).get),
      all(Windows).map(_.asInt),
      all(Bounds).map(bound => TimeBound(bound.path(0).asInt, bound.path(1).asInt, bound.path(2).asLong)),
      Side.both.map(side => side -> all(conditionOf(side)).map(_.asText)).toMap,
      all(Pair).map(_.asText),
      properties(Route),
      Equalities.of(properties).getOrElse(Nil),
      if (properties.contains(CarriedBounds)) all(Values).map(RecordedValue.of) else Nil
    )
  }.toOption
}
