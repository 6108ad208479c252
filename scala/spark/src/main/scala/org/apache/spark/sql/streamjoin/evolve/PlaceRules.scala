package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.streamjoin.checkpoint.OperatorPlace.Sparks
import org.apache.spark.sql.streamjoin.checkpoint.{Description, OperatorPlace}
import org.apache.spark.sql.streamjoin.watermark.{NewestTime, NewestTimes, Passed}

import streamjoin.core.{JoinType, Watermark}

/**
 * When an operator may be added to a running query or removed from it: what is above it must not
 * have seen rows of another query.
 *
 * {{{
 *   change                         rows in state     results
 *   an operator above all others   none              lack pairs with rows from before the change
 *   one that puts rows in order    none              exact
 *   the uppermost one removed      dropped           exact: rows that wait in it are not emitted
 * }}}
 *
 * A stateful operator of Spark's above one that is removed has received its output watermark, and
 * must not receive a lower one from the operator below.
 */
private[evolve] object PlaceRules {

  def placeOf(operator: Description): Option[OperatorPlace] = OperatorPlace.of(operator.properties)

  // Kept.

  /** The change if an operator would continue with the state of one over other inputs. */
  def moved(was: Description, is: Description): Option[Change] = for {
    before <- placeOf(was)
    now <- placeOf(is)
    // An input may have become a union with another one.
    if !before.marks.subsetOf(now.marks) && !now.marks.subsetOf(before.marks)
  } yield {
    def inWords(of: OperatorPlace) = s"those with the event times ${of.marks.toSeq.sorted.mkString(", ")}"
    Change("inputs", inWords(before), inWords(now), Effect.Rejected())
  }

  // Added.

  def added(operator: QueryOperator, query: QueryOperators, newest: NewestTimes): Change = {
    val places = placesOf(query.all.map(of => of.ordinal -> of.description))
    val above = (places.keySet - operator.ordinal).filter(isAbove(places, _, operator.ordinal))
    val effect =
      if (above.exists(query.recorded.contains) || (above + operator.ordinal).exists(places(_).isBelowSparks))
        Effect.Rejected(NotOnTop)
      else
        missing(operator, newest) match {
          case Effect.Unchanged(later, _) => Effect.Added(later)
          case other => other
        }
    Change(what(operator.ordinal), "none", inWords(operator.description), effect)
  }

  /** What results lack because the operator has not seen the rows from before it was added. */
  private def missing(operator: QueryOperator, newest: NewestTimes): Effect = {
    val times = operator.node.watermarks.map(newest.of)
    val passed = Passed(
      // A watermark without a newest time: it is not known.
      outputs = times.map(time => if (isKnown(time)) Watermark.Undefined else 0L),
      forSpark = Watermark.Undefined,
      newest = times.map {
        case NewestTime.At(micros) => micros
        case _ => Watermark.Undefined
      }
    )
    ChangeRules.added(
      new Comparison(operator.description, operator.description, () => Some(passed), () => Nil)
    ) match {
      case Effect.Unknown if times.contains(NewestTime.NeverKnown) => Effect.Rejected(OfSparks)
      case effect => effect
    }
  }

  private def isKnown(time: NewestTime): Boolean = time match {
    case NewestTime.NotKnown | NewestTime.NeverKnown => false
    case _ => true
  }

  // Removed.

  /** @param passed by ordinal: how far an operator had come, if that is recorded */
  def removed(ordinal: Int, query: QueryOperators, passed: => Map[Int, Passed]): Change = {
    val was = query.recorded(ordinal)
    val effect =
      if (was.takenOver.isDefined) Effect.Rejected(TakenOver)
      else if (query.recorded.values.exists(placeOf(_).isEmpty)) Effect.Unknown
      else removed(ordinal, query, placesOf(query.recorded.toSeq), passed.contains)
    Change(what(ordinal), inWords(was), "none", effect)
  }

  private def removed(
      ordinal: Int,
      query: QueryOperators,
      places: Map[Int, OperatorPlace],
      isPassed: Int => Boolean
  ): Effect =
    if (query.kept.exists(of => isAbove(places, of.ordinal, ordinal))) Effect.Rejected(NotUppermost)
    else if (!places(ordinal).isBelowSparks) Effect.Removed()
    else
      lowerOne(ordinal, query, places) match {
        case None => Effect.Rejected(NoneBelow)
        case Some(below) =>
          if (isPassed(ordinal) && isPassed(below)) Effect.Removed(floorOf = Some(below)) else Effect.Unknown
      }

  /**
   * The operator whose rows, and only they, reach what is above in place of those of the removed
   * one. Other rows could have a lower watermark.
   */
  private def lowerOne(
      ordinal: Int,
      query: QueryOperators,
      places: Map[Int, OperatorPlace]
  ): Option[Int] = for {
    below <- only(places(ordinal), query, places)
    operator <- query.get(below)
    now <- placeOf(operator.description)
    if places(ordinal).above == Sparks.Alone && now.above == Sparks.Alone
  } yield below

  private def only(
      place: OperatorPlace,
      query: QueryOperators,
      places: Map[Int, OperatorPlace]
  ): Option[Int] =
    Option.when(place.below.size == 1 && place.belowSparks.isEmpty)(place.below.head).flatMap { below =>
      if (query.removed.contains(below)) only(places(below), query, places) else Some(below)
    }

  // Both.

  private def placesOf(operators: Seq[(Int, Description)]): Map[Int, OperatorPlace] =
    operators.flatMap { case (ordinal, of) => placeOf(of).map(ordinal -> _) }.toMap

  private def isAbove(places: Map[Int, OperatorPlace], upper: Int, lower: Int): Boolean =
    places.get(upper).exists { place =>
      val below = place.below ++ place.belowSparks
      below(lower) || below.exists(isAbove(places, _, lower))
    }

  private def what(ordinal: Int): String = s"join ${ordinal + 1}"

  private def inWords(operator: Description): String = {
    val kind = operator.kind.replace('_', ' ')
    val joinType = operator.properties.get("join_type").flatMap(JoinType.named)
    joinType.fold(kind)(of => s"${of.name.replace('_', ' ')} $kind")
  }

  private val OrNew = "or start the new query with a new checkpoint location."

  private val NotOnTop =
    "Joins, aggregations and deduplications above it have already received the rows that it would join: add it above " +
      s"them, $OrNew"

  private val OfSparks =
    "It joins the results of an aggregation, and how far these have come is not recorded: join its input, or start the " +
      "new query with a new checkpoint location."

  private val NotUppermost = s"Joins above it have received its rows: remove them as well, $OrNew"

  private val NoneBelow =
    "An aggregation or deduplication above it continues, and would receive other rows than those of a single join " +
      s"below: keep the join, $OrNew"

  private val TakenOver =
    s"It has taken over the state of one of Spark's own joins, by which Spark knows it: keep the join, $OrNew"
}
