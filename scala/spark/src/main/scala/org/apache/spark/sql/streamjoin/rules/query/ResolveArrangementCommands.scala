package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{UnresolvedStar, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.arrangement.source.{DropArrangement, ReleaseReader}
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.streamjoin.base.{TableFunction, TextArgument}
import org.apache.spark.sql.types.BooleanType

/**
 * Replaces `SELECT * FROM sj_drop_arrangement(...)` and `sj_release_reader(...)` with commands,
 * before Spark looks up the functions. Spark runs a command once, in `spark.sql(...)`; as a part of
 * a query it would run again with each use of the query, so these stand alone.
 */
final private[streamjoin] case class ResolveArrangementCommands(session: SparkSession)
    extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case Project(Seq(_: UnresolvedStar), Call(function, call)) => command(function, call)
    case other =>
      other.resolveOperatorsDown { case Call(function, call) =>
        throw function.refused("is a command, and stands alone", call.origin)
      }
  }

  private def command(function: TableFunction, call: UnresolvedTableValuedFunction): LogicalPlan =
    (function, call.functionArgs) match {
      case (DropArrangement.Function, Seq(TextArgument(arrangement))) =>
        DropArrangement(ArrangementFolder.root(arrangement), force = false)
      case (DropArrangement.Function, Seq(TextArgument(arrangement), Literal(force: Boolean, BooleanType))) =>
        DropArrangement(ArrangementFolder.root(arrangement), force)
      case (ReleaseReader.Function, Seq(TextArgument(arrangement), TextArgument(reader))) =>
        ReleaseReader(ArrangementFolder.root(arrangement), reader)
      case _ => throw function.refused("does not take these arguments", call.origin)
    }

  private object Call {
    def unapply(plan: LogicalPlan): Option[(TableFunction, UnresolvedTableValuedFunction)] = plan match {
      case call: UnresolvedTableValuedFunction =>
        Seq(DropArrangement.Function, ReleaseReader.Function).find(_.isCalledBy(call, session)).map(_ -> call)
      case _ => None
    }
  }
}
