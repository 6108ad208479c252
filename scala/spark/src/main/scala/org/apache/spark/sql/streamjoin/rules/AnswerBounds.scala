package org.apache.spark.sql.streamjoin.rules
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.sql.TableFunction

/** Stands for `sj_bounds(TABLE(query))` until the query is analyzed. */
final private[streamjoin] case class AskedBounds(output: Seq[Attribute], child: LogicalPlan)
    extends UnaryNode {
  override protected def withNewChildInternal(newChild: LogicalPlan): AskedBounds = copy(child = newChild)
}

/**
 * Replaces the query in an [[AskedBounds]] with a table of its time bounds; the query itself is not
 * run. Spark calls the rule at the end of analysis, because the bounds follow from the analyzed
 * query.
 */
final private[streamjoin] case class AnswerBounds(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.isInstanceOf[AskedBounds])) plan
    else {
      val queries = plan.collect { case WithCTE(_, queries) => queries }.flatten
      withoutUnused(plan.resolveOperatorsUp {
        case asked @ AskedBounds(output, query) if query.resolved =>
          if (!query.isStreaming) throw noStream(asked.origin)
          val whole = if (queries.isEmpty) query else WithCTE(query, queries)
          LocalRelation.fromExternalRows(output, BoundsOfQuery.rows(whole, session))
      })
    }

  /** Drops CTEs that nothing reads any more: they are streams that are never started. */
  private def withoutUnused(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case WithCTE(main, queries) =>
      def read(by: Seq[LogicalPlan]): Seq[CTERelationDef] = {
        val ids = by.flatMap(_.collectWithSubqueries { case reference: CTERelationRef => reference.cteId })
        queries.filter(query => ids.contains(query.id))
      }
      val used = Iterator
        .iterate(read(Seq(main)))(found => (found ++ read(found)).distinct)
        .sliding(2)
        .collectFirst { case Seq(before, after) if before.size == after.size => after }
        .get
      if (used.isEmpty) main else WithCTE(main, queries.filter(used.contains))
  }

  private def noStream(at: Origin) = StreamJoinErrors.analysis(
    "STREAMJOIN_NOT_A_STREAM",
    "call" -> "sj_bounds",
    "wanted" -> "a streaming query",
    "found" -> "this one is a batch, whose joins keep no state",
    "advice" -> s"Read its inputs as streams: FROM STREAM t.\n${TableFunction.where(at)}"
  )
}
