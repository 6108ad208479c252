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
 *   the newest time that has arrived
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
 */
final private[streamjoin] case class OutputFloor(from: Long, passed: Passed)

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
 */
final private[streamjoin] case class Gap(from: Long, key: Int, below: Long, completeFrom: Long)

/**
 * What a changed query has to know about the batches before, by ordinal of an operator.
 *
 * @param passed
 *   what each operator had passed with the batch before; empty if that batch did not record it
 */
final private[streamjoin] case class Continuity(
    passed: Map[Int, Passed] = Map.empty,
    floors: Map[Int, OutputFloor] = Map.empty,
    gaps: Map[Int, Seq[Gap]] = Map.empty
) {

  /** Without what an attempt at a batch, or at later ones, had recorded. */
  def before(batch: Long): Continuity = copy(
    floors = floors.filter(_._2.from < batch),
    gaps = gaps.transform((_, all) => all.filter(_.from < batch)).filter(_._2.nonEmpty)
  )

  /**
   * Adds floors; each of them replaces the floor that its operator has. That one came from an
   * earlier change, which stays if this one is abandoned, and so does the floor.
   */
  def withFloors(more: Map[Int, OutputFloor]): Continuity = copy(
    floors = floors ++ more.transform((ordinal, floor) =>
      floors.get(ordinal).fold(floor)(before => floor.copy(from = math.min(before.from, floor.from)))
    )
  )

  def withGaps(more: Map[Int, Seq[Gap]]): Continuity = copy(
    gaps = more.foldLeft(gaps) { case (all, (ordinal, added)) =>
      all.updated(ordinal, all.getOrElse(ordinal, Nil) ++ added)
    }
  )

  /**
   * After a batch: forgets the floors that every output watermark has passed, the gaps that are
   * closed, and what belongs to operators that the query no longer has.
   *
   * @param now
   *   what each operator has passed with the batch, without regard to floors
   */
  def after(now: Map[Int, Passed]): Continuity = {
    def hasReached(ordinal: Int, floor: Passed) = now.get(ordinal).exists { reached =>
      Continuity.isAtLeast(reached.outputs, floor.outputs) && reached.forSpark >= floor.forSpark &&
      Continuity.isAtLeast(reached.evicted, floor.evicted)
    }
    Continuity(
      now.map { case (ordinal, reached) =>
        ordinal -> floors.get(ordinal).fold(reached)(floor => Continuity.highest(reached, floor.passed))
      },
      floors.filter { case (ordinal, floor) => now.contains(ordinal) && !hasReached(ordinal, floor.passed) },
      gaps
        .filter { case (ordinal, _) => now.contains(ordinal) }
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
    gaps.getOrElse(ordinal, Nil).filterNot(gap => evicted.lift(gap.key).exists(_ >= gap.below))

  /** Whether an older version would ignore something that counts. */
  def isOfVersion2: Boolean = floors.nonEmpty || gaps.nonEmpty
}

private[streamjoin] object Continuity {
  val none: Continuity = Continuity()

  private def isAtLeast(some: Seq[Long], others: Seq[Long]): Boolean =
    others.indices.forall(key => some.lift(key).exists(_ >= others(key)))

  private def highest(some: Passed, others: Passed): Passed = {
    def of(all: Seq[Long], more: Seq[Long]) = all.zipAll(more, Watermark.Undefined, Watermark.Undefined).map {
      case (one, other) => math.max(one, other)
    }
    Passed(
      of(some.outputs, others.outputs),
      math.max(some.forSpark, others.forSpark),
      of(some.evicted, others.evicted),
      some.newest
    )
  }

  def toJson(entry: Continuity, root: ObjectNode): Unit = {
    if (entry.passed.nonEmpty) {
      val operators = root.putArray("passed")
      entry.passed.toSeq.sortBy(_._1).foreach { case (ordinal, passed) =>
        toJson(passed, operators.addObject().put("operator", ordinal))
      }
    }
    if (entry.floors.nonEmpty) {
      val operators = root.putArray("floors")
      entry.floors.toSeq.sortBy(_._1).foreach { case (ordinal, floor) =>
        toJson(floor.passed, operators.addObject().put("operator", ordinal).put("from", floor.from))
      }
    }
    if (entry.gaps.nonEmpty) {
      val operators = root.putArray("gaps")
      for ((ordinal, gaps) <- entry.gaps.toSeq.sortBy(_._1); gap <- gaps)
        operators
          .addObject()
          .put("operator", ordinal)
          .put("from", gap.from)
          .put("column", gap.key)
          .put("belowMicros", gap.below)
          .put("completeFromMicros", gap.completeFrom)
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
      operators("floors").map { case (ordinal, node) =>
        ordinal -> OutputFloor(node.path("from").asLong, passedFrom(node))
      }.toMap,
      operators("gaps").groupMap(_._1) { case (_, node) =>
        Gap(
          node.path("from").asLong,
          node.path("column").asInt,
          node.path("belowMicros").asLong,
          node.path("completeFromMicros").asLong
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

  private def time(node: JsonNode): Long = if (node.isNull) Watermark.Undefined else node.asLong
}
