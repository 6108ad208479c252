package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{
  AttributeSet,
  CurrentBatchTimestamp,
  CurrentDate,
  CurrentTimestamp,
  Expression,
  LocalTimestamp
}
import org.apache.spark.sql.catalyst.optimizer.ExtractPythonUDFFromJoinCondition
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.analysis.{
  AwaitedColumns,
  NeverTrue,
  Recognition,
  WatermarkLineage,
  WatermarkPlacement
}
import org.apache.spark.sql.streamjoin.base.{AnalyzedPlan, PredicateParts, StreamJoinConf}
import org.apache.spark.sql.streamjoin.operators.BatchBinding
import org.apache.spark.sql.streamjoin.plans.{
  AsOfMatch,
  HiddenJoin,
  JoinBarrier,
  Refused,
  RowtimeOrder,
  StatefulNode
}
import org.apache.spark.sql.streamjoin.time.BatchTime
import org.apache.spark.sql.streamjoin.watermark.IdleAfter

/** Our operators of a query as they will be, found by optimizing a copy of it. */
private[streamjoin] object OptimizedQuery {

  /** @throws org.apache.spark.sql.AnalysisException for the lowest operator that is refused */
  def nodes(query: LogicalPlan, session: SparkSession): Seq[StatefulNode] = nodesIn(of(query, session))

  /** From the inputs up. */
  def nodesIn(optimized: LogicalPlan): Seq[StatefulNode] =
    optimized.collect { case node: StatefulNode => node }.sortBy(_.ordinal)

  /** @throws org.apache.spark.sql.AnalysisException for the lowest operator that is refused */
  def of(query: LogicalPlan, session: SparkSession): LogicalPlan = {
    // As in MicroBatchExecution.runBatch, so that the optimizer leaves the time of the batch alone.
    val copy = AnalysisHelper.allowInvokingTransformsInAnalyzer {
      query.clone().transformAllExpressionsWithPruning(_.containsPattern(CURRENT_LIKE)) {
        case now: CurrentTimestamp => CurrentBatchTimestamp(0L, now.dataType, Some("UTC"))
        case now: LocalTimestamp => CurrentBatchTimestamp(0L, now.dataType, now.timeZoneId)
        case today: CurrentDate => CurrentBatchTimestamp(0L, today.dataType, today.timeZoneId)
      }
    }
    val optimized = session.asInstanceOf[ClassicSession].sessionState.optimizer.execute(copy)
    optimized.foreachUp {
      case refused: Refused => throw refused.refusal
      case _ =>
    }
    optimized
  }
}

/**
 * `start()`: Spark's checker has seen the query, so that hidden joins can be joins again, for all
 * of Spark's rules.
 */
private[streamjoin] object RestoreJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStream if write.inputQuery.exists(_.isInstanceOf[HiddenJoin]) =>
      write.copy(inputQuery = AnalyzedPlan.rewrite(write.inputQuery) { case hidden: HiddenJoin =>
        hidden.join
      })
    case other => other
  }
}

/**
 * Filters past the barriers that need not keep them, and below an order of rows; columns too.
 * Filters on facts go below a join with versions; one on versions would make a fact meet another
 * one.
 */
private[streamjoin] object PushFilters extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case IdleAfter(_, child) => child
    case Filter(condition, JoinBarrier(child)) if condition.deterministic =>
      JoinBarrier(Filter(condition, child))
    case Filter(condition, order: RowtimeOrder) if condition.deterministic =>
      order.copy(child = Filter(condition, order.child))
    case Filter(condition, join: AsOfMatch)
        if PredicateParts.conjuncts(condition).exists(isOf(join.left, _)) =>
      val (ofLeft, above) = PredicateParts.conjuncts(condition).partition(isOf(join.left, _))
      val pushed = join.copy(left = PredicateParts.all(ofLeft).fold(join.left)(Filter(_, join.left)))
      PredicateParts.all(above).fold[LogicalPlan](pushed)(Filter(_, pushed))
    case project @ Project(_, order: RowtimeOrder) if unused(project, order).nonEmpty =>
      val dropped = unused(project, order)
      project.copy(child =
        order.copy(child = Project(order.child.output.filterNot(dropped.contains), order.child))
      )
  }

  private def isOf(input: LogicalPlan, conjunct: Expression): Boolean =
    conjunct.deterministic && conjunct.references.nonEmpty && conjunct.references.subsetOf(input.outputSet)

  private def unused(project: Project, order: RowtimeOrder): AttributeSet =
    order.child.outputSet -- project.references -- order.references
}

/**
 * After pushdown, pruning and inference: joins of two streams become interval joins, or are
 * refused.
 */
final private[streamjoin] case class RecognizeJoins(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.isStreaming || !StreamJoinConf.enabled) plan
    else {
      // A function of Python's cannot run in a join; Spark moves it out of the condition later,
      // where it no longer sees this join.
      val recognized = recognize(WatermarkPlacement(ExtractPythonUDFFromJoinCondition(plan)))
      BatchBinding.currentTime(session).fold(recognized)(BatchTime.in(recognized, _))
    }

  private def recognize(plan: LogicalPlan): LogicalPlan = {
    // From the inputs up: a join is analysed when the joins below it are known.
    val lineage = WatermarkLineage.within(plan)
    var ordinal = 0
    plan.transformUp {
      case NeverTrue(rows) => rows
      case operator if operator.isStreaming =>
        Operators.recognize(operator, ordinal, lineage) match {
          case Recognition.Found(node) =>
            ordinal += 1
            node
          case Recognition.Rejected(what, error) if !isSparks(operator) =>
            Refused(what, operator.output, operator.children, error)
          case _ => AwaitedColumns(operator, lineage)
        }
    }
  }

  /** Spark has an operator for it, and is to run what we reject. */
  private def isSparks(operator: LogicalPlan): Boolean =
    StreamJoinConf.handsOver && operator.isInstanceOf[Join]
}
