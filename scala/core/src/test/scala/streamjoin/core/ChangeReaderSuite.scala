package streamjoin.core

import org.scalatest.funsuite.AnyFunSuite

class ChangeReaderSuite extends AnyFunSuite {
  import Operation._

  /** A row: its key, and a value that may not have been sent. */
  private type R = (Option[Int], Option[String])

  private val reader =
    new ChangeReader[R]((a, b) => a._1 == b._1, (after, before) => (after._1, after._2.orElse(before._2)))

  private def row(key: Int, value: String): Option[R] = Some((Some(key), Option(value)))
  private def read(operation: String, before: Option[R], after: Option[R]): Reading[R] =
    reader.read(Message(Option(operation), before, after))
  private def changes(all: (Operation, Option[R])*): Reading[R] =
    Reading.Changes(all.map { case (operation, of) => Change(operation, of) })

  test("what a message says") {
    val cases = Seq(
      read("c", None, row(1, "a")) -> changes(Insert -> row(1, "a")),
      read("r", None, row(1, "a")) -> changes(Insert -> row(1, "a")),
      read(" U\n", row(1, "a"), row(1, "b")) -> changes(Update -> row(1, "b")),
      read("u", None, row(1, "b")) -> changes(Update -> row(1, "b")),
      read("d", row(1, "a"), None) -> changes(Delete -> row(1, "a")),
      read("delete", None, row(1, null)) -> changes(Delete -> row(1, null)),
      read("update_preimage", None, row(1, "a")) -> changes(Before -> row(1, "a")),
      read("d", None, None) -> changes(Delete -> None),
      // An update that moves its key, and what was not sent.
      read("u", row(1, "a"), row(2, "b")) -> changes(Before -> row(1, "a"), Insert -> row(2, "b")),
      read("u", row(1, "a"), row(2, null)) -> changes(Before -> row(1, "a"), Insert -> row(2, "a")),
      read("u", row(1, "a"), row(1, null)) -> changes(Update -> row(1, "a")),
      // Null equals null.
      read("u", Some((None, None)), Some((None, Some("x")))) -> changes(Update -> Some((None, Some("x")))),
      read(null, None, None) -> Reading.Empty,
      read(null, None, row(1, "a")) -> Reading.Unreadable(None),
      read("t", None, None) -> Reading.Unreadable(Some("t"))
    )
    cases.foreach { case (found, wanted) => assert(found == wanted) }
  }

  test("the old row has the time of the new one, where that is in the rows") {
    val dated = new ChangeReader[(Int, Int)](
      (a, b) => a._1 == b._1,
      dated = (before, after) => (before._1, after._2)
    )
    val read = dated.read(Message(Some("u"), Some((1, 10)), Some((2, 20))))
    assert(read == Reading.Changes(Seq(Change(Before, Some((1, 20))), Change(Insert, Some((2, 20))))))
  }

  /** Rows are their value and their position in the log. */
  private def last(isOrdered: Boolean, isEnvelope: Boolean = false, hasPosition: Boolean = false) =
    new LastChange[(String, Int)](
      (a, b) => a._1 == b._1,
      isOrdered,
      isEnvelope,
      (a, b) => Option.when(hasPosition)(a._2 > b._2)
    )

  private def isAmbiguous(of: LastChange[(String, Int)], all: (Operation, String)*): Boolean = {
    of.clear()
    all.zipWithIndex.foreach { case ((operation, value), at) => of.add(operation, (value, at)) }
    of.isAmbiguous
  }

  test("without an order, different changes of a key are ambiguous") {
    val flat = last(isOrdered = false)
    assert(isAmbiguous(flat, Insert -> "a", Update -> "b"))
    assert(isAmbiguous(flat, Delete -> "a", Update -> "a"))
    assert(!isAmbiguous(flat, Insert -> "a", Update -> "a"))
    assert(!isAmbiguous(flat, Delete -> "a", Delete -> "b"))
    assert(!isAmbiguous(flat, Before -> "a", Update -> "b"), "the row before an update is followed by it")
    assert(isAmbiguous(last(isOrdered = false, isEnvelope = true), Before -> "a", Insert -> "b"))
    assert(!isAmbiguous(last(isOrdered = true), Insert -> "a", Update -> "b", Delete -> "b"))
  }

  test("the row before an update has a change before it, unless it is the first one") {
    val of = last(isOrdered = true)
    Seq(Before -> "a", Update -> "b").foreach { case (operation, value) => of.add(operation, (value, 0)) }
    assert(of.beforeLast.isEmpty)
    Seq(Before, Before).foreach(of.add(_, ("b", 1)))
    assert(of.beforeLast.contains((Update, "b" -> 0)))
    of.clear()
    assert(of.beforeLast.isEmpty)
  }

  test("a delete without a time follows the rows before it in the log") {
    val known = last(isOrdered = true, hasPosition = true)
    known.addUndated(("", 5))
    Seq("a" -> 2, "b" -> 4, "c" -> 7).foreach(known.add(Update, _))
    assert(known.beforeUndated.contains("b" -> 4) && known.last.contains((Update, "c" -> 7)))
    assert(!known.isAmbiguous)
    known.addUndated(("", 3))
    assert(known.undated.contains("" -> 5), "the last one in the log counts")
    known.clear()
    assert(known.undated.isEmpty && known.beforeUndated.isEmpty && known.last.isEmpty)
    val unknown = last(isOrdered = true)
    unknown.addUndated(("", 0))
    assert(!unknown.isAmbiguous, "alone it is the last change")
    unknown.add(Insert, ("a", 0))
    assert(unknown.isAmbiguous)
  }
}
