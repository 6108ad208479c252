package org.apache.spark.sql.streamjoin.time

import java.time.{Instant, ZoneId}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan
import org.apache.spark.sql.types.{DataType, TimeType}

/**
 * The time of a batch in a condition: `now()`, `current_time()`, `current_timestamp()`,
 * `current_date()`, `localtimestamp()`.
 *
 * Spark has two ways with them. `now()` and `current_time()` are literals with the time at which
 * the batch is optimized: another one in the next run, so that a condition would not be the one
 * whose state is there. The others are the time in the offset log, but not deterministic, and so
 * not allowed in a join. This is the time in the offset log, for all of them; it becomes a literal
 * once the joins are recognised.
 */
final private[streamjoin] case class BatchTime(dataType: DataType, timeZoneId: Option[String])
    extends LeafExpression
    with Unevaluable {
  override def nullable: Boolean = false

  /** One text in all runs: the condition is part of what a checkpoint belongs to. */
  override def prettyName: String = "current_batch_timestamp"

  private def at(millis: Long): Literal = dataType match {
    case time: TimeType =>
      val zone = ZoneId.of(timeZoneId.get)
      val nanos = DateTimeUtils.instantToNanosOfDay(Instant.ofEpochMilli(millis), zone)
      Literal(DateTimeUtils.truncateTimeToPrecision(nanos, time.precision), time)
    case _ => CurrentBatchTimestamp(millis, dataType, timeZoneId).toLiteral
  }
}

private[streamjoin] object BatchTime {

  /** The analyzed query with the time of the batch in its conditions. Tables are left alone. */
  def of(query: LogicalPlan): LogicalPlan = AnalyzedPlan.rewrite(query) {
    case node if node.isStreaming && node.expressions.exists(_.containsPattern(CURRENT_LIKE)) =>
      node match {
        case join: Join => join.transformExpressions { case OfTheBatch(time) => time }
        // Filters that Spark takes into a join, or pushes into its inputs.
        case filter: Filter => filter.transformExpressions { case WhenOptimized(time) => time }
        // An aggregation takes nothing that is not deterministic.
        case aggregate: Aggregate => aggregate
        case other => other.transformExpressions { case _: Now => CurrentTimestamp() }
      }
  }

  /** What is a literal in Spark. */
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

  /** It differs from batch to batch. */
  def isIn(expression: Expression): Boolean =
    expression.exists(part => part.isInstanceOf[BatchTime] || part.isInstanceOf[CurrentBatchTimestamp])

  /** The optimized query as it is at a time, in milliseconds. */
  def in(plan: LogicalPlan, millis: Long): LogicalPlan =
    plan.transformAllExpressions { case time: BatchTime => time.at(millis) }
}
