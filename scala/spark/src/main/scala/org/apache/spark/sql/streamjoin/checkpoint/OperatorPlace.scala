package org.apache.spark.sql.streamjoin.checkpoint

import scala.util.Try

/**
 * Where an operator is in its query: a property of its description, by which it is found again if
 * others were added to the query, or removed.
 *
 * @param marks
 *   the event-time columns from which all of its watermarks come, each by its source's name or by
 *   its position
 * @param below
 *   ordinals of our nearest operators below it
 * @param belowSparks
 *   ordinals of our nearest operators below a stateful operator of Spark's that is below it
 * @param above
 *   the nearest stateful operator above it, if that is one of Spark's
 */
final private[streamjoin] case class OperatorPlace(
    marks: Set[String],
    below: Set[Int],
    belowSparks: Set[Int],
    above: OperatorPlace.Sparks
) {
  import OperatorPlace._

  def isBelowSparks: Boolean = above != Sparks.None

  /** With other ordinals. */
  def renumbered(number: Int => Int): OperatorPlace =
    copy(below = below.map(number), belowSparks = belowSparks.map(number))

  def properties: Map[String, String] = {
    val root = JsonProperty.newObject()
    JsonProperty.putTexts(root, Marks, marks.toSeq.sorted)
    JsonProperty.putNumbers(root, Below, below.toSeq.sorted)
    JsonProperty.putNumbers(root, BelowSparks, belowSparks.toSeq.sorted)
    Map(Property -> root.put(Above, above.name).toString)
  }
}

private[streamjoin] object OperatorPlace {
  private val Property = "place"

  private val Marks = "event_times"
  private val Below = "operators_below"
  private val BelowSparks = "operators_below_sparks"
  private val Above = "sparks_above"

  /** A stateful operator of Spark's right above an operator of streamjoin. */
  sealed abstract class Sparks(val name: String)

  object Sparks {
    case object None extends Sparks("none")

    /** It receives the rows of that operator alone. */
    case object Alone extends Sparks("alone")

    /** It receives other rows as well, with their watermarks. */
    case object Shared extends Sparks("shared")

    val all: Seq[Sparks] = Seq(None, Alone, Shared)
  }

  /** None if an older version has recorded the operator. */
  def of(properties: Map[String, String]): Option[OperatorPlace] = Try {
    val root = JsonProperty.read(properties(Property))
    def elements(name: String) = JsonProperty.elements(root.path(name)).toSet
    OperatorPlace(
      elements(Marks).map(_.asText),
      elements(Below).map(_.asInt),
      elements(BelowSparks).map(_.asInt),
      Sparks.all.find(_.name == root.path(Above).asText).get
    )
  }.toOption
}
