package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.EventTimeOfInput
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

import streamjoin.core.Side

/**
 * Joins of a stream with the versions valid at the times of its rows, or with the closest rows of
 * another stream. `joined` is the resolved plain join of the two, inner or left: `left.join(right,
 * condition, how)`.
 *
 * Durations are text, as in `withWatermark`.
 */
private[streamjoin] object TemporalJoins {

  /**
   * Joins each left row with the version of its key that was valid at its time. A version is valid
   * from its own time, inclusive, until the next version or delete of its key. Of two versions with
   * the same key and time, the one with the greater `order` wins. Without an order, or if the
   * orders are equal, the later one in its Kafka topic wins, if that is known
   * ([[changes.KafkaPosition]]). Otherwise a row wins over a delete; without an order, of two rows
   * the one with the greater values wins, column by column from left to right, nulls lowest.
   *
   * @param key
   *   columns of the right stream that identify a row of the table, or fields of a column; the
   *   condition has an equality for each
   * @param time
   *   event-time column of the right stream
   * @param op
   *   column of the right stream: insert, update or delete, spelled as in Debezium or as in
   *   `readStream.changes`. Without it, all rows are versions.
   * @param order
   *   column of the right stream, such as a position in a log
   * @param asOf
   *   event-time column of the left stream; without it, the one with a watermark
   * @param history
   *   how far a left row may be behind the rows emitted so far without being late: it is emitted
   *   immediately, with the version valid at its time. The output watermark lags by as much.
   * @param ordered
   *   whether a batch emits its rows in the order of `asOf`; otherwise they need no shuffle
   * @param unavailable
   *   stands for a value that was not sent
   */
  def temporal(
      joined: LogicalPlan,
      key: Seq[String],
      time: String,
      op: Option[String],
      order: Option[String],
      asOf: Option[String],
      history: Option[String],
      ordered: Boolean,
      unavailable: Option[String]
  ): LogicalPlan = {
    val call = "sj.temporal_join"
    val at = asOf.getOrElse(timeOf(joined, Side.Left, call)(first => s"as_of=\"$first\""))
    new AsOfJoins(call, "temporal", ordered = ordered)
      .temporal(joined, TemporalColumns(at, key, time, op, order, unavailable), history)
  }

  /**
   * Joins each left row with the closest right row of the same keys.
   *
   * @param by
   *   how the closest row is found; by default, backward between the columns with a watermark
   * @param tolerance
   *   largest distance between the two times; required if the join looks ahead
   * @param ordered
   *   whether a batch emits its rows in the order of the left time; otherwise they need no shuffle
   */
  def asof(
      session: ClassicSession,
      joined: LogicalPlan,
      by: Seq[Closest],
      tolerance: Option[String],
      ordered: Boolean
  ): LogicalPlan = {
    val call = "sj.asof_join"
    val joins = new AsOfJoins(call, "as-of", ordered = ordered)
    def inDirection(closest: Closest.InDirection) = {
      def time(side: Side) = timeOf(joined, side, call) { first =>
        if (side == Side.Left) s"match=\"l.$first >= r.time\"" else s"match=\"l.time >= r.$first\""
      }
      joins
        .asOf(joined, time(Side.Left), time(Side.Right), closest.direction, closest.allowsExact, tolerance)
    }
    by match {
      case Seq() => inDirection(Closest.InDirection("backward", allowsExact = true))
      case Seq(closest: Closest.InDirection) => inDirection(closest)
      case Seq(Closest.ByCondition(condition)) => joins.asOf(joined, condition, tolerance)
      case Seq(Closest.BySql(condition)) =>
        joins.asOf(joined, resolved(session, joined, condition, joins), tolerance)
      case _ =>
        throw StreamJoinErrors.analysis("STREAMJOIN_TEMPORAL.CONDITION_AND_DIRECTION", "join" -> "as-of")
    }
  }

  private def timeOf(joined: LogicalPlan, side: Side, call: String)(named: String => String): String = {
    val words = EventTimeOfInput.Words(call, "STREAMJOIN_NOT_A_STREAM.AS_OF", Some(named))
    val join = joined.collectFirst { case join: Join => join }.get
    quoteIfNeeded(EventTimeOfInput.of(join, side, words).name)
  }

  /**
   * A condition in SQL, resolved: `l` and `r` are the inputs, unless one of them has such an alias.
   */
  private def resolved(
      session: ClassicSession,
      joined: LogicalPlan,
      condition: String,
      joins: AsOfJoins
  ): Expression = {
    val sides = joined.collectFirst { case Join(left, right, _, _, _) =>
      Map("l" -> left, "r" -> right).filterNot { case (name, _) =>
        Seq(left, right).exists(isAlias(name, _))
      }
    }
    def inputOf(name: String) = sides.flatMap(_.collectFirst {
      case (side, input) if SQLConf.get.resolver(side, name) => input
    })
    val ofSides = session.sessionState.sqlParser.parseExpression(condition).transform {
      case name @ UnresolvedAttribute(Seq(side, column)) =>
        inputOf(side).fold[Expression](name)(joins.column(_, quoteIfNeeded(column)))
    }
    ClassicDataset.ofRows(session, Filter(ofSides, joined)).queryExecution.analyzed match {
      case Filter(resolved, _) => resolved
      case other => throw new IllegalArgumentException(s"no condition: $other")
    }
  }

  private def isAlias(name: String, input: LogicalPlan): Boolean =
    input.output.exists(_.qualifier.lastOption.exists(SQLConf.get.resolver(_, name)))
}

/** How the closest row is found. */
sealed private[streamjoin] trait Closest

private[streamjoin] object Closest {

  /** A resolved comparison of the two event times. */
  final case class ByCondition(condition: Expression) extends Closest

  /** A comparison of the two event times in SQL. */
  final case class BySql(condition: String) extends Closest

  /**
   * A direction between the columns with a watermark.
   *
   * @param direction
   *   `backward`, `forward` or `nearest`; of two equally close rows, the earlier one matches
   * @param allowsExact
   *   whether a row of the same time matches
   */
  final case class InDirection(direction: String, allowsExact: Boolean) extends Closest
}
