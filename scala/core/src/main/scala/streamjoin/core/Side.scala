package streamjoin.core

/** One input of a join, as a value, so that code for both inputs is written once. */
sealed abstract class Side(val name: String, val index: Int) {
  def other: Side
}

object Side {
  case object Left extends Side("left", 0) {
    override def other: Side = Right
  }

  case object Right extends Side("right", 1) {
    override def other: Side = Left
  }

  val both: Seq[Side] = Seq(Left, Right)
}

/**
 * The properties of a join type, for each side.
 *
 * @param name
 *   as in Spark's API for joins: `left_outer`
 * @param preserved
 *   preserved sides: their unmatched rows are emitted, padded with nulls
 * @param filtered
 *   set for semi and anti joins: only left rows are emitted, each at most once, and a row leaves
 *   the buffer with its first match; `Some(true)`: it is emitted with its first match,
 *   `Some(false)`: when it expires without one
 */
sealed abstract class JoinType(val name: String, val preserved: Set[Side], val filtered: Option[Boolean]) {

  /** Whether an unmatched row of this side is emitted, once no match can still arrive. */
  def pads(side: Side): Boolean = preserved(side)

  /** Whether a row of this side leaves the buffer with its first match. */
  def leavesOnMatch(side: Side): Boolean = filtered.isDefined && side == Side.Left

  /** Whether pairs are emitted. */
  def emitsPairs: Boolean = filtered.isEmpty

  /** Whether a left row is emitted with its first match. */
  def emitsFirstMatch: Boolean = filtered.contains(true)
}

object JoinType {
  case object Inner extends JoinType("inner", Set.empty, None)
  case object LeftOuter extends JoinType("left_outer", Set(Side.Left), None)
  case object RightOuter extends JoinType("right_outer", Set(Side.Right), None)
  case object FullOuter extends JoinType("full_outer", Set(Side.Left, Side.Right), None)
  case object LeftSemi extends JoinType("left_semi", Set.empty, Some(true))
  case object LeftAnti extends JoinType("left_anti", Set(Side.Left), Some(false))

  val all: Seq[JoinType] = Seq(Inner, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti)

  /** The join type with a given [[JoinType.name]]. */
  def named(name: String): Option[JoinType] = all.find(_.name == name)
}
