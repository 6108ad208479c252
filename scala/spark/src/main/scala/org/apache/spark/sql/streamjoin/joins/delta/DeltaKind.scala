package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{And, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.NormalForm
import org.apache.spark.sql.streamjoin.checkpoint.{ArrangedJoinLog, Description}
import org.apache.spark.sql.streamjoin.operator.ArrangedJoinKind

/** A join of arrangements. */
private[streamjoin] object DeltaKind extends ArrangedJoinKind {

  override def isMine(plan: LogicalPlan): Boolean = plan.isInstanceOf[StreamDeltaJoin]

  override def describe(join: LogicalPlan, query: LogicalPlan): Option[Description] =
    Some(describe(join.asInstanceOf[StreamDeltaJoin]))

  override def plan(
      join: LogicalPlan,
      session: SparkSession,
      planLater: LogicalPlan => SparkPlan
  ): SparkPlan = new DeltaPlanner(join.asInstanceOf[StreamDeltaJoin], session).plan

  /**
   * Inputs are identified by number, because the query may rename them. The offsets of their
   * streams identify the arrangements.
   */
  private def describe(join: StreamDeltaJoin): Description = {
    val form = new NormalForm(join.inputs.zipWithIndex.map { case (input, number) =>
      (number + 1).toString -> input.output
    }: _*)
    def all(conditions: Seq[Expression]) =
      conditions.reduceOption[Expression](And(_, _)).fold("true")(form(_))
    // In an inner join, it makes no difference where a condition is written.
    val (conditions, filters) =
      if (join.outer.isEmpty) (join.ofPairs, Nil)
      else (join.conditions, join.filters.map(all))
    val columns = join.select.zip(join.output).map { case (value, column) =>
      s"${form(value)} as ${NormalForm.lasting(column.name)} ${column.dataType.catalogString}"
    }
    Description(
      ArrangedJoinLog.Delta,
      Map(
        "inputs" -> join.inputs.size.toString,
        "join_type" -> typeOf(join.outer),
        "condition" -> all(conditions),
        "rows_of_inputs" -> (if (filters.isEmpty) "all" else filters.mkString(", ")),
        "columns" -> columns.mkString(", ")
      )
    )
  }

  private def typeOf(outer: Set[Int]): String = outer.toSeq.sorted match {
    case Seq() => "inner"
    case Seq(0) => "left outer"
    case Seq(1) => "right outer"
    case _ => "full outer"
  }
}
