package streamjoin

import java.time.Duration

import org.apache.spark.sql.{Column, DataFrame}

/**
 * Joins each row of a stream with the row of another stream that has the same key and is closest in
 * time. A row waits until the watermarks rule out a closer one.
 *
 * {{{
 * StreamJoin.asOf(trades, quotes).on("symbol").matching("l.t >= r.t").tolerance("5 seconds").toDF()
 * }}}
 *
 * The join is inner or left. Either [[matching]] or [[direction]] defines how the times compare.
 * Without either, the join looks backward and compares the columns with a watermark.
 */
final class AsOfJoin private[streamjoin] (left: DataFrame, right: DataFrame)
    extends JoinBuilder[AsOfJoin](left, right) {
  private var times: Option[Column] = None

  /**
   * Sets the comparison of the event times. `l("t") >= r("t")` looks backward, `<=` forward; `>`
   * and `<` exclude equal times.
   */
  def matching(condition: Column): AsOfJoin = {
    times = Some(condition)
    set("match" -> None)
  }

  /**
   * Sets the comparison of the event times, as SQL text: `l.t >= r.t`. `l` and `r` are the inputs,
   * unless one of them has such an alias.
   */
  def matching(condition: String): AsOfJoin = {
    times = None
    set("match" -> condition)
  }

  /**
   * Compares the columns with a watermark in the given direction.
   *
   * @param direction
   *   `backward`, `forward` or `nearest`. Of two equally close rows, the earlier one matches.
   * @param allowExactMatches
   *   whether a row of the same time matches
   */
  def direction(direction: String, allowExactMatches: Boolean): AsOfJoin =
    set("direction" -> direction, "allow_exact_matches" -> allowExactMatches)

  /** Compares the columns with a watermark. A row of the same time matches. */
  def direction(direction: String): AsOfJoin = this.direction(direction, allowExactMatches = true)

  /** Sets the largest distance between the two times. Required if the join looks forward. */
  def tolerance(length: String): AsOfJoin = set("tolerance" -> length)

  /** Sets the largest distance between the two times. */
  def tolerance(length: Duration): AsOfJoin = tolerance(Durations.text(length))

  /** Sets whether a batch emits its rows in the order of the left time. Default: true. */
  def ordered(isOrdered: Boolean): AsOfJoin = set("ordered" -> isOrdered)

  override def toDF(): DataFrame = call("sj_asof_join", times.toSeq: _*)
}
