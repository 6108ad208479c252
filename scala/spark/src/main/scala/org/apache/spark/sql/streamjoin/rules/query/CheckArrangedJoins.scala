package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.joins.delta.{
  ArrangedInputs,
  DeltaJoin,
  DeltaJoinBuilder,
  DroppedCopies
}

/**
 * Rejects a join of arrangements that has not become a delta join, because its query has more than
 * a condition and columns, and a query around a delta join that loses what goes. Spark calls the
 * rule at the end of analysis, when the rules that build delta joins are done.
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
        throw DeltaJoinBuilder.refused(
          "it is more than SELECT columns FROM inner joins, or an outer join of two",
          "Put what is above the join, such as GROUP BY, into an outer query: SELECT ... FROM (SELECT ... JOIN ...)."
        )
      case _ =>
    }
    if (plan.exists(_.isInstanceOf[DeltaJoin]) && DroppedCopies.in(plan).isDefined)
      throw DeltaJoinBuilder.refused(
        "the query around it leaves out _diff, without which a row that goes looks like one that comes",
        "Select _diff as well, or use it: WHERE _diff > 0 keeps what comes, sum(_diff) counts what is there."
      )
    plan
  }

  def isArranged(join: Join): Boolean = join.children.forall(ArrangedInputs.areIn)

  def ofFrames: AnalysisException = DeltaJoinBuilder.refused(
    "DataFrame.join of their streams is no delta join",
    "Where all of them change, write sj.delta_join({\"a\": ..., \"b\": ...}, on=...). " +
      "To look one up as it is, join the stream with sj.table(...)."
  )
}
