package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, EliminateView}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.NormalForm
import org.apache.spark.sql.streamjoin.arrangement.source.LookedUpTable
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.batch.{BatchBinding, PlannedBatch}
import org.apache.spark.sql.streamjoin.checkpoint.{ArrangedJoinLog, Description}
import org.apache.spark.sql.streamjoin.operator.ArrangedJoinKind
import org.apache.spark.sql.streamjoin.plans.RejectedOperatorExec
import org.apache.spark.sql.{AnalysisException, SparkSession}

/** A stream that looks up a table. */
private[streamjoin] object LookUpKind extends ArrangedJoinKind {

  override def isMine(plan: LogicalPlan): Boolean = plan match {
    case join: Join => TableJoin.isMine(join)
    case other => other.isInstanceOf[TableRematch]
  }

  override def describe(join: LogicalPlan, query: LogicalPlan): Option[Description] = join match {
    case join: Join =>
      val above = query.collectFirst { case Filter(condition, of: Join) if of eq join => condition }
      describe(join, above)
    case rematch: TableRematch => describe(rematch.join, None)
    case _ => None
  }

  /**
   * Describes which rows of the table are joined to the rows of the stream. The selected columns
   * and the location of the table are not part of the description.
   *
   * @param above
   *   a condition directly above the join
   */
  private def describe(join: Join, above: Option[Expression]): Option[Description] = {
    val StreamSide(stream, tableSide, _) = StreamSide.of(join).get
    EliminateSubqueryAliases(EliminateView(tableSide)) match {
      case PhysicalOperation(fields, filters, LookedUpTable(table, columns)) =>
        val values = AttributeMap(fields.collect { case alias: Alias => alias.toAttribute -> alias.child })
        val form = new NormalForm("stream" -> stream.output, "table" -> columns)
        // In an inner join, it makes no difference where a condition on the table is written.
        val ofTable = tableSide.outputSet
        val ofJoin = above.toSeq
          .filter(_ => join.joinType == Inner)
          .flatMap(PredicateParts.conjuncts)
          .filter(_.references.exists(ofTable.contains))
        val conditions = (join.condition.toSeq.flatMap(PredicateParts.conjuncts) ++ ofJoin)
          .map(_.transform { case column: Attribute => values.getOrElse(column, column) }) ++ filters
        Some(
          Description(
            ArrangedJoinLog.LookUp,
            Map(
              "table" -> table.options.root.getName,
              "join_type" -> (if (join.joinType == Inner) "inner" else "outer"),
              "condition" -> conditions.reduceOption[Expression](And(_, _)).fold("true")(form(_)),
              "as_of" -> (if (table.isPrevious) "previous" else "current")
            )
          )
        )
      case _ => None
    }
  }

  override def plan(
      join: LogicalPlan,
      session: SparkSession,
      planLater: LogicalPlan => SparkPlan
  ): SparkPlan =
    try {
      val found = TableJoin.of(join.asInstanceOf[Join])
      val seen = TableVersions.beginBatch(session, found.table)
      val lookUp = TableLookUpExec.of(found, seen, planLater(found.stream))
      if (PlannedBatch.current(session).isEmpty) lookUp
      else LookUpProgressExec.of(nameOf(found, session), lookUp)
    } catch {
      case rejection: AnalysisException if BatchBinding.currentTime(session).isEmpty =>
        RejectedOperatorExec("TableJoin", join.output, join.children.map(planLater), rejection)
    }

  /** Name in the progress: the arrangement, followed by a number from its second look-up on. */
  private def nameOf(lookUp: TableJoin, session: SparkSession): String = {
    val joins = PlannedBatch
      .current(session)
      .toSeq
      .flatMap(_.execution.optimizedPlan.collect {
        case join: Join if TableJoin.isMine(join) => join
      })
    val same = joins.filter(TableJoin.tableIn(_).exists(_.options.root.getName == lookUp.rows.name)).reverse
    val number = same.indexWhere(_.output == lookUp.output) + 1
    s"lookUp.${lookUp.rows.name}${if (number > 1) s".$number" else ""}"
  }
}
