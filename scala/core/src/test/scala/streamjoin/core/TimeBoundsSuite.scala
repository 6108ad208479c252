package streamjoin.core

import org.scalatest.funsuite.AnyFunSuite

class TimeBoundsSuite extends AnyFunSuite {

  private val Undefined = Watermark.Undefined

  /** `right BETWEEN left - 1 AND left + 4`: left is key 0, right key 1. */
  private val simple = new TimeBounds(Set(0), Set(1), Seq(TimeBound(0, 1, 4), TimeBound(1, 0, 1)))

  /**
   * The second join of the Hazelcast document: orders (0) and deliveries (1) on the left, returns
   * (2) on the right.
   */
  private val chain = new TimeBounds(
    Set(0, 1),
    Set(2),
    Seq(TimeBound(2, 1, 1), TimeBound(1, 2, 4)),
    Seq(TimeBound(0, 1, 3), TimeBound(1, 0, 1))
  )

  private def watermarks(values: (Int, Long)*): Int => Long = values.toMap.getOrElse(_, Undefined)

  test("the postpone map has an entry for every key") {
    assert(simple.postponeMap == Map(0 -> Seq(1 -> 1L), 1 -> Seq(0 -> 4L)))
    assert(chain.postponeMap == Map(0 -> Nil, 1 -> Seq(2 -> 1L), 2 -> Seq(1 -> 4L)))
    assert(chain.bounded(Side.Left) == Seq(1))
    assert(chain.bounded(Side.Right) == Seq(2))
    assert(chain.keys(Side.Left) == Set(0, 1))
    assert(chain.keys(Side.Right) == Set(2))
  }

  test("of several bounds on a pair of keys, the one with the smallest postpone time counts") {
    val several =
      Seq(TimeBound(0, 1, 9), TimeBound(0, 1, 4), TimeBound(1, 0, 7), TimeBound(0, 1, 5), TimeBound(1, 0, -2))
    assert(TimeBounds.tightest(several) == Seq(TimeBound(0, 1, 4), TimeBound(1, 0, -2)))
  }

  test("an input without a bound is rejected, and the error names the input") {
    Seq(
      Seq(TimeBound(1, 0, 1)) -> Side.Left,
      Seq(TimeBound(0, 1, 4)) -> Side.Right,
      Nil -> Side.Left
    ).foreach { case (bounds, side) =>
      val error = intercept[UnboundedJoin](new TimeBounds(Set(0), Set(1), bounds))
      assert(error.side == side)
      assert(error.getMessage.contains(s"${side.name}.time >= ${side.other.name}.time - constant"))
      assert(error.getMessage.contains(s"rows of the ${side.name} input"))
    }
  }

  test("a constraint does not bound an input") {
    val error = intercept[UnboundedJoin] {
      new TimeBounds(Set(0, 1), Set(2), Seq(TimeBound(2, 1, 1)), Seq(TimeBound(0, 1, 3)))
    }
    assert(error.side == Side.Left)
  }

  test("bounds must tie both inputs, constraints two keys of one input, and a key has one input") {
    def message(made: => TimeBounds) = intercept[IllegalArgumentException](made).getMessage
    assert(
      message(new TimeBounds(Set(0, 1), Set(2), Seq(TimeBound(0, 1, 3))))
        .contains("ties one input to the other")
    )
    assert(message(new TimeBounds(Set(0), Set(1), Seq(TimeBound(0, 7, 3)))).contains("seen TimeBound(0,7,3)"))
    assert(message(new TimeBounds(Set(0), Set(0, 1), Nil)).contains("seen on both: Set(0)"))
    assert(
      message(new TimeBounds(Set(0), Set(1), simple.tightest, Seq(TimeBound(0, 1, 3))))
        .contains("two keys of one input")
    )
  }

  test("an eviction limit is the other side's watermark, postponed; the largest of several counts") {
    assert(simple.evictionLimit(0, watermarks(1 -> 10)) == 6)
    assert(simple.evictionLimit(1, watermarks(0 -> 10)) == 9)
    assert(simple.evictionLimit(0, watermarks(0 -> 10)) == Undefined)
    val two =
      new TimeBounds(Set(0), Set(1, 2), Seq(TimeBound(0, 1, 4), TimeBound(0, 2, 1), TimeBound(1, 0, 0)))
    assert(two.evictionLimit(0, watermarks(1 -> 10, 2 -> 6)) == 6)
    assert(two.evictionLimit(0, watermarks(1 -> 10, 2 -> 8)) == 7)
    assert(two.evictionLimit(0, watermarks(2 -> 8)) == 7)
    assert(two.evictionLimit(2, watermarks(0 -> 8, 1 -> 8)) == Undefined, "no bound limits key 2")
  }

  test("the output watermark is the lower of the received one and the eviction limit") {
    assert(simple.output(0, watermarks(0 -> 8, 1 -> 10)) == 6)
    assert(simple.output(0, watermarks(0 -> 5, 1 -> 10)) == 5)
    assert(simple.output(1, watermarks(0 -> 8, 1 -> 10)) == 7)
    assert(simple.output(0, watermarks(0 -> 8)) == Undefined)
    assert(simple.output(0, watermarks(1 -> 8)) == Undefined)
  }

  test("a key without a bound gets its limit from the constraints of its rows") {
    assert(chain.output(0, watermarks(0 -> 103, 1 -> 102, 2 -> 110)) == 103)
    assert(chain.output(0, watermarks(0 -> 104, 1 -> 102, 2 -> 110)) == 103, "106 - 3")
    assert(chain.output(0, watermarks(0 -> 104, 1 -> 102)) == Undefined)
    val without = new TimeBounds(chain.left, chain.right, chain.tightest)
    assert(without.output(0, watermarks(0 -> 103, 1 -> 102, 2 -> 110)) == Undefined)
  }

  test("of several constraints the tightest one counts, if it ends at a bounded key") {
    val reached = new TimeBounds(
      Set(0, 1, 2, 3),
      Set(4),
      Seq(TimeBound(2, 4, 20), TimeBound(3, 4, 10), TimeBound(4, 3, 0)),
      Seq(TimeBound(0, 2, 1), TimeBound(0, 3, 7), TimeBound(1, 0, 1))
    )
    val at100 = watermarks((0 to 4).map(_ -> 100L): _*)
    assert(
      (0 to 3).map(reached.output(_, at100)) == Seq(83, Undefined, 80, 90),
      "key 1 is tied to key 0 alone"
    )
    assert((0 to 3).map(reached.reaching(_).map(_.in)) == Seq(Seq(2, 3), Nil, Nil, Nil))
  }

  /** `b.t BETWEEN a.t AND a.end`, with the keys 1, 0 and 2: the end is carried by the rows. */
  private val carried =
    new TimeBounds(Set(0, 2), Set(1), Seq(TimeBound(2, 1, 0), TimeBound(1, 0, 0)), carried = Set(2))

  test("a carried value expires its row by the other side's watermark, and no other row") {
    val at = watermarks(0 -> 50L, 1 -> 70L)
    assert(carried.evictionLimit(2, at) == 70)
    assert(carried.evictionLimit(1, at) == 50)
    assert(carried.evictionLimit(0, at) == Undefined)
    assert(carried.bounded(Side.Left) == Seq(2))
    assert(carried.lowestNeeded(Side.Left) == Set(0) && carried.lowestNeeded(Side.Right).isEmpty)
    val both = new TimeBounds(
      Set(0, 2),
      Set(1),
      Seq(TimeBound(2, 1, 0), TimeBound(0, 1, 30), TimeBound(1, 0, 0)),
      carried = Set(2)
    )
    assert(both.bounded(Side.Left) == Seq(2, 0), "rows are bucketed by the value")
  }

  test("rows with a carried value hold the output watermark of their event time back") {
    val at = watermarks(0 -> 50L, 1 -> 70L)
    assert(carried.output(0, at) == Undefined, "not known how old the rows in the buffer are")
    assert(carried.output(0, at, _ => 20L) == 20)
    assert(carried.output(0, at, _ => Long.MaxValue) == 50)
    assert(carried.decidedBy(0, at, _ => 20L) == 1)
    assert(carried.decidedBy(0, at, _ => Long.MaxValue) == 0)
    assert(carried.output(1, at, _ => 20L) == 50)
  }

  test("the lowest time in the buffer also holds for a key that a constraint ties to it") {
    val tied = new TimeBounds(
      Set(0, 2, 3),
      Set(1),
      Seq(TimeBound(2, 1, 0), TimeBound(0, 1, 30), TimeBound(1, 0, 0)),
      Seq(TimeBound(3, 0, 5)),
      carried = Set(2)
    )
    val at = watermarks(0 -> 60L, 1 -> 70L, 3 -> 60L)
    def lowest(key: Int) = if (key == 0) 45L else Undefined
    assert(Seq(0, 3).map(tied.output(_, at)) == Seq(40, 35), "by the longest lifetime, 30")
    assert(Seq(0, 3).map(tied.output(_, at, lowest)) == Seq(45, 40))
    assert(Seq(0, 3).map(tied.output(_, at, _ => 20L)) == Seq(40, 35), "whichever is higher")
  }

  test("next to a constant bound, a row leaves by the tighter one, and its output watermark is not behind") {
    val constant = new TimeBounds(Set(0), Set(1), Seq(TimeBound(0, 1, 30), TimeBound(1, 0, 0)))
    val both = new TimeBounds(
      Set(0, 2),
      Set(1),
      TimeBound(2, 1, 0) +: constant.tightest,
      carried = Set(2)
    )
    for (left <- 0L to 90L by 15; right <- 0L to 90L by 15; lowest <- 0L to 90L by 15) {
      val at = watermarks(0 -> left, 1 -> right)
      assert(Seq(0, 2).map(both.evictionLimit(_, at)) == Seq(constant.evictionLimit(0, at), right))
      assert(both.output(0, at) == constant.output(0, at))
      assert(both.output(0, at, _ => lowest) >= constant.output(0, at))
      assert(both.output(0, at, _ => lowest) <= math.max(lowest, constant.output(0, at)))
      assert(both.output(1, at, _ => lowest) == constant.output(1, at))
    }
  }

  test("a key that drives a bound is compared with the times of the other side, not with a carried value") {
    assert(simple.compared == Map(0 -> Set(1), 1 -> Set(0)))
    assert(chain.compared == Map(1 -> Set(2), 2 -> Set(1)))
    // right BETWEEN left AND left's value (key 2), or its other time (key 3), which drives nothing
    val several = new TimeBounds(
      Set(0, 2, 3),
      Set(1),
      Seq(TimeBound(1, 0, 0), TimeBound(2, 1, 0), TimeBound(3, 1, 0)),
      carried = Set(2)
    )
    assert(several.compared == Map(0 -> Set(1), 1 -> Set(0, 3)))
  }

  test("a carried value drives no bound") {
    intercept[IllegalArgumentException](
      new TimeBounds(Set(0, 2), Set(1), Seq(TimeBound(0, 1, 0), TimeBound(1, 2, 0)), carried = Set(2))
    ): Unit
  }

  test("weaker constraints hold an output watermark back, or leave it undefined") {
    val at = watermarks(0 -> 100L, 1 -> 100L, 2 -> 60L)
    // Deliveries leave below 56, and an order is at most 3 older than its delivery.
    assert(chain.output(0, at) == 53)
    assert(chain.weaker(Map((0, 1) -> Some(20L))).output(0, at) == 33)
    assert(chain.weaker(Map((0, 1) -> None)).output(0, at) == Undefined)
    assert(chain.weaker(Map((1, 0) -> None)).output(0, at) == 53)
    assert(chain.weaker(Map((0, 1) -> None)).output(1, at) == 56)
  }

  test("postponing saturates at the ends of the range") {
    assert(Watermark.postponed(10, 4) == 6)
    assert(Watermark.postponed(10, -4) == 14)
    assert(Watermark.postponed(Undefined, 4) == Undefined)
    assert(Watermark.postponed(Undefined, -4) == Undefined)
    assert(Watermark.postponed(Undefined, Long.MinValue) == Undefined)
    assert(Watermark.postponed(Long.MinValue + 3, 4) == Undefined)
    assert(Watermark.postponed(Long.MaxValue - 3, -4) == Long.MaxValue)
    assert(Watermark.postponed(0, Long.MinValue) == Long.MaxValue)
    assert(Watermark.postponed(-1, Long.MinValue) == Long.MaxValue)
    assert(Watermark.postponed(-2, Long.MaxValue) == Undefined)
    assert(Watermark.postponed(5, Long.MaxValue) == 5 - Long.MaxValue)
  }
}
