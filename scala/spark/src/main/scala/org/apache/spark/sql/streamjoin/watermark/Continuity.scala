package org.apache.spark.sql.streamjoin.watermark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import streamjoin.core.Watermark

/**
 * How far an operator had come with a batch, in microseconds, by watermark key;
 * [[Watermark.Undefined]] where there is nothing yet.
 *
 * @param outputs
 *   its output watermarks: no later row of the operator has a lower time
 * @param forSpark
 *   the watermark that Spark's stateful operators above have received from it
 * @param evicted
 *   rows with a lower time have left its state
 * @param newest
 *   no later time has arrived
 */
final private[streamjoin] case class Passed(
    outputs: Seq[Long],
    forSpark: Long,
    evicted: Seq[Long] = Nil,
    newest: Seq[Long] = Nil
)

/**
 * An operator does not go back behind what it had passed when the query was changed. A row that it
 * emits below the floor is late for the operators above, which count it.
 *
 * @param from
 *   the first batch of the changed query
 * @param until
 *   the first batch of a later change, if another floor counts from then on
 */
final private[streamjoin] case class OutputFloor(from: Long, passed: Passed, until: Option[Long] = None)

/**
 * Matches that the results may lack after a change, because the rows were not kept before it.
 *
 * @param from
 *   the first batch of the changed query
 * @param key
 *   a watermark key of the operator
 * @param below
 *   the gap is closed once the operator evicts rows below this time of that column, in microseconds
 * @param completeFrom
 *   results are complete from this event time on, in microseconds
 * @param until
 *   the first batch of a later change, if other gaps count from then on
 */
final private[streamjoin] case class Gap(
    from: Long,
    key: Int,
    below: Long,
    completeFrom: Long,
    until: Option[Long] = None
)

/**
 * What a changed query has to know about the batches before, by ordinal of an operator.
 *
 * @param passed
 *   what each operator had passed with the batch before; empty if that batch did not record it
 */
final private[streamjoin] case class Continuity(
    passed: Map[Int, Passed] = Map.empty,
    floors: Map[Int, Seq[OutputFloor]] = Map.empty,
    gaps: Map[Int, Seq[Gap]] = Map.empty
) {

  /** Without what an attempt at a batch, or at later ones, had recorded. */
  def before(batch: Long): Continuity = copy(
    floors = floors
      .transform((_, all) =>
        all.filter(_.from < batch).map(floor => floor.copy(until = floor.until.filter(_ < batch)))
      )
      .filter(_._2.nonEmpty),
    gaps = gaps
      .transform((_, all) =>
        all.filter(_.from < batch).map(gap => gap.copy(until = gap.until.filter(_ < batch)))
      )
      .filter(_._2.nonEmpty)
  )

  /** The floor that counts for an operator. */
  def floor(ordinal: Int): Option[OutputFloor] = floors.get(ordinal).flatMap(_.find(_.until.isEmpty))

  /**
   * Adds floors; each of them replaces the floor that its operator has, which counts again if the
   * batch is abandoned.
   */
  def withFloors(more: Map[Int, OutputFloor]): Continuity = copy(
    floors = more.foldLeft(floors) { case (all, (ordinal, added)) =>
      val before = all.getOrElse(ordinal, Nil).map { floor =>
        if (floor.until.isEmpty) floor.copy(until = Some(added.from)) else floor
      }
      all.updated(ordinal, before :+ added)
    }
  )

  /**
   * Replaces the gaps of operators from a batch on, by what they are in a changed query. They count
   * again if the batch is abandoned.
   *
   * @param next
   *   given an operator and a gap: what it becomes, the same if it stays
   */
  def replacingGaps(batch: Long)(next: (Int, Gap) => Option[Gap]): Continuity = copy(
    gaps = gaps.transform((ordinal, all) =>
      all.flatMap { gap =>
        next(ordinal, gap) match {
          case Some(`gap`) => Seq(gap)
          case changed => gap.copy(until = Some(batch)) +: changed.map(_.copy(from = batch)).toSeq
        }
      }
    )
  )

  def withGaps(more: Map[Int, Seq[Gap]]): Continuity = copy(
    gaps = more.foldLeft(gaps) { case (all, (ordinal, added)) =>
      all.updated(ordinal, all.getOrElse(ordinal, Nil) ++ added)
    }
  )

  /**
   * After a batch: forgets the floors that every output watermark has passed, and the gaps that are
   * closed.
   *
   * @param now
   *   what each operator has passed with the batch, without regard to floors
   */
  def after(batch: Long, now: Map[Int, Passed]): Continuity = {
    def hasReached(ordinal: Int, floor: Passed) = now.get(ordinal).exists { reached =>
      Continuity.isAtLeast(reached.outputs, floor.outputs) && reached.forSpark >= floor.forSpark &&
      Continuity.isAtLeast(reached.evicted, floor.evicted)
    }
    // In the first batch of a changed query, what was passed before has the keys of the old one.
    def before(ordinal: Int) =
      floor(ordinal).filter(_.from == batch).map(_.passed).orElse(passed.get(ordinal))
    Continuity(
      now.map { case (ordinal, reached) =>
        val all = floor(ordinal).fold(reached)(floor => Continuity.highest(reached, floor.passed))
        // With a shorter delay, the newest time does not follow from the watermark.
        ordinal -> all.copy(newest =
          Continuity.highest(all.newest, before(ordinal).fold(Seq.empty[Long])(_.newest))
        )
      },
      floors.keys
        .flatMap(ordinal =>
          floor(ordinal).filterNot(floor => hasReached(ordinal, floor.passed)).map(ordinal -> Seq(_))
        )
        .toMap,
      gaps
        .transform((ordinal, _) => open(ordinal, now.get(ordinal).fold(Seq.empty[Long])(_.evicted)))
        .filter(_._2.nonEmpty)
    )
  }

  /**
   * The gaps of an operator that are open after a batch.
   *
   * @param evicted
   *   by watermark key, the eviction limits of the batch
   */
  def open(ordinal: Int, evicted: => Seq[Long]): Seq[Gap] =
    gaps
      .getOrElse(ordinal, Nil)
      .filter(gap => gap.until.isEmpty && !evicted.lift(gap.key).exists(_ >= gap.below))

  /** Whether an older version would ignore something that counts. */
  def isOfVersion2: Boolean = floors.nonEmpty || gaps.nonEmpty
}

private[streamjoin] object Continuity {
  val none: Continuity = Continuity()

  private def isAtLeast(some: Seq[Long], others: Seq[Long]): Boolean =
    others.indices.forall(key => some.lift(key).exists(_ >= others(key)))

  private def highest(some: Seq[Long], others: Seq[Long]): Seq[Long] =
    some.zipAll(others, Watermark.Undefined, Watermark.Undefined).map { case (one, other) =>
      math.max(one, other)
    }

  private def highest(some: Passed, others: Passed): Passed = Passed(
    highest(some.outputs, others.outputs),
    math.max(some.forSpark, others.forSpark),
    highest(some.evicted, others.evicted),
    some.newest
  )

  def toJson(entry: Continuity, root: ObjectNode): Unit = {
    if (entry.passed.nonEmpty) {
      val operators = root.putArray("passed")
      entry.passed.toSeq.sortBy(_._1).foreach { case (ordinal, passed) =>
        toJson(passed, operators.addObject().put("operator", ordinal))
      }
    }
    if (entry.floors.nonEmpty) {
      val operators = root.putArray("floors")
      for ((ordinal, floors) <- entry.floors.toSeq.sortBy(_._1); floor <- floors) {
        val node = operators.addObject().put("operator", ordinal).put("from", floor.from)
        floor.until.foreach(node.put("until", _))
        toJson(floor.passed, node)
      }
    }
    if (entry.gaps.nonEmpty) {
      val operators = root.putArray("gaps")
      for ((ordinal, gaps) <- entry.gaps.toSeq.sortBy(_._1); gap <- gaps) {
        val node = operators
          .addObject()
          .put("operator", ordinal)
          .put("from", gap.from)
          .put("column", gap.key)
          .put("belowMicros", gap.below)
          .put("completeFromMicros", gap.completeFrom)
        gap.until.foreach(node.put("until", _))
      }
    }
  }

  private def toJson(passed: Passed, node: ObjectNode): Unit = {
    def times(name: String, all: Seq[Long]): Unit = if (all.nonEmpty) {
      val array = node.putArray(name)
      all.foreach(time => if (time == Watermark.Undefined) array.addNull() else array.add(time))
    }
    times("outputMicros", passed.outputs)
    Some(passed.forSpark).filter(_ != Watermark.Undefined).foreach(node.put("forSparkMicros", _))
    times("evictedMicros", passed.evicted)
    times("newestMicros", passed.newest)
  }

  def fromJson(root: JsonNode): Continuity = {
    def operators(name: String) =
      root.path(name).elements().asScala.toSeq.map(node => node.path("operator").asInt -> node)
    Continuity(
      operators("passed").map { case (ordinal, node) => ordinal -> passedFrom(node) }.toMap,
      operators("floors").groupMap(_._1) { case (_, node) =>
        OutputFloor(node.path("from").asLong, passedFrom(node), until(node))
      },
      operators("gaps").groupMap(_._1) { case (_, node) =>
        Gap(
          node.path("from").asLong,
          node.path("column").asInt,
          node.path("belowMicros").asLong,
          node.path("completeFromMicros").asLong,
          until(node)
        )
      }
    )
  }

  private def passedFrom(node: JsonNode): Passed = {
    def times(name: String) = node.path(name).elements().asScala.map(time).toSeq
    Passed(
      times("outputMicros"),
      Option(node.get("forSparkMicros")).fold(Watermark.Undefined)(time),
      times("evictedMicros"),
      times("newestMicros")
    )
  }

  private def until(node: JsonNode): Option[Long] = Option(node.get("until")).map(_.asLong)

  private def time(node: JsonNode): Long = if (node.isNull) Watermark.Undefined else node.asLong
}
