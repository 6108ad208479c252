package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.AvailableNowTrigger
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.streamjoin.analysis.Recognizer
import org.apache.spark.sql.streamjoin.arrangement.lookup.{ChangesExec, IndexAccess, KeyColumns}
import org.apache.spark.sql.streamjoin.arrangement.storage.{ChangeColumns, Snapshot}
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.batch.{BatchBinding, PlannedBatch}
import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.operator.OperatorKind.Planned
import org.apache.spark.sql.streamjoin.operator.{OperatorKind, StoredColumns}
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.{Column, SparkSession}

/** The join that buffers unmatched rows: recognized by [[RecognizeRematch]], planned here. */
private[streamjoin] object RematchKind extends OperatorKind {
  override val name: String = "rematch_join"

  override val nodeName: String = "StreamTableJoin"

  override def looksUp: Boolean = true

  override def whyLeft(input: InputOutline, matchedIn: Column): Column =
    lit("it was emitted with its match, or it expired.")

  override def recognizer: Recognizer = RecognizeRematch

  override def plan(binding: Option[BatchBinding], planLater: LogicalPlan => SparkPlan): Planned = {
    case written: RematchJoin => planned(written, binding, planLater)
  }

  private def planned(
      written: RematchJoin,
      binding: Option[BatchBinding],
      planLater: LogicalPlan => SparkPlan
  ): SparkPlan = {
    val join = TableJoin.of(written.join, isKept = true)
    val session = SparkSession.active
    val lookUp =
      TableLookUpExec.of(join, TableVersions.beginBatch(session, join.table), planLater(join.stream))
    // State compares keys byte by byte.
    val keys = KeyColumns.of(lookUp.access.key.map(NormalizeFloatingNumbers.normalize(_)))
    val stream = keys.over(lookUp.child)
    RematchJoinExec(
      lookUp.copy(child = stream)(lookUp.figures),
      keys.columns,
      written.times,
      written.plan,
      binding,
      join.table,
      // An AvailableNow run must end, no matter how often the table changes.
      PlannedBatch.current(session).exists(_.query.trigger != AvailableNowTrigger),
      StoredColumns.of(lookUp.output),
      stream,
      changedKeys(join, lookUp.access, session)
    )
  }

  /**
   * Keys of the rows added to the table since the previous batch. All keys if those versions have
   * been removed, because the stream was silent for longer than a lease lasts, or if the table has
   * moved or was restored: an unnecessary look-up finds no match.
   */
  private def changedKeys(join: TableJoin, access: IndexAccess, session: SparkSession): ChangesExec = {
    lazy val folder = join.table.options.open()
    val at = access.high.filterNot(_ => access.at.isEmpty).fold(access.at) { high =>
      val id = if (access.at.version == high.number) high.id else folder.manifest(access.at.version).id
      access.at.copy(id = Some(id))
    }
    val before = PlannedBatch.current(session).fold(Snapshot.Nothing) { batch =>
      TableVersions.before(session, batch, join.table) match {
        // Nothing is buffered before the first batch.
        case _ if batch.execution.currentBatchId == 0 => at
        case seen if seen.isEmpty => Snapshot.Nothing
        case seen =>
          val version = seen.version - (if (join.table.isPrevious) 1 else 0)
          val isThere = at.isEmpty ||
            version >= folder.manifest(at.version).since && TableVersions.isContinued(folder, seen)
          if (version < 0 || !isThere) Snapshot.Nothing
          else if (version == at.version) at
          else Snapshot(version)
      }
    }
    val ofTable = AttributeSet(join.rows.columns)
    val come = GreaterThan(join.rows.diff, Literal(0L)) +:
      join.conditions.filter(_.references.subsetOf(ofTable))
    ChangesExec(
      join.rows,
      AttributeReference(ChangeColumns.Version, LongType, nullable = false)(),
      None,
      before,
      at,
      None,
      PredicateParts.all(come),
      KeyColumns.of(join.rows.key(join.index).map(NormalizeFloatingNumbers.normalize(_))).named
    )
  }
}
