package streamjoin.core

/**
 * A message of a changelog. Logs differ only in how they become messages: a row of a flat log
 * becomes a message with one row; Debezium's envelope contains the row before a change and the row
 * after it.
 *
 * @param operation
 *   as written in the log
 */
final case class Message[+A](operation: Option[String], before: Option[A], after: Option[A])

/** What a message says. */
sealed trait Reading[+A]

object Reading {

  /** Its changes, one per key. */
  final case class Changes[+A](parts: Seq[Change[A]]) extends Reading[A]

  /** A tombstone: Kafka's compaction needs it after a delete. */
  case object Empty extends Reading[Nothing]

  /** The message cannot be interpreted. */
  final case class Unreadable(operation: Option[String]) extends Reading[Nothing]
}

/**
 * The change that a message makes to one key.
 *
 * @param row
 *   the row that the key has from then on; for a delete, only its key counts. None if the message
 *   has no row at all, and therefore no key
 */
final case class Change[+A](operation: Operation, row: Option[A])

/**
 * Reads the messages of a changelog. Only this class interprets a message; [[LastChange]] and
 * [[TemporalJoin]] decide how several messages of one key combine.
 *
 *   - A message with neither an operation nor a row is empty.
 *   - A delete ends the key of its before-row, or of its only row.
 *   - If the rows before and after a change have different keys, the message is two changes at one
 *     instant: the old key ends, and the new key gets the row, whatever it had before.
 *   - Otherwise the row after the change replaces the row of its key.
 *
 * @param isSameKey
 *   whether two rows have the same key; null equals null
 * @param filled
 *   fills in the values of the row after a change that were not sent, from the row before it
 * @param dated
 *   gives the row before a change the time of the row after it, if rows contain a time
 */
final class ChangeReader[A](
    isSameKey: (A, A) => Boolean,
    filled: (A, A) => A = (after: A, _: A) => after,
    dated: (A, A) => A = (before: A, _: A) => before
) {
  import Operation._

  def read(message: Message[A]): Reading[A] = message match {
    case Message(None, None, None) => Reading.Empty
    case Message(operation, before, after) =>
      operation.flatMap(Operation.of).fold[Reading[A]](Reading.Unreadable(operation)) { known =>
        Reading.Changes(changes(known, before, after))
      }
  }

  private def changes(operation: Operation, before: Option[A], after: Option[A]): Seq[Change[A]] =
    (operation, before, after) match {
      case (Delete | Before, _, _) => Seq(Change(operation, before.orElse(after)))
      case (_, Some(was), Some(is)) =>
        val row = Some(filled(is, was))
        if (isSameKey(was, is)) Seq(Change(operation, row))
        else Seq(Change(Before, Some(dated(was, is))), Change(Insert, row))
      case _ => Seq(Change(operation, after.orElse(before)))
    }
}

/**
 * The net change of one key in one batch: its last change. Rows have to be added in order of time,
 * nulls first, then of their position in the log; among equals, deletes come first.
 *
 *   - The row before an update is always followed by the update, so it does not make the order
 *     ambiguous. An envelope has it only if the update changes the key ([[ChangeReader]]); it is
 *     then a change of its own.
 *   - Without an order, different changes of one key are ambiguous: any of them could be the last.
 *     A repeated change counts once.
 *   - A delete without a time, although rows have one, takes the time of the newest row before it
 *     in the log. Without a position in the log, it is ambiguous if the batch has other changes of
 *     the key. The same applies to its order among the changes of its time.
 *
 * @param isSame
 *   whether two changes result in the same row
 * @param isOrdered
 *   whether rows are ordered by something other than their values
 * @param isEnvelope
 *   whether the row before an update is a change of its own
 * @param follows
 *   whether a delete without a time has a later position in the log than another change; none if
 *   that is unknown
 */
final class LastChange[A](
    isSame: (A, A) => Boolean,
    isOrdered: Boolean,
    isEnvelope: Boolean,
    follows: (A, A) => Option[Boolean] = (_: A, _: A) => None
) {
  private var found, preceding, counted: Option[(Operation, A)] = None
  private var withoutTime, removed: Option[A] = None
  private var ambiguous = false

  /** The last change so far that has a time, or the last change if times are not used. */
  def last: Option[(Operation, A)] = found

  /** The change before [[last]], if that is the row before an update. */
  def beforeLast: Option[(Operation, A)] = preceding

  /** The last delete without a time or an order. */
  def undated: Option[A] = withoutTime

  /** The newest change of the batch before it in the log. */
  def beforeUndated: Option[A] = removed

  /** Any of several changes may be the last. */
  def isAmbiguous: Boolean = ambiguous

  /** Starts the next key. */
  def clear(): Unit = {
    found = None
    preceding = None
    counted = None
    withoutTime = None
    removed = None
    ambiguous = false
  }

  def add(operation: Operation, row: A): Unit = {
    if (operation == Operation.Before && !found.exists(_._1 == Operation.Before)) preceding = found
    found = Some((operation, row))
    val counts = isEnvelope || operation != Operation.Before
    if (counts && !isOrdered) {
      if (counted.exists(!isSameChange(_, (operation, row)))) ambiguous = true
      else if (counted.isEmpty) counted = found
    }
    if (counts) withoutTime.foreach { delete =>
      follows(delete, row) match {
        case Some(isLater) => if (isLater) removed = Some(row)
        case None => ambiguous = true
      }
    }
  }

  /**
   * Adds a delete without a time, before all rows that have one, or one without an order, before
   * all rows of its time.
   */
  def addUndated(row: A): Unit =
    withoutTime = withoutTime.filter(follows(_, row).contains(true)).orElse(Some(row))

  private def isSameChange(one: (Operation, A), other: (Operation, A)): Boolean =
    if (one._1.ends || other._1.ends) one._1.ends && other._1.ends else isSame(one._2, other._2)
}
