package org.apache.spark.sql.streamjoin.watermark

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.evolve.TimeNames

/** What is recorded for a changed query, and what is left of it if the change is abandoned. */
class ContinuitySuite extends AnyFunSuite {

  private def passed(outputs: Long*) = Passed(outputs, forSpark = 0, evicted = Seq(5), newest = Seq(50))

  private val old = Continuity(Map(0 -> passed(10, 20)))
    .withFloors(Map(0 -> OutputFloor(3, passed(10, 20))))
    .withGaps(Map(0 -> Seq(Gap(3, key = 0, below = 100, completeFrom = 150))))

  /** From batch 7 on, with other keys. */
  private val changed = old
    .withFloors(Map(0 -> OutputFloor(7, passed(20))))
    .replacingGaps(7)((_, gap) => Some(gap.copy(key = 1)))
    .withGaps(Map(0 -> Seq(Gap(7, key = 0, below = 300, completeFrom = 350))))

  private def read(continuity: Continuity): Continuity = {
    val node = new ObjectMapper().createObjectNode()
    Continuity.toJson(continuity, node)
    Continuity.fromJson(node)
  }

  test("a changed query has its own floor and gaps, and the log keeps them") {
    for (now <- Seq(changed, read(changed))) {
      assert(now.floor(0).map(_.passed) == Some(passed(20)))
      assert(now.open(0, Nil).map(gap => (gap.from, gap.key)) == Seq((7, 1), (7, 0)))
      assert(now.open(0, Seq(300, 100)).isEmpty)
    }
  }

  test("what an abandoned change has replaced counts again") {
    assert(changed.before(7) == old)
    assert(read(changed).before(7) == old)
    assert(changed.before(8) == changed)
    assert(old.replacingGaps(7)((_, _) => None).before(7) == old)
  }

  test("after its first batch, what was replaced is forgotten") {
    val after = changed.after(Map(0 -> passed(15)))
    assert(after.floors == Map(0 -> Seq(OutputFloor(7, passed(20)))))
    assert(after.gaps(0).map(_.from) == Seq(7, 7))
    assert(after.passed(0).outputs == Seq(20))
    assert(
      after.after(Map(0 -> passed(20).copy(evicted = Seq(300, 100)))) ==
        Continuity(Map(0 -> passed(20).copy(evicted = Seq(300, 100))))
    )
  }

  test("a column is found by its name, whatever its key is") {
    assert(TimeNames.before(Seq("a", "b", "c"), Seq("c", "a", "d")) == Seq(Some(2), Some(0), None))
    assert(TimeNames.before(Seq("a", "a"), Seq("a", "a")) == Seq(Some(0), Some(1)))
    assert(TimeNames.before(Seq("a", "a", "b"), Seq("b", "a")) == Seq(Some(2), None))
  }

  // Rows that are kept from before a change.

  private def rows(key: Option[Int], below: Option[Long], more: Option[Long]) =
    WeakerConstraints(7, key, below, Map((1, 0) -> more))

  test("constraints are weaker until the rows from before have left, and those of operators below") {
    val begun = Continuity().withKept(
      Map(0 -> Seq(rows(Some(0), Some(100), Some(9))), 1 -> Seq(rows(Some(0), None, None)))
    )
    def next(of: Continuity, evicted: Long, newest: Long) = {
      val now = Passed(Nil, 0, evicted = Seq(evicted), newest = Seq(newest))
      read(of).after(Map(0 -> now, 1 -> now))
    }
    assert(begun.weaker == Map(0 -> Map((1, 0) -> Some(9)), 1 -> Map((1, 0) -> None)))
    val first = next(begun, evicted = 99, newest = 5000)
    assert(first.weaker == begun.weaker)
    val second = next(first, evicted = 100, newest = 6000)
    assert(second.weaker.keySet == Set(1))
    // From here on, no such row arrives.
    val third = next(second, evicted = 100, newest = 7000)
    assert(third.kept(1).map(_.below) == Seq(Some(8000)))
    assert(next(third, evicted = 7999, newest = 9000).weaker.keySet == Set(1))
    assert(next(third, evicted = 8000, newest = 9000) == next(Continuity(), 8000, 9000))
  }

  test("after several changes, the constraints of all earlier rows count") {
    val all = Seq(rows(Some(0), Some(100), Some(9)), rows(Some(0), Some(200), Some(4)))
    assert(Continuity().withKept(Map(0 -> all)).weaker == Map(0 -> Map((1, 0) -> Some(13))))
    val none = rows(None, None, None)
    assert(Continuity().withKept(Map(0 -> (all :+ none))).weaker == Map(0 -> Map((1, 0) -> None)))
    val kept = Continuity().withKept(Map(0 -> Seq(none))).after(Map(0 -> passed(15)))
    assert(kept.weaker.keySet == Set(0), "rows that may stay")
  }
}
