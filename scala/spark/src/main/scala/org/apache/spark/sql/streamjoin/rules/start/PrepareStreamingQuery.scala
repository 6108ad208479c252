package org.apache.spark.sql.streamjoin.rules.start

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.{InternalOutputModes, WriteToStreamStatement}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.streamjoin.analysis.{
  OptimizedQuery,
  PreparedQuery,
  StreamJoinType,
  WatermarkLineage
}
import org.apache.spark.sql.streamjoin.base.{AnalyzedPlan, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.joins.table.TableJoin
import org.apache.spark.sql.streamjoin.plans.{PendingOperator, StatefulNode, UncheckedStreamJoin}
import org.apache.spark.sql.streamjoin.registry.OperatorKinds
import org.apache.spark.sql.streamjoin.watermark.{DropPunctuation, IdleAfter}

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
    plan match {
      case write: WriteToStreamStatement if StreamJoinConf.enabled => CheckRetractions(write.inputQuery)
      case _ =>
    }
    prepared(plan)
  }

  /** Checks the tables that a stream looks up. */
  private def checkTables(plan: LogicalPlan): Unit = plan match {
    case write: WriteToStreamStatement if TableJoin.areIn(write.inputQuery) =>
      TableJoin.checkWritten(write.inputQuery)
      TableJoin.check(OptimizedQuery.of(PreparedQuery.of(write.inputQuery), session))
    case _ =>
  }

  private def prepared(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStreamStatement
        if OperatorKinds.areIn(write.inputQuery) && !isPrepared(write.inputQuery) && StreamJoinConf.enabled =>
      StreamJoinConf.checkNames()
      val query = numbered(PreparedQuery.of(write.inputQuery))
      checkMarks(query)
      val optimized = OptimizedQuery.of(query, session)
      val nodes = OptimizedQuery.nodesIn(optimized)
      if (nodes.isEmpty) checkInputs(query)
      if (nodes.isEmpty && OperatorKinds.areIn(optimized)) write
      else {
        checkOutputMode(write.outputMode, query, nodes)
        checkStateStore()
        write.copy(inputQuery = hidden(query, optimized))
      }
    case write: WriteToStreamStatement if !StreamJoinConf.enabled =>
      write.inputQuery.foreach {
        case pending: PendingOperator => throw pending.disabled
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

  /** The analyzer repeats this batch of rules until nothing changes. */
  private def isPrepared(query: LogicalPlan): Boolean = query.exists(_.isInstanceOf[UncheckedStreamJoin])

  /**
   * Hides the joins of streamjoin from Spark's checker. The joins that Spark runs stay visible: for
   * them, the optimized query still has a join of the same inputs.
   */
  private def hidden(query: LogicalPlan, optimized: LogicalPlan): LogicalPlan = {
    val sparks = optimized.collect {
      case join: Join if StreamJoinType.isStreamJoin(join) => inputs(join)
    }.toSet
    AnalyzedPlan.rewrite(query) {
      case join: Join if StreamJoinType.isStreamJoin(join) && !sparks(inputs(join)) =>
        UncheckedStreamJoin(join.left, join.right, join.joinType, join.condition, join.hint)
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

  /** The leaves on both sides identify a join. */
  private def inputs(join: Join): Seq[Set[Int]] =
    join.children.map(_.collectLeaves().flatMap(_.getTagValue(LeafNumber)).toSet)

  // The errors that Spark's checker would raise if it saw the joins.

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
        case rows: DropPunctuation if rows.partition.isDefined => "per= of sj.with_bounds"
      }
      .foreach { call =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_INPUT.NO_JOIN",
          "call" -> call
        )
      }

  private def checkStateStore(): Unit = {
    val encoding = SQLConf.get.stateStoreEncodingFormat
    if (encoding != "unsaferow")
      throw StreamJoinErrors.analysis("STREAMJOIN_STATE_ENCODING", "encoding" -> encoding)
  }
}
