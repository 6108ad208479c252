package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
import org.apache.spark.sql.catalyst.expressions.{Alias, CommonExpressionDef, CommonExpressionRef, With}
import org.apache.spark.sql.catalyst.optimizer.InlineCTE
import org.apache.spark.sql.catalyst.plans.logical.{
  AnalysisHelper,
  EventTimeWatermark,
  Filter,
  Join,
  LeafNode,
  LogicalPlan,
  Project,
  WithCTE
}
import org.apache.spark.sql.catalyst.plans.{LeftAnti, LeftSemi}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.{
  InternalOutputModes,
  StreamingRelationV2,
  WriteToStreamStatement
}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.streamjoin.analysis.{
  SharedColumns,
  StreamJoinType,
  WatermarkLineage,
  WatermarkPlacement
}
import org.apache.spark.sql.streamjoin.base.{AnalyzedPlan, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.operators.table.{RecognizeRematch, TableJoin}
import org.apache.spark.sql.streamjoin.plans.{
  AsOfMatch,
  HiddenJoin,
  JoinBarrier,
  RowtimeOrder,
  StatefulNode,
  TableRematch
}
import org.apache.spark.sql.streamjoin.time.{BatchTime, EventTime}
import org.apache.spark.sql.streamjoin.watermark.{DataRows, IdleAfter}
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * Rejects a streaming query that cannot run, and prepares one that can. Spark calls the rule at
 * `start()`, in the first analyzer batch that a plugin can reach ("Hints"): right after it,
 * `ResolveWriteToStream` runs Spark's checker of unsupported operations, so our errors come before
 * Spark's.
 */
final private[streamjoin] case class PrepareStreamingQuery(session: SparkSession) extends Rule[LogicalPlan] {
  import PrepareStreamingQuery._

  override def apply(plan: LogicalPlan): LogicalPlan = {
    checkTables(plan)
    prepared(plan)
  }

  /** Checks the tables that a stream looks up. */
  private def checkTables(plan: LogicalPlan): Unit = plan match {
    case write: WriteToStreamStatement if TableJoin.areIn(write.inputQuery) =>
      TableJoin.checkWritten(write.inputQuery)
      TableJoin.check(OptimizedQuery.of(visible(write.inputQuery), session))
    case _ =>
  }

  private def prepared(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStreamStatement
        if Operators.areIn(write.inputQuery) && !isPrepared(write.inputQuery) && StreamJoinConf.enabled =>
      StreamJoinConf.checkNames()
      val query = numbered(visible(write.inputQuery))
      checkMarks(query)
      val optimized = OptimizedQuery.of(query, session)
      val nodes = OptimizedQuery.nodesIn(optimized)
      if (nodes.isEmpty) checkInputs(query)
      if (nodes.isEmpty && Operators.areIn(optimized)) write
      else {
        checkOutputMode(write.outputMode, query, nodes)
        checkStateStore()
        write.copy(inputQuery = hidden(query, optimized))
      }
    case write: WriteToStreamStatement if !StreamJoinConf.enabled =>
      write.inputQuery.foreach {
        case NeedsExtension(refusal) => throw refusal
        case _ =>
      }
      write
    case write: WriteToStreamStatement if !isPrepared(write.inputQuery) =>
      checkInputs(write.inputQuery)
      write
    case other => other
  }
}

private[streamjoin] object PrepareStreamingQuery {

  /** Operators that Spark cannot run in place of ours, with the error that says so. */
  object NeedsExtension {
    def unapply(operator: LogicalPlan): Option[AnalysisException] = operator match {
      case order: RowtimeOrder =>
        Some(StreamJoinErrors.analysis("STREAMJOIN_ORDER_DISABLED", "column" -> order.time.name))
      case join: AsOfMatch =>
        Some(StreamJoinErrors.analysis("STREAMJOIN_TEMPORAL_DISABLED", "column" -> join.leftTime.name))
      case join: TableRematch => Some(RecognizeRematch.disabled(join))
      case _ => None
    }
  }

  /** The analyzer repeats this batch of rules until nothing changes. */
  private def isPrepared(query: LogicalPlan): Boolean = query.exists(_.isInstanceOf[HiddenJoin])

  /** The query in the form in which it is optimized and run. */
  def visible(query: LogicalPlan): LogicalPlan =
    SharedColumns.keepApart(
      keepJoins(WatermarkPlacement.keep(inlineTimes(BatchTime.of(inlineQueries(query)))))
    )

  /**
   * Hides the joins that we run from Spark's checker. The joins that Spark runs stay visible: the
   * optimized query still has a join of the same inputs.
   */
  private def hidden(query: LogicalPlan, optimized: LogicalPlan): LogicalPlan = {
    val sparks = optimized.collect {
      case join: Join if StreamJoinType.isStreamJoin(join) => inputs(join)
    }.toSet
    AnalyzedPlan.rewrite(query) {
      case join: Join if StreamJoinType.isStreamJoin(join) && !sparks(inputs(join)) =>
        HiddenJoin(join.left, join.right, join.joinType, join.condition, join.hint)
    }
  }

  private val LeafNumber = TreeNodeTag[Int]("streamjoin.leaf")

  /** Tags each leaf of the query with a number; the optimizer keeps the tags. */
  private def numbered(query: LogicalPlan): LogicalPlan = {
    // A plan that occurs twice becomes two plans.
    val own = query.clone()
    own.collectLeaves().zipWithIndex.foreach { case (leaf, number) => leaf.setTagValue(LeafNumber, number) }
    own.setAnalyzed()
    own
  }

  /** The leaves on either side identify a join. */
  private def inputs(join: Join): Seq[Set[Int]] =
    join.children.map(_.collectLeaves().flatMap(_.getTagValue(LeafNumber)).toSet)

  /**
   * Makes each reference to a common table expression an input with its own watermarks. Its streams
   * are still read once, as in Spark: a copy of one has other columns, and would be a source of its
   * own.
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

  /** Keeps the left semi and anti joins of a query where they are. */
  private def keepJoins(query: LogicalPlan): LogicalPlan = AnalyzedPlan.rewrite(query) {
    case join @ Join(left, _, LeftSemi | LeftAnti, _, _)
        if StreamJoinType.isStreamJoin(join) && !left.isInstanceOf[JoinBarrier] =>
      join.copy(left = JoinBarrier(left))
  }

  /**
   * For `d.t - INTERVAL 1 MINUTE BETWEEN ...` Spark computes the middle once, in an extra column
   * below the join. That column would be buffered, and named instead of the one that the user
   * wrote.
   */
  private def inlineTimes(query: LogicalPlan): LogicalPlan =
    AnalyzedPlan.rewrite(query) {
      case node @ (_: Filter | _: Join) if node.isStreaming =>
        node.transformExpressions {
          case With(child, definitions) if definitions.forall(isOfTime) =>
            val byId = definitions.map(definition => definition.id -> definition.child).toMap
            child.transform { case CommonExpressionRef(id, _, _) if byId.contains(id) => byId(id) }
        }
    }

  private def isOfTime(definition: CommonExpressionDef): Boolean =
    definition.child.deterministic && definition.child.references.exists(EventTime.isTime)

  // What Spark's checker would say if it saw the joins.

  private def checkOutputMode(mode: OutputMode, query: LogicalPlan, nodes: Seq[StatefulNode]): Unit =
    if (mode != InternalOutputModes.Append) {
      nodes.foreach { node =>
        if (mode != InternalOutputModes.Update || !node.runsInUpdateMode)
          throw StreamJoinErrors.analysis(
            "STREAMJOIN_OUTPUT_MODE",
            "type" -> node.typeName,
            "mode" -> mode.toString.toLowerCase
          )
      }
      // An aggregation below a join would emit every change of a group.
      if (SQLConf.get.isUnsupportedOperationCheckEnabled)
        UnsupportedOperationChecker.checkStreamingQueryGlobalWatermarkLimit(query, mode)
    }

  /** Rejects a second watermark on an input that has one: Spark fails in its second batch. */
  private def checkMarks(query: LogicalPlan): Unit = query.foreach {
    case upper: EventTimeWatermark =>
      WatermarkLineage.markBelow(upper.child).foreach { lower =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_TWO_WATERMARKS",
          "first" -> lower.eventTime.name,
          "second" -> upper.eventTime.name
        )
      }
    case _ =>
  }

  /** Rejects calls that would have no effect: Spark's operators use Spark's own watermark. */
  private def checkInputs(query: LogicalPlan): Unit =
    query
      .collectFirst {
        case _: IdleAfter => "sj.idle_after"
        case rows: DataRows if rows.partition.isDefined => "per= of sj.with_bounds"
      }
      .foreach { call =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_INPUT",
          "call" -> call,
          "reason" -> "the query has no join of two streams that streamjoin runs, and Spark's own operators take no notice",
          "advice" -> "Leave it out."
        )
      }

  private def checkStateStore(): Unit = {
    val encoding = SQLConf.get.stateStoreEncodingFormat
    if (encoding != "unsaferow")
      throw StreamJoinErrors.analysis("STREAMJOIN_STATE_ENCODING", "encoding" -> encoding)
  }
}
