package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.InlineCTE
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{LeftAnti, LeftSemi}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation
import org.apache.spark.sql.streamjoin.base.{AnalyzedPlan, StreamJoinConf}
import org.apache.spark.sql.streamjoin.plans.{PushdownBarrier, RejectedOperator, StatefulNode}
import org.apache.spark.sql.streamjoin.time.{BatchTime, EventTime}

/**
 * Our operators of a query in the form in which they will run, found by optimizing a copy of the
 * query.
 */
private[streamjoin] object OptimizedQuery {

  /** @throws org.apache.spark.sql.AnalysisException for the lowest operator that is rejected */
  def nodes(query: LogicalPlan, session: SparkSession): Seq[StatefulNode] = nodesIn(of(query, session))

  /** From the inputs up. */
  def nodesIn(optimized: LogicalPlan): Seq[StatefulNode] =
    optimized.collect { case node: StatefulNode => node }.sortBy(_.ordinal)

  /** @throws org.apache.spark.sql.AnalysisException for the lowest operator that is rejected */
  def of(query: LogicalPlan, session: SparkSession): LogicalPlan = {
    val optimized = session.asInstanceOf[ClassicSession].sessionState.optimizer.execute(atBatchTime(query))
    optimized.foreachUp {
      case rejected: RejectedOperator => throw rejected.rejection
      case _ =>
    }
    optimized
  }

  /** Replaces the current time with that of some batch, as MicroBatchExecution.runBatch does. */
  def atBatchTime(query: LogicalPlan): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    query.clone().transformAllExpressionsWithPruning(_.containsPattern(CURRENT_LIKE)) {
      case now: CurrentTimestamp => CurrentBatchTimestamp(0L, now.dataType, Some("UTC"))
      case now: LocalTimestamp => CurrentBatchTimestamp(0L, now.dataType, now.timeZoneId)
      case today: CurrentDate => CurrentBatchTimestamp(0L, today.dataType, today.timeZoneId)
    }
  }
}

/** Prepares an analyzed streaming query for optimization and execution. */
private[streamjoin] object PreparedQuery {

  /** The query in the form in which it is optimized and run. */
  def of(query: LogicalPlan): LogicalPlan =
    SharedColumns.keepApart(
      keepJoins(WatermarkPlacement.keep(inlineShared(BatchTime.of(inlineQueries(query)))))
    )

  /**
   * Makes each reference to a common table expression an input with its own watermarks. Its streams
   * are still read once, as in Spark: a copy of a stream would have other columns and become a
   * separate source.
   */
  private def inlineQueries(query: LogicalPlan): LogicalPlan = {
    val shared = query
      .collect { case WithCTE(_, definitions) => definitions.flatMap(_.collectLeaves()) }
      .flatten
      .filter(_.isStreaming)
    val inlined = AnalysisHelper.allowInvokingTransformsInAnalyzer(InlineCTE(alwaysInline = true)(query))
    if (shared.isEmpty) inlined
    else
      AnalyzedPlan.rewrite(inlined) {
        case leaf: LeafNode if !shared.contains(leaf) =>
          shared.find(isCopy(leaf, _)).fold[LogicalPlan](leaf) { read =>
            Project(
              read.output.zip(leaf.output).map { case (from, to) =>
                Alias(from, to.name)(to.exprId, to.qualifier, Some(to.metadata))
              },
              read
            )
          }
      }
  }

  private def isCopy(leaf: LogicalPlan, of: LogicalPlan): Boolean = (leaf, of) match {
    case (copy: StreamingRelation, original: StreamingRelation) =>
      copy.dataSource.eq(original.dataSource) && copy.copy(output = original.output) == original
    case (copy: StreamingRelationV2, original: StreamingRelationV2) =>
      copy.table.eq(original.table) && copy.copy(output = original.output) == original
    case _ => false
  }

  /** Keeps the left semi and anti joins of a query in place. */
  private def keepJoins(query: LogicalPlan): LogicalPlan = AnalyzedPlan.rewrite(query) {
    case join @ Join(left, _, LeftSemi | LeftAnti, _, _)
        if StreamJoinType.isStreamJoin(join) && !left.isInstanceOf[PushdownBarrier] =>
      join.copy(left = PushdownBarrier(left))
  }

  /**
   * For `d.t - INTERVAL 1 MINUTE BETWEEN ...` or `abs(d.v) BETWEEN ...` Spark computes the middle
   * once, in an extra column below the join. That column would be buffered, messages would name it
   * instead of the user's column, and a checkpoint would not show what it is computed from.
   */
  private def inlineShared(query: LogicalPlan): LogicalPlan =
    AnalyzedPlan.rewrite(query) {
      case node @ (_: Filter | _: BinaryNode) if node.isStreaming =>
        val keepsRows = isOurs(node)
        def isInlined(definition: CommonExpressionDef) = definition.child.deterministic &&
          (isOfTime(definition) || keepsRows && !runsOutsideJoin(definition))
        node.transformExpressions {
          case common: With if common.defs.forall(isInlined) => CommonValues.inPlace(common)
        }
    }

  /** A join that may be left to Spark keeps the columns that it has in plain Spark. */
  private def isOurs(node: LogicalPlan): Boolean = node match {
    case _: Join if StreamJoinConf.handsOver => false
    case both => both.children.size == 2 && both.children.forall(_.isStreaming)
  }

  private def isOfTime(definition: CommonExpressionDef): Boolean =
    definition.child.references.exists(EventTime.isTime)

  /** Spark runs a Python function or a subquery in such a column, but not in a join. */
  private def runsOutsideJoin(definition: CommonExpressionDef): Boolean = definition.child.exists {
    case _: PythonFuncExpression | _: PlanExpression[_] => true
    case _ => false
  }
}
