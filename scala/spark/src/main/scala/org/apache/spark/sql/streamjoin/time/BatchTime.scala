package org.apache.spark.sql.streamjoin.time

import java.time.Instant

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, BinaryNode, Filter, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan
import org.apache.spark.sql.types.{DataType, DateType, TimeType, TimestampNTZType}

/**
 * The time of a batch in a condition: `now()`, `current_time()`, `current_timestamp()`,
 * `current_date()`, `localtimestamp()`.
 *
 * Spark treats these in two ways. `now()` and `current_time()` become literals with the time at
 * which the batch is optimized. The next run would have another literal, so its condition would
 * differ from that of the state. The others are the time in the offset log, but they are not
 * deterministic and therefore not allowed in a join. This expression replaces all of them with the
 * time in the offset log; it becomes a literal once the joins are recognized.
 */
final private[streamjoin] case class BatchTime(dataType: DataType, timeZoneId: Option[String])
    extends LeafExpression
    with Unevaluable {
  override def nullable: Boolean = false

  /** The text is the same in all runs: a checkpoint accepts only its original condition. */
  override def prettyName: String = "current_batch_timestamp"

  /** As a user would write it. */
  def written: Expression = dataType match {
    case DateType => CurrentDate(timeZoneId)
    case TimestampNTZType => LocalTimestamp(timeZoneId)
    case time: TimeType => CurrentTime(Literal(time.precision), timeZoneId)
    case _ => CurrentTimestamp()
  }

  private def at(millis: Long): Literal = dataType match {
    case time: TimeType =>
      val zone = DateTimeUtils.getZoneId(timeZoneId.get)
      val nanos = DateTimeUtils.instantToNanosOfDay(Instant.ofEpochMilli(millis), zone)
      Literal(DateTimeUtils.truncateTimeToPrecision(nanos, time.precision), time)
    case _ => CurrentBatchTimestamp(millis, dataType, timeZoneId).toLiteral
  }
}

private[streamjoin] object BatchTime {

  /**
   * Inserts the time of the batch into the conditions of an analyzed query, but not into tables.
   */
  def of(query: LogicalPlan): LogicalPlan = AnalyzedPlan.rewrite(query) {
    case node if node.isStreaming && node.expressions.exists(_.containsPattern(CURRENT_LIKE)) =>
      node match {
        // No join, not even one of streamjoin, may have an expression that is not deterministic.
        case join: BinaryNode => join.transformExpressions { case OfTheBatch(time) => time }
        // Spark may move a filter into a join, or push it into the join's inputs.
        case filter: Filter => filter.transformExpressions { case WhenOptimized(time) => time }
        // An aggregation allows only deterministic expressions.
        case aggregate: Aggregate => aggregate
        case other => other.transformExpressions { case _: Now => CurrentTimestamp() }
      }
  }

  /** Functions that Spark replaces by a literal. */
  private object WhenOptimized {
    def unapply(expression: Expression): Option[BatchTime] = expression match {
      case now: Now => Some(BatchTime(now.dataType, Some("UTC")))
      case time: CurrentTime => Some(BatchTime(time.dataType, time.timeZoneId))
      case _ => None
    }
  }

  private object OfTheBatch {
    def unapply(expression: Expression): Option[BatchTime] = expression match {
      case WhenOptimized(time) => Some(time)
      case now: CurrentTimestamp => Some(BatchTime(now.dataType, Some("UTC")))
      case now: LocalTimestamp => Some(BatchTime(now.dataType, now.timeZoneId))
      case today: CurrentDate => Some(BatchTime(today.dataType, today.timeZoneId))
      case _ => None
    }
  }

  /** Whether an expression differs from batch to batch. */
  def isIn(expression: Expression): Boolean =
    expression.exists(part => part.isInstanceOf[BatchTime] || part.isInstanceOf[CurrentBatchTimestamp])

  /** The optimized query at a given time, in milliseconds. */
  def in(plan: LogicalPlan, millis: Long): LogicalPlan =
    plan.transformAllExpressions { case time: BatchTime => time.at(millis) }
}
