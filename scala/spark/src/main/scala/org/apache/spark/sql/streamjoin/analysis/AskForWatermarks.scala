package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.plans.IntervalJoin
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark.{Joined, Shifted, Smallest}
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
      join <- joins(watermark)
    } yield (join, WatermarkLineage.isWindow(column))
    val (asked, windows) = found.unzip
    asked.find(!_.isDefined).foreach { undefined =>
      operator
        .collectFirst { case join: IntervalJoin if join.plan.ordinal == undefined.join => join }
        .foreach { join =>
          val moving = join.times.indices.find(join.plan.handedOn(_).isDefined).map(join.times)
          val name = named(operator)
          throw Refusals.undefinedWatermark(
            operator.nodeName,
            name(join.times(undefined.key)),
            moving.map(name)
          )
        }
    }
    if (asked.nonEmpty && !SQLConf.get.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE))
      throw Refusals.singleWatermark(operator.nodeName)
    val keys = asked.groupMap(_.join)(_.key)
    if (keys.isEmpty) operator else operator.mapChildren(ask(_, keys, windows.forall(identity)))
  }

  /** What the user calls the columns, from wherever in the plan one stands with its alias. */
  private def named(plan: LogicalPlan): Attribute => String = {
    val aliases = plan
      .flatMap(_.expressions)
      .flatMap(_.collect { case column: AttributeReference => column })
      .flatMap(column => column.qualifier.lastOption.map(column.exprId -> _))
      .toMap
    column => (aliases.get(column.exprId).toSeq :+ column.name).mkString(".")
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

  private def joins(watermark: ColumnWatermark): Seq[Joined] = watermark match {
    case join: Joined => Seq(join)
    case Shifted(_, column) => joins(column)
    case Smallest(branches) => branches.flatMap(joins)
    case _ => Nil
  }

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
