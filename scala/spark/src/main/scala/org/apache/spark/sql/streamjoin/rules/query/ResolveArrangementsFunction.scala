package org.apache.spark.sql.streamjoin.rules.query
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.source.{ArrangementState, ArrangementsOfFolder}
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, TextArgument}

/**
 * Replaces `sj_arrangements()` or `sj_arrangements('name or path')` with a table of the
 * arrangements as they are now. Spark calls the rule while a query is analyzed, before it looks up
 * the function.
 */
final private[streamjoin] case class ResolveArrangementsFunction(session: SparkSession)
    extends Rule[LogicalPlan] {
  import ArrangementsOfFolder.{Function, Schema, row, rowOf}

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      val rows = call.functionArgs match {
        case Seq() => inFolder(call).map(rowOf)
        case Seq(TextArgument(name)) =>
          Seq(row(ArrangementState.of(ArrangementFolder.open(ArrangementFolder.root(name)))))
        case _ =>
          throw Function.refused("takes the name or the path of an arrangement, or nothing", call.origin)
      }
      LocalRelation.fromExternalRows(DataTypeUtils.toAttributes(Schema), rows)
  }

  private def inFolder(call: UnresolvedTableValuedFunction): Seq[Path] = {
    val folder = SQLConf.get.getConf(StreamJoinConf.Arrangements).getOrElse {
      throw Function.refused(
        s"lists the folder ${StreamJoinConf.Arrangements.key}, which is not set",
        call.origin
      )
    }
    ArrangementState.in(ArrangementFolder.open(new Path(folder)))
  }
}
