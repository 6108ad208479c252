package org.apache.spark.sql.streamjoin

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.RewriteCollationJoin
import org.apache.spark.sql.catalyst.expressions.{
  CommonExpressionDef,
  CommonExpressionRef,
  CurrentBatchTimestamp,
  CurrentDate,
  CurrentTimestamp,
  LocalTimestamp,
  With
}
import org.apache.spark.sql.catalyst.optimizer.{ExtractPythonUDFFromJoinCondition, InlineCTE}
import org.apache.spark.sql.catalyst.plans.logical.{
  AnalysisHelper,
  EventTimeWatermark,
  Filter,
  Join,
  LogicalPlan
}
import org.apache.spark.sql.catalyst.plans.{LeftAnti, LeftSemi}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.{InternalOutputModes, WriteToStreamStatement}
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.{AskForWatermarks, RecognizeJoin}
import org.apache.spark.sql.streamjoin.plans.{HiddenJoin, IntervalJoin, JoinBarrier, WatermarkBarrier}
import org.apache.spark.sql.streamjoin.watermark.WatermarkLineage

/**
 * `start()`: refuses what cannot run, and prepares what can. It runs in the first batch of the analyzer that a plugin
 * can reach ("Hints"), for `ResolveWriteToStream`, which runs Spark's checker of unsupported operations, comes right
 * after it; so our errors come before Spark's.
 */
final private[streamjoin] case class PrepareStreamingQuery(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStreamStatement if StreamJoinConf.enabled && StreamJoins.areIn(write.inputQuery) =>
      StreamJoinConf.checkNames()
      val prepared = PrepareStreamingQuery.prepare(write.inputQuery)
      val optimized = StreamJoins.optimized(prepared, session)
      val joins = StreamJoins.in(optimized)
      if (joins.isEmpty) write
      else {
        if (write.outputMode != InternalOutputModes.Append)
          throw StreamJoinErrors.analysis(
            "STREAMJOIN_OUTPUT_MODE",
            "mode" -> write.outputMode.toString.toLowerCase
          )
        PrepareStreamingQuery.checkStateStore()
        // Where some join is handed to Spark, Spark's checker has to see it; it then sees all of them.
        val someAreSparks = StreamJoins.areIn(optimized)
        write.copy(inputQuery =
          if (someAreSparks) PrepareStreamingQuery.visible(write.inputQuery) else prepared
        )
      }
    case other => other
  }
}

private[streamjoin] object PrepareStreamingQuery {

  /** The query with its joins out of sight of Spark's checker and its watermarks before the filters. */
  def prepare(query: LogicalPlan): LogicalPlan = rewrite(visible(query)) {
    case Join(left, right, joinType, condition, hint) if RecognizeJoin.isStreamJoin(left, right, joinType) =>
      HiddenJoin(left, right, joinType, condition, hint)
  }

  /** The same, with its joins in sight. */
  def visible(query: LogicalPlan): LogicalPlan =
    keepJoins(keepWatermarks(distinctMarks(inlineTimes(inlineQueries(query)))))

  /** Each reference to a common table expression is an input with watermarks of its own. */
  private def inlineQueries(query: LogicalPlan): LogicalPlan =
    AnalysisHelper.allowInvokingTransformsInAnalyzer(InlineCTE(alwaysInline = true)(query))

  /**
   * A mark that stands in several places is several. Under one id, the copies of a stream that is joined twice would be
   * taken for one, and run as one where Spark reuses an exchange.
   */
  private def distinctMarks(query: LogicalPlan): LogicalPlan = {
    val seen = mutable.Set.empty[UUID]
    rewrite(query) {
      case mark: EventTimeWatermark if !seen.add(mark.nodeId) => mark.copy(nodeId = UUID.randomUUID())
    }
  }

  /** The query with its watermarks before the filters that are written after them. */
  private def keepWatermarks(query: LogicalPlan): LogicalPlan =
    if (query.exists(_.isInstanceOf[WatermarkBarrier])) query
    else rewrite(query) { case mark: EventTimeWatermark => WatermarkBarrier(mark) }

  /** What Spark's checker would say, did it see the joins. */
  private def checkStateStore(): Unit = {
    val encoding = SQLConf.get.stateStoreEncodingFormat
    if (encoding != "unsaferow")
      throw StreamJoinErrors.analysis("STREAMJOIN_STATE_ENCODING", "encoding" -> encoding)
  }

  /** The query with its left semi and anti joins kept where they are. */
  private def keepJoins(query: LogicalPlan): LogicalPlan = rewrite(query) {
    case join @ Join(left, right, joinType @ (LeftSemi | LeftAnti), _, _)
        if RecognizeJoin.isStreamJoin(left, right, joinType) && !left.isInstanceOf[JoinBarrier] =>
      join.copy(left = JoinBarrier(left))
  }

  /**
   * `d.t - INTERVAL 1 MINUTE BETWEEN ...` has Spark compute its middle once, in a column of its own below the join. That
   * column would be kept in state, and named in place of the one that the user wrote.
   */
  def inlineTimes(query: LogicalPlan): LogicalPlan = rewrite(query) { case node @ (_: Filter | _: Join) =>
    node.transformExpressions {
      case With(child, definitions) if definitions.forall(isOfTime) =>
        val byId = definitions.map(definition => definition.id -> definition.child).toMap
        child.transform { case CommonExpressionRef(id, _, _) if byId.contains(id) => byId(id) }
    }
  }

  private def isOfTime(definition: CommonExpressionDef): Boolean =
    definition.child.deterministic && definition.child.references.exists(WatermarkLineage.isTime)

  private def rewrite(query: LogicalPlan)(rule: PartialFunction[LogicalPlan, LogicalPlan]): LogicalPlan =
    AnalysisHelper.allowInvokingTransformsInAnalyzer {
      val rewritten = query.transformUp(rule)
      // It was analyzed before, and stays so: nothing in it has to be resolved again.
      rewritten.setAnalyzed()
      rewritten
    }
}

/** The joins of a query as they will be, found by optimizing a copy of it. */
private[streamjoin] object StreamJoins {

  /** There are some in a query, as the user wrote it or hidden. */
  def areIn(query: LogicalPlan): Boolean = query.exists {
    case _: HiddenJoin => true
    case join: Join => RecognizeJoin.isStreamJoin(join.left, join.right, join.joinType)
    case _ => false
  }

  /** @throws org.apache.spark.sql.AnalysisException for a join that is refused */
  def of(query: LogicalPlan, session: SparkSession): Seq[IntervalJoin] =
    in(optimized(query, session))

  /** From the inputs up. */
  def in(optimized: LogicalPlan): Seq[IntervalJoin] =
    optimized.collect { case join: IntervalJoin => join }.sortBy(_.plan.ordinal)

  def optimized(query: LogicalPlan, session: SparkSession): LogicalPlan = {
    // As in MicroBatchExecution.runBatch, so that the optimizer leaves the time of the batch alone.
    val copy = AnalysisHelper.allowInvokingTransformsInAnalyzer {
      val inlined = PrepareStreamingQuery.inlineTimes(query.clone())
      inlined.transformAllExpressionsWithPruning(_.containsPattern(CURRENT_LIKE)) {
        case now: CurrentTimestamp => CurrentBatchTimestamp(0L, now.dataType, Some("UTC"))
        case now: LocalTimestamp => CurrentBatchTimestamp(0L, now.dataType, now.timeZoneId)
        case today: CurrentDate => CurrentBatchTimestamp(0L, today.dataType, today.timeZoneId)
      }
    }
    session.asInstanceOf[ClassicSession].sessionState.optimizer.execute(copy)
  }
}

/** In the optimizer, hidden joins are joins again, so that pushdown, pruning and the like reach them. */
private[streamjoin] object RestoreJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformUp { case hidden: HiddenJoin =>
    // What "Finish Analysis" does to joins, which it did not see.
    RewriteCollationJoin(hidden.join)
  }
}

/** Filters past the barriers that need not keep them. */
private[streamjoin] object PushFilters extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case Filter(condition, JoinBarrier(child)) if condition.deterministic =>
      JoinBarrier(Filter(condition, child))
    case Filter(condition, WatermarkBarrier(child))
        if condition.deterministic && !SQLConf.get.getConf(StreamJoinConf.WatermarkBeforeFilter) =>
      WatermarkBarrier(Filter(condition, child))
  }
}

/** After pushdown, pruning and inference: joins of two streams become interval joins, or the query is refused. */
private[streamjoin] object RecognizeJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!StreamJoinConf.enabled || !plan.isStreaming) plan
    else {
      // From the inputs up: a join is analysed when the joins below it are known.
      val lineage = WatermarkLineage.within(plan)
      var ordinal = 0
      // A function of Python's cannot run in a join; Spark moves it out of the condition later, where it no longer
      // sees this join.
      ExtractPythonUDFFromJoinCondition(plan).transformUp {
        case join: Join if RecognizeJoin.isStreamJoin(join.left, join.right, join.joinType) =>
          RecognizeJoin(join, ordinal, lineage) match {
            case Right(recognized) =>
              ordinal += 1
              recognized
            case Left(_) if StreamJoinConf.handsOver => join
            case Left(refused) => throw refused
          }
        case operator if operator.isStreaming => AskForWatermarks(operator, lineage)
      }
    }
}
