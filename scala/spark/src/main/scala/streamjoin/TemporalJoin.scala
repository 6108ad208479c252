package streamjoin

import java.time.Duration
import java.util.{List => JList}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streamjoin.joins.temporal.{TemporalJoins, VersionedInput}

/**
 * A join of each row of a stream with the version of a table that was valid at the row's time. A
 * row waits until the watermarks of both inputs have passed its time; then nothing that comes in
 * time can change its match.
 *
 * {{{
 * val rates = StreamJoin.versions(changes).key("currency").op("op")
 * StreamJoin.temporal(orders, rates).on("currency").joinType("left").toDF()
 * }}}
 *
 * The join is inner or left; its condition has an equality for each column of the versions' key.
 */
final class TemporalJoin private[streamjoin] (stream: DataFrame, versions: VersionedStream)
    extends JoinBuilder[TemporalJoin](stream, versions.changes) {
  private var time: Option[String] = None
  private var past: Option[String] = None
  private var inOrder = true

  override private[streamjoin] def self: TemporalJoin = this

  /** The event-time column of the stream; without it, the one with a watermark. */
  def asOf(column: String): TemporalJoin = {
    time = Some(column)
    this
  }

  /**
   * How far a row may be behind the rows emitted so far and still meet what was valid at its time.
   * Versions are kept for so much longer, and the watermark of the result trails by as much.
   */
  def history(length: String): TemporalJoin = {
    past = Some(length)
    this
  }

  /** The same. */
  def history(length: Duration): TemporalJoin = history(Durations.text(length))

  /** Whether a batch emits its rows in the order of time, as it does without this call. */
  def ordered(isOrdered: Boolean): TemporalJoin = {
    inOrder = isOrdered
    this
  }

  override def toDF(): DataFrame = TemporalJoins.temporal(joined, versions.input, time, past, inOrder)
}

/**
 * A stream of the versions of a table; each function returns another one. A version is valid from
 * its time, inclusive, until the next version or delete of its key. Debezium's envelope (`before`,
 * `after`, `op`) is taken apart; an update that moves a row to another key ends the old one.
 *
 * Of two versions with the same key and time, the one with the greater `order` wins. Without an
 * order, or if it is the same, the later one in its topic wins if they come from Kafka through
 * nothing but `select` and `where`. Otherwise a row wins over a delete; without an order, of two
 * rows the one with the greater values wins, column by column from left to right, nulls lowest.
 */
final class VersionedStream private[streamjoin] (private[streamjoin] val input: VersionedInput) {

  /** The columns that identify a row of the table. */
  @varargs def key(column: String, more: String*): VersionedStream = key((column +: more).asJava)

  /** The same, as a list. */
  def key(columns: JList[String]): VersionedStream = new VersionedStream(
    input.copy(key = columns.asScala.toSeq)
  )

  /** The `TIMESTAMP` column; without it, the one with a watermark. */
  def time(column: String): VersionedStream = new VersionedStream(input.copy(time = Some(column)))

  /**
   * The column with `insert`, `update` or `delete`, as Debezium or `readStream.changes` spell it;
   * without it, all rows are versions. Of an envelope it is `op`.
   */
  def op(column: String): VersionedStream = new VersionedStream(input.copy(op = Some(column)))

  /** A column that breaks ties, such as a position in a log. */
  def order(column: String): VersionedStream = new VersionedStream(input.copy(order = Some(column)))

  /**
   * The text, or the bytes of it, that stands for a value that was not sent: it is that of the
   * version before. Without this call it is Debezium's, `__debezium_unavailable_value`.
   */
  def unavailable(placeholder: String): VersionedStream =
    new VersionedStream(input.copy(unavailable = Some(placeholder)))

  /** Takes values as they are sent. */
  def asSent: VersionedStream = new VersionedStream(input.copy(unavailable = None))

  /** The rows of the table, each with its time, operation and order. */
  def changes: DataFrame = input.rows
}
