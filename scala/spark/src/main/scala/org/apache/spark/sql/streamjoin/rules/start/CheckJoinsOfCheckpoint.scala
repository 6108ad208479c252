package org.apache.spark.sql.streamjoin.rules.start

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.streamjoin.analysis.OptimizedQuery
import org.apache.spark.sql.streamjoin.base.{JsonLog, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.batch.OperatorNumbers
import org.apache.spark.sql.streamjoin.checkpoint.{
  ArrangedJoinLog,
  CommittedBatches,
  DescriptionLog,
  OperatorLog,
  TakeOver
}
import org.apache.spark.sql.streamjoin.evolve.{ConstantsOfCheckpoint, Evolution}
import org.apache.spark.sql.streamjoin.registry.{ArrangedJoins, OperatorKinds}

/**
 * Rejects a query whose joins differ from those in its checkpoint, unless the change is accepted.
 * It reads the checkpoint and never writes. Spark calls the rule at `start()`, after its analyzer
 * has resolved the checkpoint's location. It is not a check rule: errors of check rules lose their
 * SQLSTATE (`ExtendedAnalysisException`).
 */
final private[streamjoin] case class CheckJoinsOfCheckpoint(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStream =>
      val arranged = ArrangedJoins.in(write.inputQuery)
      val hasOperators = OperatorKinds.areIn(write.inputQuery)
      val checkpoint = new Path(write.resolvedCheckpointLocation)
      val files = CheckpointFileManager.create(checkpoint, hadoopConf)
      def has(directory: String) = files.exists(new Path(checkpoint, directory))
      // The query may have had joins before and have none now. A first batch that was never
      // committed does not count.
      val (hadOperators, hadArranged) = (has(OperatorLog.Directory), has(ArrangedJoinLog.Directory))
      val hasCommits = numbered(new Path(checkpoint, "commits"), files).nonEmpty
      val takeOver = new TakeOver(session, checkpoint)
      // Of a first batch that Spark's own join has planned, the sink may have the rows.
      if ((hasOperators || hadOperators) && takeOver.isDue)
        TakeOverOfJoins(write, checkpoint, takeOver, runningNodes(write.inputQuery, hasOperators))
      else if (!hasCommits) write
      else {
        val checked =
          if (!hasOperators && !hadOperators) write.inputQuery
          else check(write.inputQuery, hasOperators, checkpoint, files)
        if (hadArranged) new ArrangedJoinLog(session, checkpoint).verify(arranged)
        write.copy(inputQuery = checked)
      }
    case other => other
  }

  /** The query's operators that we run. */
  private def runningNodes(query: LogicalPlan, hasOperators: Boolean): LogicalPlan =
    if (StreamJoinConf.enabled && hasOperators) OptimizedQuery.of(query, session) else query

  private def hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()

  /** Returns the query as it continues, with the numbers of its operators. */
  private def check(
      written: LogicalPlan,
      hasOperators: Boolean,
      checkpoint: Path,
      files: CheckpointFileManager
  ): LogicalPlan = {
    val descriptions = new Path(checkpoint, OperatorLog.Directory)
    val recorded = numbered(descriptions, files).size
    val first = runningNodes(written, hasOperators)
    val query =
      if (recorded == 0) written
      else ConstantsOfCheckpoint.keep(session, checkpoint, hadoopConf, written, first)
    val optimized = if (query eq written) first else runningNodes(query, hasOperators)
    val nodes = OptimizedQuery.nodesIn(optimized)
    if (recorded > 0 && nodes.isEmpty && hasOperators)
      throw rejected("STREAMJOIN_CHECKPOINT_OF_STREAMJOIN", checkpoint)
    lazy val evolution = Evolution.ofNext(session, checkpoint, hadoopConf, query, optimized, planned = false)
    val numbers = if (recorded == 0) nodes.map(_.ordinal) else evolution.numbers
    numbers.foreach { ordinal =>
      val (description, state) = (new Path(descriptions, ordinal.toString), stateOf(ordinal, checkpoint))
      if (files.exists(state) && !files.exists(description))
        throw JsonLog.unreadable(description, s"it is missing, although $state exists")
    }
    if (recorded > 0) {
      evolution.check()
      evolution.checkPlanned(CommittedBatches.lastPlanned(checkpoint, hadoopConf))
    } else if (nodes.nonEmpty)
      throw DescriptionLog.changed(checkpoint, OperatorLog.Number, "0", nodes.size.toString)
    OperatorNumbers.mark(query, numbers)
  }

  private def stateOf(ordinal: Int, checkpoint: Path): Path =
    new Path(checkpoint, s"state/${OperatorLog.FirstId + ordinal}")

  private def rejected(name: String, checkpoint: Path) =
    StreamJoinErrors.analysis(name, "checkpoint" -> checkpoint.toString)

  private def numbered(directory: Path, files: CheckpointFileManager): Seq[Path] =
    if (!files.exists(directory)) Nil
    else files.list(directory).toSeq.map(_.getPath).filter(path => path.getName.forall(_.isDigit))
}
