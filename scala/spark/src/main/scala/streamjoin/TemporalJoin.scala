package streamjoin

import java.time.Duration
import java.util.{List => JList}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streamjoin.joins.temporal.VersionedInput

/**
 * Joins each row of a stream with the version of a table that was valid at the row's time. A row
 * waits until the watermarks of both inputs have passed its time. After that, only a late row could
 * change its match.
 *
 * {{{
 * val rates = StreamJoin.versions(changes).key("currency").op("op")
 * StreamJoin.temporal(orders, rates).on("currency").joinType("left").toDF()
 * }}}
 *
 * The join is inner or left. Its condition has an equality for each column of the versions' key.
 */
final class TemporalJoin private[streamjoin] (stream: DataFrame, versions: VersionedStream)
    extends JoinBuilder[TemporalJoin](stream, versions.changes) {

  /** Sets the event-time column of the stream. Default: the column with a watermark. */
  def asOf(column: String): TemporalJoin = set("as_of" -> column)

  /**
   * Sets how far a row may be behind the rows emitted so far and still match the version that was
   * valid at its time. Versions are kept for this additional time, and the watermark of the result
   * lags by as much.
   */
  def history(length: String): TemporalJoin = set("history" -> length)

  /** Sets how far a row may be behind the rows emitted so far and still match. */
  def history(length: Duration): TemporalJoin = history(Durations.text(length))

  /** Sets whether a batch emits its rows in the order of time. Default: true. */
  def ordered(isOrdered: Boolean): TemporalJoin = set("ordered" -> isOrdered)

  override def toDF(): DataFrame = {
    import versions.input
    set(
      "key" -> input.key,
      "time" -> input.timeName,
      "op" -> input.opName,
      "order" -> input.orderName,
      "unavailable" -> input.unavailable,
      "as_sent" -> input.unavailable.isEmpty
    ).call("sj_temporal_join")
  }
}

/**
 * A stream of the versions of a table. Each function returns a modified copy. A version is valid
 * from its time, inclusive, until the next version or delete of its key. Debezium's envelope
 * (`before`, `after`, `op`) is unpacked; an update that moves a row to another key ends the old
 * one.
 *
 * Of two versions with the same key and time, the one with the greater `order` wins. Without an
 * order, or if the orders are equal, the later one in its topic wins if the rows come from Kafka
 * through nothing but `select` and `where`. Otherwise a row wins over a delete; without an order,
 * of two rows the one with the greater values wins, column by column from left to right, nulls
 * lowest.
 */
final class VersionedStream private[streamjoin] (private[streamjoin] val input: VersionedInput) {

  /** Sets the columns that identify a row of the table. */
  @varargs def key(column: String, more: String*): VersionedStream = key((column +: more).asJava)

  /** Sets the columns that identify a row of the table. */
  def key(columns: JList[String]): VersionedStream = new VersionedStream(
    input.copy(key = columns.asScala.toSeq)
  )

  /**
   * Sets the `TIMESTAMP` column from which on a version is valid. Default: the column with a
   * watermark.
   */
  def time(column: String): VersionedStream = new VersionedStream(input.copy(time = Some(column)))

  /**
   * Sets the column with the operation: `insert`, `update` or `delete`, as spelled by Debezium or
   * `readStream.changes`. Without it, all rows are versions. For an envelope, the default is `op`.
   */
  def op(column: String): VersionedStream = new VersionedStream(input.copy(op = Some(column)))

  /** Sets the column that breaks ties, such as a position in a log. */
  def order(column: String): VersionedStream = new VersionedStream(input.copy(order = Some(column)))

  /**
   * Sets the text, or the bytes of it, that stands for a value that was not sent. The value is then
   * that of the previous version. The default is that of Debezium, `__debezium_unavailable_value`.
   */
  def unavailable(placeholder: String): VersionedStream =
    new VersionedStream(input.copy(unavailable = Some(placeholder)))

  /** Uses values as sent, without treating any text as a placeholder. */
  def asSent: VersionedStream = new VersionedStream(input.copy(unavailable = None))

  /** Returns the rows of the table, each with its time, operation and order. */
  def changes: DataFrame = input.rows
}
