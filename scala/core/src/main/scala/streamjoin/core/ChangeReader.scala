package streamjoin.core

/**
 * A message of a changelog. Logs differ only in how they become messages: a row of a flat log is
 * one with a single row, Debezium's envelope has the row before a change and the row after it.
 *
 * @param operation
 *   as it is written
 */
final case class Message[+A](operation: Option[String], before: Option[A], after: Option[A])

/** What a message says. */
sealed trait Reading[+A]

object Reading {

  /** What it does, key by key. */
  final case class Changes[+A](parts: Seq[Change[A]]) extends Reading[A]

  /** A tombstone: Kafka's compaction needs it after a delete. */
  case object SaysNothing extends Reading[Nothing]

  /** It is a message, but what it does cannot be told. */
  final case class Unreadable(operation: Option[String]) extends Reading[Nothing]
}

/**
 * What a message does to one key.
 *
 * @param row
 *   the row that the key has from then on; if it ends, the key is enough. None if the message has
 *   no row at all, so that there is no key
 */
final case class Change[+A](operation: Operation, row: Option[A])

/**
 * Reads the messages of a changelog. This is all that decides what they say; [[LastChange]] and
 * [[TemporalJoin]] decide what follows from several messages of one key.
 *
 *   - A message with neither an operation nor a row says nothing.
 *   - A delete ends the key of the row before it, or of its only row.
 *   - A row before and a row after a change with different keys are two changes at one instant: the
 *     old key ends, the new one begins, whatever it had.
 *   - Otherwise the row after the change replaces what its key had.
 *
 * @param isSameKey
 *   whether two rows have one key; null equals null
 * @param filled
 *   the row after a change, with what was not sent taken from the row before it
 * @param dated
 *   the row before a change, with the time of the row after it, if that is in the rows
 */
final class ChangeReader[A](
    isSameKey: (A, A) => Boolean,
    filled: (A, A) => A = (after: A, _: A) => after,
    dated: (A, A) => A = (before: A, _: A) => before
) {
  import Operation._

  def read(message: Message[A]): Reading[A] = message match {
    case Message(None, None, None) => Reading.SaysNothing
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
 * What the changes of one key in one batch amount to: the last one counts. Rows are added in their
 * order: by time, nulls first, and by their position in the log; of equal ones those that end the
 * key first.
 *
 *   - The row before an update is followed by the update, so it says nothing of the order. In an
 *     envelope it comes only where a key is left for another one ([[ChangeReader]]), and is a
 *     change like others.
 *   - Without an order, different changes of one key are ambiguous: any of them could be the last.
 *     The same change twice is one.
 *   - A delete without a time, where rows have one, has that of the newest row that it follows in
 *     the log; without a position in the log it is ambiguous if the batch has other changes of the
 *     key.
 *
 * @param isSame
 *   whether two changes put the same row in place
 * @param isOrdered
 *   whether anything but the values of the rows orders them
 * @param isEnvelope
 *   whether the row before an update is a change of its own
 * @param follows
 *   whether the first row has a later position in the log than the second; none if rows have none
 */
final class LastChange[A](
    isSame: (A, A) => Boolean,
    isOrdered: Boolean,
    isEnvelope: Boolean,
    follows: Option[(A, A) => Boolean] = None
) {
  private var found, counted: Option[(Operation, A)] = None
  private var withoutTime, removed: Option[A] = None
  private var ambiguous = false

  /** The last change so far that has a time, or where times are not asked for. */
  def last: Option[(Operation, A)] = found

  /** The last delete without a time. */
  def undated: Option[A] = withoutTime

  /** The newest change of the batch that it follows in the log. */
  def beforeUndated: Option[A] = removed

  /** Any of several changes may be the last. */
  def isAmbiguous: Boolean = ambiguous

  /** Begins another key. */
  def clear(): Unit = {
    found = None
    counted = None
    withoutTime = None
    removed = None
    ambiguous = false
  }

  def add(operation: Operation, row: A): Unit = {
    found = Some((operation, row))
    val counts = isEnvelope || operation != Operation.Before
    if (counts && !isOrdered) {
      if (counted.exists(!isSameChange(_, (operation, row)))) ambiguous = true
      else if (counted.isEmpty) counted = found
    }
    if (counts) withoutTime.foreach { delete =>
      follows match {
        case Some(later) => if (later(delete, row)) removed = Some(row)
        case None => ambiguous = true
      }
    }
  }

  /** Adds a delete without a time, before all rows that have one. */
  def addUndated(row: A): Unit = withoutTime = Some(row)

  private def isSameChange(one: (Operation, A), other: (Operation, A)): Boolean =
    if (one._1.ends || other._1.ends) one._1.ends && other._1.ends else isSame(one._2, other._2)
}
