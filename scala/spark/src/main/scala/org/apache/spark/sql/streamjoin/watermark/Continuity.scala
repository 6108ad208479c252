package org.apache.spark.sql.streamjoin.watermark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import streamjoin.core.{TimeBound, Watermark}

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
 *   no later time has arrived; `Long.MaxValue` if that is not recorded
 * @param known
 *   constraints between the times of each row of an input; none if an older version did not record
 *   them
 */
final private[streamjoin] case class Passed(
    outputs: Seq[Long],
    forSpark: Long,
    evicted: Seq[Long] = Nil,
    newest: Seq[Long] = Nil,
    known: Option[Seq[TimeBound]] = None
)

/**
 * What a changed query has to know about the batches before, by ordinal of an operator.
 *
 * @param passed
 *   what each operator had passed with the batch before; empty if that batch did not record it
 * @param kept
 *   of operators that keep rows from before a change
 */
final private[streamjoin] case class Continuity(
    passed: Map[Int, Passed] = Map.empty,
    floors: Map[Int, Seq[OutputFloor]] = Map.empty,
    gaps: Map[Int, Seq[Gap]] = Map.empty,
    kept: Map[Int, Seq[WeakerConstraints]] = Map.empty
) {
  import Continuity._

  /** Without what an attempt at a batch, or at later ones, had recorded. */
  def before(batch: Long): Continuity = copy(
    floors = each(floors)(_.flatMap(_.before(batch))),
    gaps = each(gaps)(_.flatMap(_.before(batch))),
    kept = each(kept)(_.flatMap(_.before(batch)))
  )

  /** The floor that counts for an operator. */
  def floor(ordinal: Int): Option[OutputFloor] = floors.getOrElse(ordinal, Nil).find(_.counts)

  /** By ordinal: by how much constraints are weaker; none if they do not hold. */
  def weaker: Map[Int, Map[(Int, Int), Option[Long]]] = each(kept)(_.filter(_.counts)).transform { (_, all) =>
    all.flatMap(_.by).groupMapReduce(_._1)(_._2)((one, other) => one.zip(other).map { case (a, b) => a + b })
  }

  /** Adds floors; each of them replaces the floor that its operator has. */
  def withFloors(more: Map[Int, OutputFloor]): Continuity = copy(
    floors = more.foldLeft(floors) { case (all, (ordinal, added)) =>
      val before =
        all.getOrElse(ordinal, Nil).map(floor => if (floor.counts) floor.replacedFrom(added.from) else floor)
      all.updated(ordinal, before :+ added)
    }
  )

  def withGaps(more: Map[Int, Seq[Gap]]): Continuity = copy(gaps = both(gaps, more))

  def withKept(more: Map[Int, Seq[WeakerConstraints]]): Continuity = copy(kept = both(kept, more))

  /**
   * Replaces gaps from a batch on.
   *
   * @param next
   *   given an operator and a gap: what it is in the changed query, the same if it stays
   */
  def replacingGaps(batch: Long)(next: (Int, Gap) => Option[Gap]): Continuity = copy(
    gaps = replacing(batch, gaps)(next)(_.copy(from = batch))
  )

  /** Replaces what is known of kept rows. */
  def replacingKept(
      batch: Long
  )(next: (Int, WeakerConstraints) => Option[WeakerConstraints]): Continuity =
    copy(kept = replacing(batch, kept)(next)(_.copy(from = batch)))

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
    def keptAfter(ordinal: Int, rows: WeakerConstraints) = rows.key.fold(Option(rows)) { key =>
      def time(of: Passed => Seq[Long]) =
        now.get(ordinal).flatMap(of(_).lift(key)).filter(_ != Watermark.Undefined)
      rows.after(time(_.evicted), time(_.newest), areMoreBelow(ordinal))
    }
    def left[A](all: Map[Int, Seq[A]])(of: (Int, Seq[A]) => Seq[A]) =
      each(all.filter { case (ordinal, _) => now.contains(ordinal) }.transform(of))(identity)
    Continuity(
      now.map { case (ordinal, reached) =>
        ordinal -> floor(ordinal).fold(reached)(floor => highest(reached, floor.passed))
      },
      left(floors) { (ordinal, all) =>
        all.filter(floor => floor.counts && !hasReached(ordinal, floor.passed))
      },
      left(gaps)((ordinal, _) => open(ordinal, now(ordinal).evicted)),
      left(kept)((ordinal, all) => all.filter(_.counts).flatMap(keptAfter(ordinal, _)))
    )
  }

  /** Whether an operator below may still emit such rows: it has a lower ordinal. */
  def areMoreBelow(ordinal: Int): Boolean =
    kept.exists { case (other, all) => other < ordinal && all.exists(_.counts) }

  /**
   * The gaps of an operator that are open after a batch.
   *
   * @param evicted
   *   by watermark key, the eviction limits of the batch
   */
  def open(ordinal: Int, evicted: => Seq[Long]): Seq[Gap] =
    gaps
      .getOrElse(ordinal, Nil)
      .filter(gap => gap.counts && !evicted.lift(gap.key).exists(_ >= gap.below))

  /** Whether an older version would ignore something that counts. */
  def isOfVersion2: Boolean = floors.nonEmpty || gaps.nonEmpty || kept.nonEmpty
}

private[streamjoin] object Continuity {
  val none: Continuity = Continuity()

  /** Newest times are known to the millisecond. */
  val ToMillisecond = 1000L

  private def each[A](all: Map[Int, Seq[A]])(change: Seq[A] => Seq[A]): Map[Int, Seq[A]] =
    all.transform((_, some) => change(some)).filter(_._2.nonEmpty)

  private def both[A](all: Map[Int, Seq[A]], more: Map[Int, Seq[A]]): Map[Int, Seq[A]] =
    more.foldLeft(all) { case (known, (ordinal, added)) =>
      known.updated(ordinal, known.getOrElse(ordinal, Nil) ++ added)
    }

  private def replacing[A <: OfChange[A]](batch: Long, all: Map[Int, Seq[A]])(
      next: (Int, A) => Option[A]
  )(beginning: A => A): Map[Int, Seq[A]] = all.transform { (ordinal, some) =>
    some.flatMap { one =>
      next(ordinal, one) match {
        case _ if !one.counts => Seq(one)
        case Some(`one`) => Seq(one)
        case changed => one.replacedFrom(batch) +: changed.map(beginning).toSeq
      }
    }
  }

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
    some.newest,
    some.known
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
    if (entry.kept.nonEmpty) {
      val operators = root.putArray("kept")
      for ((ordinal, all) <- entry.kept.toSeq.sortBy(_._1); rows <- all)
        toJson(rows, operators.addObject().put("operator", ordinal))
    }
  }

  private def toJson(rows: WeakerConstraints, node: ObjectNode): Unit = {
    node.put("from", rows.from)
    rows.key.foreach(node.put("column", _))
    rows.below.foreach(node.put("belowMicros", _))
    rows.until.foreach(node.put("until", _))
    val constraints = node.putArray("weaker")
    rows.by.toSeq.sortBy(_._1).foreach { case ((out, in), by) =>
      val pair = constraints.addArray().add(out).add(in)
      by.fold(pair.addNull())(pair.add(_)): Unit
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
    passed.known.foreach { known =>
      val constraints = node.putArray("constraints")
      known.foreach(one => constraints.addArray().add(one.out).add(one.in).add(one.postpone))
    }
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
      },
      operators("kept").groupMap(_._1) { case (_, node) => keptFrom(node) }
    )
  }

  private def keptFrom(node: JsonNode): WeakerConstraints = WeakerConstraints(
    node.path("from").asLong,
    Option(node.get("column")).map(_.asInt),
    Option(node.get("belowMicros")).map(_.asLong),
    node
      .path("weaker")
      .elements()
      .asScala
      .map { pair =>
        (pair.path(0).asInt, pair.path(1).asInt) -> Option.unless(pair.path(2).isNull)(pair.path(2).asLong)
      }
      .toMap,
    until(node)
  )

  private def passedFrom(node: JsonNode): Passed = {
    def times(name: String) = node.path(name).elements().asScala.map(time).toSeq
    Passed(
      times("outputMicros"),
      Option(node.get("forSparkMicros")).fold(Watermark.Undefined)(time),
      times("evictedMicros"),
      times("newestMicros"),
      Option(node.get("constraints")).map(_.elements().asScala.toSeq.map { one =>
        TimeBound(one.path(0).asInt, one.path(1).asInt, one.path(2).asLong)
      })
    )
  }

  private def until(node: JsonNode): Option[Long] = Option(node.get("until")).map(_.asLong)

  private def time(node: JsonNode): Long = if (node.isNull) Watermark.Undefined else node.asLong
}
