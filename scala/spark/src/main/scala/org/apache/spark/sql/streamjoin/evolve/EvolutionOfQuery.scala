package org.apache.spark.sql.streamjoin.evolve

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.streamjoin.analysis.{OptimizedQuery, PreparedQuery}
import org.apache.spark.sql.streamjoin.base.{MaintainsTarget, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.checkpoint.{
  ArrangedJoinLog,
  CommittedBatches,
  Description,
  OperatorLog
}
import org.apache.spark.sql.streamjoin.plans.QueryFunction
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}
import org.apache.spark.sql.{AnalysisException, Row, SparkSession}

/**
 * The changes of a query since the last committed batch of a checkpoint, as `sj.evolution` shows
 * them. It writes nothing.
 */
private[streamjoin] object EvolutionOfQuery {

  /** The number of the join, counted from the inputs up; null for a change of the whole query. */
  val Schema: StructType = Seq("what", "was", "is", "state", "results", "advice")
    .foldLeft(new StructType().add("join", IntegerType))(_.add(_, StringType, nullable = false))

  /** @param arranged the joins with arrangements in the query */
  def rows(
      analyzed: LogicalPlan,
      arranged: Seq[Description],
      checkpoint: Path,
      session: SparkSession
  ): Seq[Row] = {
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    val files = CheckpointFileManager.create(checkpoint, hadoopConf)
    val last = CommittedBatches
      .last(checkpoint, hadoopConf)
      .getOrElse(throw nothing("STREAMJOIN_NO_STATE.NO_BATCH", checkpoint))
    val targets = analyzed.collect { case target: MaintainsTarget => target }
    val hasOperators = files.exists(new Path(checkpoint, OperatorLog.Directory))
    val log = Option
      .when(files.exists(new Path(checkpoint, ArrangedJoinLog.Directory)))(
        new ArrangedJoinLog(session, checkpoint)
      )
    if (!hasOperators && log.isEmpty && targets.isEmpty)
      throw nothing("STREAMJOIN_NO_STATE.NO_OPERATOR", checkpoint)
    val ofOperators =
      if (!hasOperators) Nil
      else {
        val query = continued(PreparedQuery.of(analyzed), checkpoint, hadoopConf, session)
        val evolution = Evolution.ofNext(
          session,
          checkpoint,
          hadoopConf,
          query,
          OptimizedQuery.of(query, session),
          planned = true
        )
        of(evolution, CommittedBatches.lastPlanned(checkpoint, hadoopConf)) ++
          settings(evolution.operators, checkpoint, last, session)
      }
    ofOperators ++ ofArranged(arranged, log) ++ targets.flatMap(_.changes(session)).map { change =>
      Row(null, change.what, change.was, change.is, change.state, change.results, change.advice)
    }
  }

  private def continued(
      query: LogicalPlan,
      checkpoint: Path,
      hadoopConf: Configuration,
      session: SparkSession
  ): LogicalPlan = ConstantsOfCheckpoint
    .keep(session, checkpoint, hadoopConf, query, OptimizedQuery.of(query, session))

  /** @param log none if the checkpoint records no such joins */
  private def ofArranged(joins: Seq[Description], log: Option[ArrangedJoinLog]): Seq[Row] = try {
    log.foreach(_.verify(joins))
    val before = log.fold(Seq.empty[Description])(_.recorded)
    def lookUps(some: Seq[Description], than: Seq[Description]) =
      ArrangedJoinLog.others(some, than).filter(_.kind == ArrangedJoinLog.LookUp).map { join =>
        s"${join.properties("join_type")} look-up of ${join.properties("table")}: ${join.properties("condition")}"
      }
    def row(was: String, is: String) =
      Row(null, "look-up", was, is, "not affected", "exact", NoPermission)
    lookUps(before, joins).map(row(_, "none")) ++ lookUps(joins, before).map(row("none", _))
  } catch {
    // The error of a change that is rejected has what a row shows.
    case changed: AnalysisException if changed.getMessageParameters.containsKey("advice") =>
      val values = changed.getMessageParameters
      Seq(Row.fromSeq(null +: Seq("what", "was", "is", "state", "results", "advice").map(values.get(_))))
  }

  private val NoPermission =
    "A look-up keeps no rows, so this change needs no permission. One with rematch counts as a join as well."

  private def of(evolution: Evolution, planned: Option[Long]): Seq[Row] = {
    val pending = evolution.pending(planned).map { batch =>
      Row(null, "pending_batch", batch.toString, "none", "rejected", "none", Evolution.FinishPending)
    }
    evolution.ofQuery.map(row(null, _)) ++ pending ++ evolution.changes.toSeq.sortBy(_._1).flatMap {
      case (ordinal, all) => all.map(row(Int.box(ordinal + 1), _))
    }
  }

  private def settings(
      operators: Seq[QueryOperator],
      checkpoint: Path,
      last: Long,
      session: SparkSession
  ): Seq[Row] = {
    import ChangedSettings._
    val changed = new ChangedSettings(session.asInstanceOf[ClassicSession], checkpoint, last)
    for (operator <- operators; (what, was, is) <- changed.of(operator))
      yield Row(operator.ordinal + 1, what, was, is, State, "exact", Advice)
  }

  private def row(join: Integer, change: Change): Row =
    Row(join, change.what, change.was, change.is, change.state, change.results, change.advice)

  private def nothing(condition: String, checkpoint: Path) =
    StreamJoinErrors.analysis(condition, "checkpoint" -> checkpoint.toString)
}

/**
 * The placeholder for `sj_evolution(TABLE(query), checkpoint)`.
 *
 * @param arrangedIn
 *   finds the joins with arrangements in a query
 */
final private[streamjoin] case class UnresolvedEvolution(
    output: Seq[Attribute],
    checkpoint: String,
    arrangedIn: LogicalPlan => Seq[Description],
    child: LogicalPlan
) extends QueryFunction {
  override def call: String = "sj.evolution"

  override def answer(query: LogicalPlan, session: SparkSession): Seq[Row] =
    EvolutionOfQuery.rows(query, arrangedIn(query), new Path(checkpoint), session)

  override protected def withNewChildInternal(newChild: LogicalPlan): UnresolvedEvolution =
    copy(child = newChild)
}

private[streamjoin] object UnresolvedEvolution {
  def apply(
      query: LogicalPlan,
      checkpoint: String,
      arrangedIn: LogicalPlan => Seq[Description]
  ): UnresolvedEvolution =
    UnresolvedEvolution(DataTypeUtils.toAttributes(EvolutionOfQuery.Schema), checkpoint, arrangedIn, query)
}
