package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Attribute, SessionWindow}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.plans.{IntervalJoin, JoinPlan, Refused}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkLineage}

import streamjoin.core.Side

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
    } yield (join, if (endsLater(column)) 0L else JoinPlan.Behind)
    val asked = found.map(_._1)
    val behind = found.groupMap(_._1.join) { case (join, behind) => join.key -> behind }
    refusal(operator, asked) match {
      case Some(refusal) => Refused(operator.nodeName, operator.output, operator.children, refusal)
      case None if behind.isEmpty => operator
      case None => operator.mapChildren(ask(_, behind.transform((_, keys) => furthest(keys))))
    }
  }

  private def refusal(operator: LogicalPlan, asked: Seq[ColumnWatermark.Joined]): Option[AnalysisException] =
    asked
      .flatMap(Undefined.of(_, operator))
      .headOption
      .map(Refusals.undefinedWatermark(operator.nodeName, _))
      .orElse(
        Option.when(asked.nonEmpty && goesByOneWatermark && operator.exists(comesLater))(
          Refusals.singleWatermark(operator.nodeName)
        )
      )

  private def goesByOneWatermark: Boolean = !SQLConf.get.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE)

  /** A join whose rows come out when they expire, which Spark's one watermark may have passed by then. */
  private def comesLater(plan: LogicalPlan): Boolean = plan match {
    case join: IntervalJoin => Side.both.exists(join.plan.joinType.pads)
    case _ => false
  }

  private def furthest(keys: Iterable[(Int, Long)]): Map[Int, Long] =
    keys.groupMap(_._1)(_._2).transform((_, behind) => behind.max)

  /** A window ends after each row in it. A session goes on with a row that comes just where it ends. */
  private def endsLater(column: Attribute): Boolean =
    WatermarkLineage.isWindow(column) && !column.metadata.contains(SessionWindow.marker)

  /** The event-time columns whose watermark ends something in an operator. */
  private def awaited(operator: LogicalPlan): Seq[Attribute] =
    (operator match {
      case aggregate: Aggregate => aggregate.groupingExpressions.flatMap(_.references)
      // Deduplication, whatever its keys are, looks for late rows by any of its columns.
      case other if isDeduplication(other) || WatermarkLineage.isStateful(other) =>
        other.children.flatMap(_.output)
      case _ => Nil
    }).filter(WatermarkLineage.isMarked)

  private def isDeduplication(operator: LogicalPlan): Boolean = operator match {
    case _: Deduplicate | _: DeduplicateWithinWatermark => true
    case _ => false
  }

  /** The nearest joins below. Deduplication passes rows on as they come. */
  private def ask(plan: LogicalPlan, behind: Map[Int, Map[Int, Long]]): LogicalPlan = plan match {
    case join: IntervalJoin =>
      val asked = furthest(join.plan.asked.toSeq ++ behind.getOrElse(join.plan.ordinal, Nil))
      join.copy(plan = join.plan.copy(asked = asked))
    case stateful if WatermarkLineage.isStateful(stateful) => stateful
    case other => other.mapChildren(ask(_, behind))
  }
}
