package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.streamjoin.analysis.{InputName, OptimizedQuery, PreparedQuery}
import org.apache.spark.sql.streamjoin.operator.explain.JoinNames
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}
import org.apache.spark.sql.{Row, SparkSession}

/** The time bounds of all stream-stream joins in a query, as `sj.bounds` shows them. */
private[streamjoin] object BoundsOfQuery {
  val Schema: StructType =
    Seq("side", "input", "column", "bound", "keeps", "conjunct", "origin").foldLeft(
      new StructType().add("join", IntegerType, nullable = false)
    )(_.add(_, StringType, nullable = false))

  /** @throws org.apache.spark.sql.AnalysisException for a join that `start()` would reject */
  def rows(analyzed: LogicalPlan, session: SparkSession): Seq[Row] = {
    val plan = PreparedQuery.of(analyzed)
    val inputs = InputName.of(plan)
    for {
      join <- OptimizedQuery.nodes(plan, session).collect { case join: StreamIntervalJoin => join }
      plan = join.plan
      names = JoinNames
        .of(plan.sides, plan.watermarks, join.times, join.left.output, join.right.output, inputs)
      words <- new BoundsExplain(plan, join.times, names).all
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

/** The placeholder for `sj_bounds(TABLE(query))` until the query is analyzed. */
final private[streamjoin] case class UnresolvedBounds(output: Seq[Attribute], child: LogicalPlan)
    extends UnaryNode {

  /** The result is a batch table even if the query is a stream. */
  override def isStreaming: Boolean = false

  override def producedAttributes: AttributeSet = AttributeSet(output)

  override protected def withNewChildInternal(newChild: LogicalPlan): UnresolvedBounds =
    copy(child = newChild)
}

private[streamjoin] object UnresolvedBounds {
  def apply(query: LogicalPlan): UnresolvedBounds =
    UnresolvedBounds(DataTypeUtils.toAttributes(BoundsOfQuery.Schema), query)
}
