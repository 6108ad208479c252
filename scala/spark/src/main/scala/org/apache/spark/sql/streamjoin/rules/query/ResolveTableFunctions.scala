package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.{UnresolvedStar, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_TABLE_VALUED_FUNCTION
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.base.{CallArguments, SourceNames}
import org.apache.spark.sql.streamjoin.front.functions.TableFunction

/**
 * Replaces calls of our table functions with the plans that their builders return. Spark calls the
 * rule while a query is analyzed, before it looks up functions; a user's function of the same name
 * takes precedence.
 *
 * Spark runs a command once, in `spark.sql(...)`. As a part of a query, it would run again whenever
 * the query is used, so a command must stand alone.
 */
final private[streamjoin] case class ResolveTableFunctions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case Project(Seq(_: UnresolvedStar), Called(function, call)) if function.isCommand =>
      made(function, call, call.isStreaming)
    case other =>
      other.resolveOperatorsDownWithPruning(_.containsPattern(UNRESOLVED_TABLE_VALUED_FUNCTION)) {
        case SourceNames.Unnamed(Called(function, call)) if function.call.streams =>
          made(function, call, isStream = true)
        case Called(function, call) =>
          if (function.isCommand)
            throw CallArguments.rejected(function.call, "STREAMJOIN_TABLE_FUNCTION.COMMAND", call.origin)
          made(function, call, call.isStreaming)
      }
  }

  private def made(
      function: TableFunction,
      call: UnresolvedTableValuedFunction,
      isStream: Boolean
  ): LogicalPlan =
    function.make(TableFunction.Call(session, CallArguments.ofSql(function.call, call), isStream))

  private object Called {
    def unapply(plan: LogicalPlan): Option[(TableFunction, UnresolvedTableValuedFunction)] = plan match {
      case call: UnresolvedTableValuedFunction =>
        call.name match {
          case Seq(name) =>
            TableFunction
              .named(name)
              .filterNot(_ => ResolveTableFunctions.isUsers(session, name))
              .map(_ -> call)
          case _ => None
        }
      case _ => None
    }
  }
}

private[streamjoin] object ResolveTableFunctions {

  /** Whether the user has a function of this name, temporary or in the catalog. */
  def isUsers(session: SparkSession, name: String): Boolean =
    session.asInstanceOf[ClassicSession].sessionState.catalog.functionExists(FunctionIdentifier(name))
}
