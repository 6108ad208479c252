package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.streamjoin.analysis.InputName
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.operators.JoinNames
import org.apache.spark.sql.streamjoin.operators.interval.{BoundsInWords, IntervalJoin}
import org.apache.spark.sql.streamjoin.sql.TableFunction
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}
import org.apache.spark.sql.{Row, SparkSession}

/** The time bounds of every join of two streams in a query, as `sj.bounds` has them. */
private[streamjoin] object BoundsOfQuery {
  val Schema: StructType =
    Seq("side", "input", "column", "bound", "keeps", "conjunct", "origin").foldLeft(
      new StructType().add("join", IntegerType, nullable = false)
    )(_.add(_, StringType, nullable = false))

  val Function: TableFunction = TableFunction("sj_bounds", "SELECT * FROM sj_bounds(TABLE(SELECT ...))")

  /** @throws org.apache.spark.sql.AnalysisException for a join that `start()` would refuse */
  def rows(analyzed: LogicalPlan, session: SparkSession): Seq[Row] = {
    val plan = PrepareStreamingQuery.visible(analyzed)
    val inputs = InputName.of(plan)
    for {
      join <- OptimizedQuery.nodes(plan, session).collect { case join: IntervalJoin => join }
      plan = join.plan
      names = JoinNames
        .of(plan.sides, plan.watermarks, join.times, join.left.output, join.right.output, inputs)
      words <- new BoundsInWords(plan, join.times, names).all
    } yield Row(
      join.plan.ordinal + 1,
      words.side.name,
      words.input,
      words.column,
      words.bound,
      words.keeps,
      words.conjunct,
      words.origin
    )
  }
}

/** `sj_bounds(TABLE(query))` until the query is analyzed. */
final private[streamjoin] case class AskedBounds(output: Seq[Attribute], child: LogicalPlan)
    extends UnaryNode {
  override protected def withNewChildInternal(newChild: LogicalPlan): AskedBounds = copy(child = newChild)
}

final private[streamjoin] case class ReadBounds(session: SparkSession) extends Rule[LogicalPlan] {
  import BoundsOfQuery.Function

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      call.functionArgs match {
        case Seq(query) =>
          AskedBounds(DataTypeUtils.toAttributes(BoundsOfQuery.Schema), Function.table(query))
        case arguments =>
          throw Function.refused(s"takes one query, and not ${arguments.size} arguments", call.origin)
      }
  }
}

/** The bounds in the place of the query, which is not run. */
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

  /** A query of `WITH` that nothing reads is a stream that nobody starts. */
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
