package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.Frames
import org.apache.spark.sql.streamjoin.JoinTest.{Job, d, o}

/** What an added join lacks depends on its kind, and on what keeps its rows. */
class AddedKindsSuite extends AnyFunSuite with AddedTest {

  testLong("an as-of join with a tolerance is added, and one without is rejected") {
    def closest(tolerance: Option[String]): Query = streams => {
      val joined = lower(streams).join(streams.marked("e"), expr("f.id = e.id"), "left_outer")
      Frames
        .inDirection(joined, "backward", allowsExact = true, tolerance, ordered = true)
        .selectExpr("a", "e.v AS c")
    }
    val old = fed(one, before)
    allow {
      val error = startError(old, closest(None))
      assert(error.getMessage.contains("which hold until the next one of their key"))
      // The version at 10:20 has come before. Order 1 gets a second delivery.
      val rows = Seq(
        Seq(o("a", "10:35", 20), d("a", "10:40", 21), e("b", "10:30", 22), d("b", "10:40", 5)),
        after.last
      )
      val changed = old.successor(closest(Some("1 hour")))
      assert(continued(changed, rows) == Seq("1 -", "20 -", "4 22"))
    }
  }

  // Rows of the added join say how long they stay.

  private val MaxLifetime = "spark.streamjoin.maxLifetime"
  private val BeyondMaxLifetime = "spark.streamjoin.beyondMaxLifetime"

  /** An order stays for ten minutes times the value of its delivery. */
  private val lasting: Query = streams => {
    val until = "f.t + INTERVAL 10 MINUTES * f.b"
    lower(streams)
      .join(streams.marked("e"), expr(s"f.id = e.id AND e.t >= f.t AND e.t <= $until"), "left_outer")
      .selectExpr("a", "b", "e.v AS c")
  }

  private def isComplete(old: Job, from: String): Assertion =
    assert(
      evolution(old, lasting).map(_.slice(1, 6)) == Seq(
        Seq("join 2", "none", "left outer interval join", "empty", from)
      )
    )

  test("a join whose rows carry the time at which they leave is added") {
    val old = fed(one, before)
    // The last order before the change is of 10:30.
    isComplete(old, "complete from 2024-07-01T10:30:00.001Z")
    withConf(MaxLifetime -> "3h") {
      isComplete(old, "complete from 2024-06-01T13:30:00.001Z")
      val changed = allow(old.successor(lasting).start())
      try {
        after.init.foreach(rows => changed.feed(rows: _*))
        assert(output(changed) == Seq("4 5 7", "8 9 10"))
        changed.restart()
        // Order 11 stays until 13:10, and order 8 until 12:30.
        changed.feed(e("g", "13:10", 13), e("c", "12:40", 14))
        after.takeRight(1).foreach(rows => changed.feed(rows: _*))
        assert(output(changed) == Seq("11 12 13", "4 5 7", "8 9 10"))
        assert(changed.progress.stateOperators.forall(_.customMetrics.get("completeFromMs") == null))
      } finally changed.stop()
    }
  }

  testLong("without a limit, such a join would never be known to be complete") {
    val old = fed(one, before)
    withConf(BeyondMaxLifetime -> "keep") {
      isRejected(old, lasting, s"set $BeyondMaxLifetime to fail or cut")
      // Before there is a row that says so, none is missing.
      val early = fed(one, Seq(Seq(e("a", "10:20", 30))))
      allow(assert(continued(early.successor(lasting), before ++ after) == ("1 2 3" +: added).sorted))
    }
    withConf(BeyondMaxLifetime -> "cut")(isComplete(old, "complete from 2024-07-01T10:30:00.001Z"))
  }
}
