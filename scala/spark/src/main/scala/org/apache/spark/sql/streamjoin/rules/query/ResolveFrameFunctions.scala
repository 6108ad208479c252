package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{Star, UnresolvedAlias, UnresolvedFunction, UnresolvedStar}
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_FUNCTION
import org.apache.spark.sql.streamjoin.base.CallArguments
import org.apache.spark.sql.streamjoin.evolve.UnresolvedEvolution
import org.apache.spark.sql.streamjoin.front.functions.{FrameCall, FrameFunction}
import org.apache.spark.sql.streamjoin.joins.interval.UnresolvedBounds
import org.apache.spark.sql.streamjoin.registry.ArrangedJoins
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Replaces `SELECT *, sj_...('{...}')`, the plan of `df.select("*", F.call_function("sj_...",
 * ...))`, with a [[FrameCall]]. Spark calls the rule while a query is analyzed, before it looks up
 * functions. The rule does not inspect the child, whose CTEs may be defined elsewhere in the plan.
 */
final private[streamjoin] case class ResolveFrameFunctions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val called = plan.resolveOperatorsUpWithPruning(_.containsPattern(UNRESOLVED_FUNCTION)) {
      case project @ Project(
            Seq(UnresolvedStar(None), UnresolvedAlias(Called(function, arguments), _)),
            child
          ) =>
        val call = callOf(function, arguments, child)
        call.copyTagsFrom(project)
        call
    }
    called.foreach(checkPlaces)
    called
  }

  private object Called {
    def unapply(call: UnresolvedFunction): Option[(FrameFunction, Seq[Expression])] =
      functionOf(call).map(_ -> call.arguments)
  }

  private def functionOf(call: UnresolvedFunction): Option[FrameFunction] = call.nameParts match {
    // A user's function of that name takes precedence.
    case Seq(name) => FrameFunction.named(name).filterNot(_ => ResolveTableFunctions.isUsers(session, name))
    case _ => None
  }

  private def callOf(
      function: FrameFunction,
      arguments: Seq[Expression],
      child: LogicalPlan
  ): LogicalPlan = {
    val json = arguments.headOption.fold("{}") {
      case Literal(text: UTF8String, _: StringType) => text.toString
      case other =>
        throw CallArguments.wrongCall(
          function.call,
          "STREAMJOIN_CALL.NOT_JSON",
          "found" -> other.sql
        )
    }
    val columns = arguments.drop(1)
    if (!function.call.columns.contains(columns.size))
      throw CallArguments.wrongCall(
        function.call,
        "STREAMJOIN_CALL.COLUMNS",
        "most" -> function.call.columns.last.toString,
        "found" -> columns.size.toString
      )
    val values = CallArguments.ofJson(function.call, json)
    columns.collectFirst { case star: Star =>
      throw (
        if (function.name == FrameFunction.Column) FrameFunction.computed(values, star)
        else CallArguments.wrongCall(function.call, "STREAMJOIN_CALL.STAR")
      )
    }
    function.name match {
      case FrameFunction.Bounds => UnresolvedBounds(child)
      case FrameFunction.Evolution => UnresolvedEvolution(child, values.text("checkpoint"), ArrangedJoins.in)
      case _ => FrameCall(function, values, columns, child)
    }
  }

  /** Anywhere else, Spark would only report an unknown function. */
  private def checkPlaces(node: LogicalPlan): Unit = if (node.containsPattern(UNRESOLVED_FUNCTION))
    node.expressions.foreach(_.foreach {
      case call: UnresolvedFunction =>
        functionOf(call).foreach { function =>
          throw CallArguments.wrongCall(function.call, "STREAMJOIN_CALL.NOT_ALONE")
        }
      case _ =>
    })
}
