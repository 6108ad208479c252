package streamjoin

import java.time.Duration

import org.apache.spark.sql.streamjoin.joins.temporal.{Closest, TemporalJoins}
import org.apache.spark.sql.{Column, DataFrame}

/**
 * A join of each row of a stream with the row of another one that is closest in time and has its
 * key. A row waits until the watermarks say that no closer one can come.
 *
 * {{{
 * StreamJoin.asOf(trades, quotes).on("symbol").matching("l.t >= r.t").tolerance("5 seconds").toDF()
 * }}}
 *
 * The join is inner or left. Either [[matching]] or [[direction]] says how the times compare;
 * without either, it looks back between the columns with a watermark.
 */
final class AsOfJoin private[streamjoin] (left: DataFrame, right: DataFrame)
    extends JoinBuilder[AsOfJoin](left, right) {
  private var matched: Option[Closest] = None
  private var directed: Option[Closest] = None
  private var farthest: Option[String] = None
  private var inOrder = true

  override private[streamjoin] def self: AsOfJoin = this

  /**
   * Compares the event times: `l("t") >= r("t")` looks back, `<=` ahead; `>` and `<` exclude equal
   * times.
   */
  def matching(condition: Column): AsOfJoin = {
    matched = Some(Closest.ByColumn(condition))
    this
  }

  /** The same in SQL: `l` and `r` are the inputs, unless one of them has such an alias. */
  def matching(condition: String): AsOfJoin = {
    matched = Some(Closest.BySql(condition))
    this
  }

  /**
   * Compares the columns with a watermark.
   *
   * @param direction
   *   `backward`, `forward` or `nearest`; of two equally close rows, the earlier one matches
   * @param allowExactMatches
   *   whether a row of the same time matches
   */
  def direction(direction: String, allowExactMatches: Boolean): AsOfJoin = {
    directed = Some(Closest.InDirection(direction, allowExactMatches))
    this
  }

  /** The same; a row of the same time matches. */
  def direction(direction: String): AsOfJoin = this.direction(direction, allowExactMatches = true)

  /** The largest distance between the two times; required if the join looks ahead. */
  def tolerance(length: String): AsOfJoin = {
    farthest = Some(length)
    this
  }

  /** The same. */
  def tolerance(length: Duration): AsOfJoin = tolerance(Durations.text(length))

  /** Whether a batch emits its rows in the order of the left time, as it does without this call. */
  def ordered(isOrdered: Boolean): AsOfJoin = {
    inOrder = isOrdered
    this
  }

  override def toDF(): DataFrame =
    TemporalJoins.asof(joined, (matched ++ directed).toSeq, farthest, inOrder)
}
