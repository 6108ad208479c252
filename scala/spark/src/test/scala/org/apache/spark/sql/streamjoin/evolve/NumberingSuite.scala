package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.checkpoint.{Description, OperatorPlace}

/** Which operator of a query is which one of its checkpoint. */
class NumberingSuite extends AnyFunSuite {

  /** @param marks the event times that reach it, one character each */
  private def join(marks: String, condition: String = "c", kind: String = "interval_join"): Description = {
    val place = OperatorPlace(marks.map(_.toString).toSet, Set.empty, Set.empty, OperatorPlace.Sparks.None)
    Description(
      kind,
      Map("condition" -> condition) ++ place.properties,
      derived = place.properties.keySet
    )
  }

  private def numbers(recorded: (Int, Description)*)(query: Description*): Option[Seq[Int]] =
    Numbering.of(recorded, query, recorded.map(_._1).maxOption.fold(0)(_ + 1)).toOption

  private def advice(recorded: (Int, Description)*)(query: Description*): String =
    Numbering.of(recorded, query, 9).swap.toOption.get.change.advice

  test("a new query is numbered from the inputs up") {
    assert(numbers()(join("ab"), join("abc")).contains(Seq(0, 1)))
  }

  test("joins are found by the event times that reach them, wherever they are") {
    val (one, two) = (0 -> join("ab"), 1 -> join("cd"))
    assert(numbers(one, two)(join("cd"), join("ab")).contains(Seq(1, 0)))
    assert(numbers(one, two)(join("cd", "other"), join("ab")).contains(Seq(1, 0)))
  }

  test("the others are added or removed") {
    val (one, two) = (0 -> join("ab"), 1 -> join("abc"))
    assert(numbers(one)(join("ab"), join("abc")).contains(Seq(0, 1)))
    assert(numbers(one)(join("cd"), join("ab"), join("abcd")).contains(Seq(1, 0, 2)))
    assert(numbers(one, two)(join("ab")).contains(Seq(0)))
    assert(numbers(one, two)(join("abc")).contains(Seq(1)))
    assert(numbers(two, 4 -> join("xy"))(join("abc"), join("xy"), join("abcxy")).contains(Seq(1, 4, 5)))
  }

  test("another join in the place of one is a change of it") {
    assert(numbers(0 -> join("ab"))(join("ab", kind = "temporal_join")).contains(Seq(0)))
    assert(numbers(0 -> join("ab"), 1 -> join("abc"))(join("ab"), join("abd")).contains(Seq(0, 1)))
  }

  test("joins over the same event times are told apart by their conditions") {
    val (one, two) = (0 -> join("ab", "x"), 1 -> join("ab", "y"))
    assert(numbers(one, two)(join("ab", "y"), join("ab", "x")).contains(Seq(1, 0)))
    assert(numbers(one, two)(join("ab", "y")).contains(Seq(1)))
    assert(numbers(one)(join("ab", "z"), join("ab", "x")).contains(Seq(1, 0)))
    assert(numbers(one, two)(join("ab", "z"), join("ab", "x")).contains(Seq(1, 0)))
  }

  test("what cannot be compared") {
    val same = 0 -> join("ab")
    assert(advice(same, 1 -> join("ab"))(join("ab")).contains("the same condition"))
    assert(advice(same)(join("ab"), join("ab")).contains("the same condition"))
    assert(advice(same, 1 -> join("abc"))(join("cd")).contains("in one restart"))
    assert(advice(same)().contains("new checkpoint location"))
    val old = 0 -> Description("interval_join", Map("condition" -> "c"))
    assert(advice(old)(join("ab"), join("abc")).contains("has committed a batch"))
    assert(numbers(old)(join("ab")).contains(Seq(0)))
  }
}
