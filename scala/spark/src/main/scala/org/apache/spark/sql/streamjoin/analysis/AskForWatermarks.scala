package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.plans.IntervalJoin
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkLineage}

/**
 * A stateful operator of Spark's above joins of ours: tells the joins which columns it waits for, so that another column,
 * whose watermark is further behind, does not hold it up.
 */
private[streamjoin] object AskForWatermarks {

  def apply(operator: LogicalPlan, lineage: WatermarkLineage): LogicalPlan = {
    val found = for {
      column <- awaited(operator)
      child <- operator.children
      watermark <- lineage.of(column, child).toSeq
      join <- ColumnWatermark.joins(watermark)
    } yield (join, WatermarkLineage.isWindow(column))
    val (asked, windows) = found.unzip
    asked
      .flatMap(Undefined.of(_, operator))
      .headOption
      .foreach(where => throw Refusals.undefinedWatermark(operator.nodeName, where))
    if (asked.nonEmpty && !SQLConf.get.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE))
      throw Refusals.singleWatermark(operator.nodeName)
    val keys = asked.groupMap(_.join)(_.key)
    if (keys.isEmpty) operator else operator.mapChildren(ask(_, keys, windows.forall(identity)))
  }

  /** The event-time columns whose watermark ends something in an operator. */
  private def awaited(operator: LogicalPlan): Seq[Attribute] =
    (operator match {
      case aggregate: Aggregate => aggregate.groupingExpressions.flatMap(_.references)
      // Whatever its keys are, it looks for late rows by any of its columns.
      case once @ (_: Deduplicate | _: DeduplicateWithinWatermark) => once.children.flatMap(_.output)
      case stateful if WatermarkLineage.isStateful(stateful) => stateful.children.flatMap(_.output)
      case _ => Nil
    }).filter(WatermarkLineage.isMarked)

  /** The nearest joins below. Deduplication passes rows on as they come. */
  private def ask(plan: LogicalPlan, keys: Map[Int, Seq[Int]], windows: Boolean): LogicalPlan = plan match {
    case join: IntervalJoin if keys.contains(join.plan.ordinal) =>
      val asked = join.plan.asked ++ keys(join.plan.ordinal)
      join.copy(plan = join.plan.copy(asked = asked, windowsOnly = join.plan.windowsOnly && windows))
    case join: IntervalJoin => join
    case stateful if WatermarkLineage.isStateful(stateful) => stateful
    case other => other.mapChildren(ask(_, keys, windows))
  }
}
