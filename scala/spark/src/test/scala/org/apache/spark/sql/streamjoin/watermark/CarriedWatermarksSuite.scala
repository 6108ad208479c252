package org.apache.spark.sql.streamjoin.watermark

import java.util.UUID

import org.scalatest.funsuite.AnyFunSuite

import streamjoin.core.{TimeBound, TimeBounds, Watermark}

/** How far active inputs carry the watermarks of idle ones. */
class CarriedWatermarksSuite extends AnyFunSuite {
  import ColumnWatermark._

  private def mark = WatermarkId(UUID.randomUUID(), 0)
  private val (o, d, e, r) = (mark, mark, mark, mark)
  private val known = Map(o -> 100L, d -> 50L, e -> 80L, r -> 70L)

  private def values(keyed: Map[WatermarkId, Long]) = new WatermarkValues(
    keyed.getOrElse(_, Watermark.Undefined),
    0L,
    _ => Watermark.Undefined
  )

  private def carried(idle: WatermarkId*)(operators: IndexedSeq[ColumnWatermark]*): Map[WatermarkId, Long] = {
    val received = operators.zipWithIndex.map { case (columns, ordinal) =>
      ReceivedWatermarks(ordinal, columns, ReceivedWatermarks.each(columns))
    }
    new CarriedWatermarks(received, idle.toSet).carried(known, values)
  }

  private def columns(all: ColumnWatermark*) = all.toIndexedSeq

  test("an idle input follows the lowest active one, and never goes back") {
    assert(carried(d)(columns(Marked(o), Marked(e), Marked(d))) == known + (d -> 80L))
    assert(carried(o)(columns(Marked(o), Marked(d))) == known)
    assert(carried()(columns(Marked(o), Marked(d))) == known)
  }

  test("if all inputs are idle, they follow the highest") {
    assert(carried(o, d)(columns(Marked(o), Marked(d))) == known + (d -> 100L))
  }

  test("an idle input is carried through a column that is shifted by a constant") {
    assert(carried(d)(columns(Marked(o), Shifted(10L, Marked(d)))) == known + (d -> 90L))
  }

  test("an idle input follows the times that its own are compared with, by the column that moves it least") {
    // The day of a time is up to 1000 before it, another column 500 after it.
    def day(of: WatermarkId) = Shifted(-1000L, Marked(of), 0L)
    def after(of: WatermarkId) = Shifted(500L, Marked(of))
    val all = columns(Marked(o), day(o), after(o), Marked(d), day(d), after(d))
    def carriedBy(compared: (Int, Int)*)(from: Map[WatermarkId, Long], idle: WatermarkId*) = {
      val both = (compared ++ compared.map(_.swap)).groupMap(_._1)(_._2).transform((_, keys) => keys.toSet)
      new CarriedWatermarks(Seq(ReceivedWatermarks(0, all, both)), idle.toSet).carried(from, values)
    }
    val followed = known + (d -> 100L)
    assert(carriedBy(0 -> 3)(known, d) == followed)
    assert(carriedBy(0 -> 3, 1 -> 4)(known, d) == followed, "the days are as far apart as the times")
    assert(carriedBy(0 -> 3, 0 -> 4)(known, d) == followed, "the day of d alone would move it ahead of o")
    assert(carriedBy(0 -> 3, 2 -> 3)(known, d) == followed)
    assert(carriedBy(0 -> 3, 0 -> 4, 2 -> 3)(known, o, d) == followed)
    assert(carriedBy(0 -> 3, 0 -> 4, 2 -> 3)(followed, o, d) == followed, "idle inputs stay where they are")
  }

  test("an idle branch follows its union's other branches, an idle union the side it is joined with") {
    val union = Smallest(Seq(Marked(d), Marked(e)))
    assert(carried(d)(columns(Marked(o), union)) == known + (d -> 80L))
    assert(carried(d, e)(columns(Marked(o), union)) == known + (d -> 100L) + (e -> 100L))
    assert(carried(d, e)(columns(union)) == known + (d -> 80L))
  }

  test("an input without a watermark carries no other input") {
    val silent = mark
    assert(carried(d)(columns(Marked(silent), Marked(d))) == known)
    assert(carried(silent)(columns(Marked(silent), Marked(d))) == known + (silent -> 50L))
    assert(carried(d)(columns(Marked(o), Unknown, Marked(d))) == known + (d -> 100L))
  }

  test("an idle input follows the inputs of its own join first, then those of the join above") {
    val join = columns(Marked(o), Marked(d))
    val bounds = new TimeBounds(Set(0), Set(1), Seq(TimeBound(0, 1, 10L), TimeBound(1, 0, 0L)))
    val above = columns(new OfJoin(join, bounds, 0, 0), new OfJoin(join, bounds, 1, 0), Marked(r))
    assert(carried(d)(join, above) == known + (d -> 100L))
    // The output of the lower join is held back by its bounds: 90 and 100.
    assert(carried(d, r)(join, above) == known + (d -> 100L) + (r -> 90L))
    assert(carried(o, d)(join, above) == known + (d -> 100L))
    assert(above.map(_.value(values(Map.empty))).forall(_ == Watermark.Undefined))
  }
}
