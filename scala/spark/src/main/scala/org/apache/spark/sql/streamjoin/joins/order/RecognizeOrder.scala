package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.streamjoin.analysis.{
  NeverTrue,
  Recognition,
  Recognizer,
  RowConstraintsOf,
  UndefinedWatermark,
  WatermarkLineage
}
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, Wording}
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

import streamjoin.core.{Side, TimeBound}

/** Converts a [[RowtimeOrder]] to a [[StreamOrder]], or rejects it with an error. */
private[streamjoin] object RecognizeOrder extends Recognizer {

  override def isMine(operator: LogicalPlan): Boolean = operator match {
    case order: RowtimeOrder => order.isStreaming
    case _ => false
  }

  override def recognize(operator: LogicalPlan, ordinal: Int, lineage: WatermarkLineage): Recognition =
    operator match {
      case order: RowtimeOrder if isMine(order) =>
        joinBelow(order).fold(above(order, ordinal, lineage))(aboveJoin(order, _, ordinal, lineage))
      case _ => Recognition.NotApplicable
    }

  /**
   * The window join below, with only projections and filters in between. None if it cannot match
   * anything, or if Spark runs it.
   */
  private def joinBelow(order: RowtimeOrder): Option[StatefulNode] = {
    def find(plan: LogicalPlan): Option[StatefulNode] = plan match {
      case _ if NeverTrue.isInPlaceOfJoin(plan) => None
      case join: StatefulNode => Some(join)
      case Project(_, child) => find(child)
      case Filter(_, child) => find(child)
      case _ => None
    }
    order.windows.flatMap(_ => find(order.child))
  }

  private def aboveJoin(
      order: RowtimeOrder,
      join: StatefulNode,
      ordinal: Int,
      lineage: WatermarkLineage
  ): Recognition = {
    // Other times that the join compares may be far behind, such as the days of these two.
    val reached = order.times.flatMap(join.received(_)).map(_._2) match {
      case both if both.size == Side.both.size => both
      case _ => join.evictedBy
    }
    val center = for {
      column <- order.center
      (key, own) <- join.received(column)
    } yield OrderSpec.Center(join.ordinal, key, own, reached)
    val time = order.center.flatMap(join.outputWatermark).getOrElse(ColumnWatermark.Smallest(reached))
    ordered(order, ordinal, time, center, lineage)
  }

  private def above(order: RowtimeOrder, ordinal: Int, lineage: WatermarkLineage): Recognition =
    lineage.of(order.time, order.child) match {
      case Some(time) => ordered(order, ordinal, time, None, lineage)
      case None =>
        val inSql = Wording.isSql(order)
        val error = StreamJoinErrors.analysis(
          "STREAMJOIN_ORDER_TIME",
          "column" -> order.time.name,
          "mark" -> Wording.mark(if (inSql) "t" else "df", order.time.name, inSql)
        )
        Recognition.Rejected(OrderKind.nodeName, error)
    }

  private def ordered(
      order: RowtimeOrder,
      ordinal: Int,
      time: ColumnWatermark,
      center: Option[OrderSpec.Center],
      lineage: WatermarkLineage
  ): Recognition = UndefinedWatermark.of(time, order.child) match {
    case Some(where) => Recognition.Rejected(OrderKind.nodeName, where.rejected("The order of its rows"))
    case None => Recognition.Found(found(order, ordinal, time, center, lineage))
  }

  private def found(
      order: RowtimeOrder,
      ordinal: Int,
      time: ColumnWatermark,
      center: Option[OrderSpec.Center],
      lineage: WatermarkLineage
  ): StreamOrder = {
    val others = lineage.columns(order.child).map(_._1).filter(_.exprId != order.time.exprId)
    val times = order.time +: others
    val lags = maxLagMicros(order, times)
    val plan = OrderSpec(
      ordinal,
      time,
      center,
      lags,
      order.span,
      operatorBelow(order.child),
      RowConstraintsOf(order.child).among(times.map(_.exprId)).filter(_.in != 0) ++
        lags.zipWithIndex.collect { case (Some(lag), key) if key != 0 => TimeBound(key, 0, lag) }
    )
    StreamOrder(order.child, times, order.windows, plan)
  }

  private def operatorBelow(plan: LogicalPlan): Option[OrderSpec.Below] = plan match {
    case node: StatefulNode => node.partitions.map(OrderSpec.Below(node.ordinal, _))
    case Project(_, child) => operatorBelow(child)
    case Filter(_, child) => operatorBelow(child)
    case _ => None
  }

  private def maxLagMicros(order: RowtimeOrder, times: Seq[Attribute]): IndexedSeq[Option[Long]] = {
    val below = RowConstraintsOf(order.child)
    times.toIndexedSeq.map { column =>
      if (column.exprId == order.time.exprId) Some(0L)
      else
        order.times
          .zip(order.maxLagMicros)
          .collectFirst { case (known, micros) if known.exprId == column.exprId => micros }
          .orElse(below.maxLagMicros(column.exprId, order.time.exprId))
    }
  }
}
