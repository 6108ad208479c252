package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.joins.delta.{ArrangedInputs, DroppedCopies, StreamDeltaJoin}

/**
 * Rejects a join of arrangements that has not become a delta join, because its query contains more
 * than a condition and columns. Also rejects a query around a delta join that loses the removed
 * rows. Spark calls the rule at the end of analysis, after the rules that build delta joins.
 */
private[streamjoin] object CheckArrangedJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      // A SQL statement has a projection above its joins.
      case join: Join if isArranged(join) => throw ofFrames
      case _ =>
    }
    lazy val tables = CommonTables.of(plan)
    plan.foreach {
      case join: Join
          if isArranged(join) || join.origin.sqlText.isDefined &&
            join.children.forall(side => ArrangedInputs.canBeJoined(tables.inlined(side))) =>
        throw moreThanJoins
      // It would keep a change only if no other is equal, and the copies would no longer add up.
      case Distinct(Project(_, _: StreamDeltaJoin)) => throw moreThanJoins
      case _ =>
    }
    if (plan.exists(_.isInstanceOf[StreamDeltaJoin]) && DroppedCopies.in(plan).isDefined)
      throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.DIFF_LEFT_OUT")
    plan
  }

  private def moreThanJoins = StreamJoinErrors.analysis("STREAMJOIN_DELTA.MORE_THAN_JOINS")

  def isArranged(join: Join): Boolean = join.children.forall(ArrangedInputs.areIn)

  def ofFrames: AnalysisException = StreamJoinErrors.analysis("STREAMJOIN_DELTA.FRAMES")
}
