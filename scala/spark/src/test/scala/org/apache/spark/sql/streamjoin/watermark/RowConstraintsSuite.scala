package org.apache.spark.sql.streamjoin.watermark

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.{ExprId, NamedExpression}

/** What follows from the known constraints between the times of a row. */
class RowConstraintsSuite extends AnyFunSuite {
  private def column: ExprId = NamedExpression.newExprId
  private val (a, b, c, d) = (column, column, column, column)

  private def bound(out: ExprId, in: ExprId, postpone: Long) = RowConstraint(out, in, postpone, Nil)

  private def closed(present: ExprId*)(known: RowConstraint*): Map[(ExprId, ExprId), Long] =
    RowConstraints(known, Set.empty).closed(present.toSet).all.map(c => (c.out, c.in) -> c.postpone).toMap

  test("a constraint follows through a third time, by the tightest path") {
    // a >= b - 1, b >= c - 2, c >= d - 3, and a looser path straight from a to d
    val all = closed(b, c)(bound(a, b, 1), bound(b, c, 2), bound(c, d, 3), bound(a, d, 7))
    assert(all((a, c)) == 3 && all((b, d)) == 5 && all((a, d)) == 6)
  }

  test("no constraint follows through a time that may be null") {
    assert(!closed()(bound(a, b, 1), bound(b, c, 2)).contains((a, c)))
    assert(
      closed(c)(bound(a, b, 1), bound(b, c, 2), bound(c, d, 3)).keySet == Set((a, b), (b, c), (c, d), (b, d))
    )
  }

  test("circular constraints terminate") {
    val circle = Seq(bound(a, b, 1), bound(b, a, 1))
    assert(closed(a, b)(circle: _*) == Map((a, b) -> 1L, (b, a) -> 1L))
    val tied = closed(a, b, c)(circle ++ Seq(bound(b, c, 5), bound(c, b, 5)): _*)
    assert(tied((a, c)) == 6 && tied((b, c)) == 5 && tied((c, a)) == 6)
  }

  test("a constraint whose sum overflows a Long is dropped") {
    assert(!closed(b)(bound(a, b, Long.MaxValue), bound(b, c, 1)).contains((a, c)))
  }
}
