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

  private def carried(idle: WatermarkId*)(operators: IndexedSeq[ColumnWatermark]*): Map[WatermarkId, Long] =
    new CarriedWatermarks(operators.zipWithIndex.map(_.swap), idle.toSet).carried(known, values)

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
