package org.apache.spark.sql.streamjoin.evolve

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.node.ArrayNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.streamjoin.time.DurationText

import streamjoin.core.{Side, TimeBound, TimeBounds}

/**
 * What the rows of an interval join mean, for machines: recorded next to the text of its condition,
 * in the description of the operator.
 *
 * @param times
 *   names of the event-time columns, by watermark key
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
 * @param carried
 *   keys of values that rows carry and by which they expire, after the watermark keys
 */
final private[streamjoin] case class RecordedInterval(
    times: Seq[String],
    sides: Seq[Side],
    windows: Seq[Int],
    bounds: Seq[TimeBound],
    only: Map[Side, Seq[String]],
    pair: Seq[String],
    routing: String,
    equalities: Seq[String],
    carried: Seq[Int] = Nil
) {
  import RecordedInterval._

  def bound(out: Int, in: Int): Option[TimeBound] = bounds.find(bound => bound.out == out && bound.in == in)

  /** The watermark keys by which the rows of a side expire; the first decides their bucket. */
  def expiring(side: Side): Seq[Int] =
    TimeBounds.bounded(bounds, sides(_) == side, carried.contains)

  /** The layout of the rows in state, as far as bounds decide it. */
  def layout: Any = (
    Side.both.map(expiring),
    windows.filter(key => bounds.exists(bound => bound.out == key || bound.in == key))
  )

  /** A bound as a user would write it. */
  def inWords(bound: TimeBound): String = {
    val (in, out) = (times(bound.in), times(bound.out))
    if (bound.postpone == 0) s"$in <= $out"
    else s"$in <= $out ${if (bound.postpone > 0) "+" else "-"} ${DurationText.of(math.abs(bound.postpone))}"
  }

  def properties: Map[String, String] = Map(
    Times -> texts(times),
    Sides -> texts(sides.map(_.name)),
    Windows -> numbers(windows.map(_.toLong)).toString,
    Bounds -> {
      val all = mapper.createArrayNode()
      bounds.foreach(bound => all.add(numbers(Seq(bound.out.toLong, bound.in.toLong, bound.postpone))))
      all.toString
    },
    Pair -> texts(pair),
    Route -> routing,
    Equalities -> texts(equalities)
  ) ++ Side.both.map(side => conditionOf(side) -> texts(only(side))) ++
    Option.when(carried.nonEmpty)(Carried -> numbers(carried.map(_.toLong)).toString)
}

private[streamjoin] object RecordedInterval {
  private val mapper = new ObjectMapper

  /** What decides how long rows are kept by a value that they carry. */
  val CarriedBounds = "carried_bounds"

  private val Times = "time_columns"
  private val Sides = "time_sides"
  private val Windows = "time_windows"
  private val Bounds = "bounds_micros"
  private val Pair = "pair_condition"
  private val Route = "routing"
  private val Equalities = "equalities"
  private val Carried = "carried_times"
  private def conditionOf(side: Side) = s"${side.name}_condition"

  /** None if an older version has recorded the join. */
  def of(properties: Map[String, String]): Option[RecordedInterval] = Try {
    RecordedInterval(
      elements(properties(Times)).map(_.asText),
      elements(properties(Sides)).map(side => Side.both.find(_.name == side.asText).get),
      elements(properties(Windows)).map(_.asInt),
      elements(properties(Bounds)).map(bound =>
        TimeBound(bound.path(0).asInt, bound.path(1).asInt, bound.path(2).asLong)
      ),
      Side.both.map(side => side -> elements(properties(conditionOf(side))).map(_.asText)).toMap,
      elements(properties(Pair)).map(_.asText),
      properties(Route),
      properties.get(Equalities).toSeq.flatMap(elements).map(_.asText),
      properties.get(Carried).toSeq.flatMap(elements).map(_.asInt)
    )
  }.toOption

  private def elements(text: String): Seq[JsonNode] = mapper.readTree(text).elements().asScala.toSeq

  private def texts(all: Seq[String]): String = {
    val array = mapper.createArrayNode()
    all.foreach(array.add)
    array.toString
  }

  private def numbers(all: Seq[Long]): ArrayNode = {
    val array = mapper.createArrayNode()
    all.foreach(array.add(_))
    array
  }
}
