package streamjoin.core

/** A collection, as the number of copies of each row; a row without copies is not in it. */
final case class Copies[A](of: Map[A, Long] = Map.empty[A, Long]) {

  def +(row: A, copies: Long): Copies[A] = {
    val sum = of.getOrElse(row, 0L) + copies
    Copies(if (sum == 0) of - row else of.updated(row, sum))
  }

  def ++(changes: Iterable[(A, Long)]): Copies[A] =
    changes.foldLeft(this) { case (sum, (row, copies)) => sum + (row, copies) }
}

/**
 * A part of a condition.
 *
 * @param inputs
 *   inputs whose rows decide it
 * @param holds
 *   whether it is true, given the row of each of them
 */
final case class DeltaCondition[A](inputs: Set[Int], holds: (Int => A) => Boolean)

object DeltaCondition {

  /** The rows of two inputs have equal keys; a missing key equals nothing. */
  def equal[A](left: Int, right: Int)(key: (Int, A) => Option[Any]): DeltaCondition[A] =
    DeltaCondition(
      Set(left, right),
      row => key(left, row(left)).exists(value => key(right, row(right)).contains(value))
    )
}

/**
 * The inner join of changing collections, one batch at a time, over plain maps.
 *
 * A row of the result combines one row of each input; its number of copies is the product of the
 * inputs' numbers. With `A` before a batch and `A'` after it, the batch changes
 * {{{
 *   A' x B' x C'  -  A x B x C  =  (A' - A) x B x C  +  A' x (B' - B) x C  +  A' x B' x (C' - C)
 * }}}
 * The changes of an input are joined with the state of earlier inputs after the batch, and with the
 * state of later inputs before it. If both used the state after the batch, two changes of one batch
 * would match twice; with the state before it, never.
 *
 * @param inputs
 *   number of inputs
 */
final class DeltaJoin[A](inputs: Int, conditions: Seq[DeltaCondition[A]]) {
  require(inputs >= 1, "at least one input")
  require(
    conditions.forall(_.inputs.forall(input => 0 <= input && input < inputs)),
    "conditions refer to inputs by number"
  )

  private var now = Vector.fill(inputs)(Copies[A]())

  /** The inputs after the last batch. */
  def collections: Seq[Copies[A]] = now

  /**
   * The changes of the result in a batch; changes that cancel out are not emitted.
   *
   * @param changes
   *   changes of each input
   */
  def onBatch(changes: Seq[Seq[(A, Long)]]): Copies[Vector[A]] = {
    require(changes.size == inputs, s"changes of $inputs inputs, not of ${changes.size}")
    val before = now
    now = before.zip(changes).map { case (copies, change) => copies ++ change }
    (0 until inputs).foldLeft(Copies[Vector[A]]()) { (sum, changed) =>
      sum ++ join { input =>
        if (input < changed) now(input)
        else if (input == changed) Copies[A]() ++ changes(input)
        else before(input)
      }
    }
  }

  /** The whole result, joined from scratch. */
  def result: Copies[Vector[A]] = Copies[Vector[A]]() ++ join(now)

  /** Joins one input after the other, and applies each condition as soon as it can be decided. */
  private def join(collection: Int => Copies[A]): Seq[(Vector[A], Long)] =
    (0 until inputs).foldLeft(Seq((Vector.empty[A], 1L))) { case (found, input) =>
      val decided = conditions.filter(condition => condition.inputs.maxOption.getOrElse(0) == input)
      for {
        (rows, copies) <- found
        (row, more) <- collection(input).of.toSeq
        joined = rows :+ row
        if decided.forall(_.holds(joined))
      } yield (joined, copies * more)
    }
}
