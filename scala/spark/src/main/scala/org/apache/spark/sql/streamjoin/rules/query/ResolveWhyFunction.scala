package org.apache.spark.sql.streamjoin.rules.query
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.base.TextArgument
import org.apache.spark.sql.streamjoin.observe.read.{CheckpointInspector, QueriesByName, Why}
import org.apache.spark.sql.types.IntegerType

/**
 * Replaces `sj_why('query', 'condition')` with what has become of the rows that satisfy the
 * condition; a third argument is how many batches it looks back. In place of a query it takes the
 * path of a checkpoint. Spark calls the rule while a query is analyzed, before it looks up the
 * function.
 */
final private[streamjoin] case class ResolveWhyFunction(session: SparkSession) extends Rule[LogicalPlan] {
  import Why.Function

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      val answer = call.functionArgs match {
        case Seq(TextArgument(query), TextArgument(condition)) => why(call, query, condition, Why.Batches)
        case Seq(TextArgument(query), TextArgument(condition), Literal(batches: Int, IntegerType))
            if batches > 0 =>
          why(call, query, condition, batches)
        case _ =>
          throw Function.refused(
            "takes the id or the name of a query or the path of its checkpoint, a condition as text and, if not " +
              s"${Why.Batches}, how many batches it looks back",
            call.origin
          )
      }
      answer.answer.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed
  }

  private def why(
      call: UnresolvedTableValuedFunction,
      query: String,
      condition: String,
      batches: Int
  ): Why = {
    val running = QueriesByName.running(session, query)
    val checkpoint = QueriesByName
      .checkpoint(session, query)
      .orElse(Option.when(query.contains("/"))(new Path(query)))
      .getOrElse(
        throw Function.refused(
          s"finds no query $query that runs, or was started from here; ${QueriesByName.known(session)}",
          call.origin
        )
      )
    new Why(new CheckpointInspector(session, checkpoint), condition, batches, running)
  }
}
