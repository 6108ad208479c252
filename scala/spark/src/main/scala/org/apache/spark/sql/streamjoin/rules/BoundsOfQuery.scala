package org.apache.spark.sql.streamjoin.rules
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.streamjoin.analysis.InputName
import org.apache.spark.sql.streamjoin.operators.JoinNames
import org.apache.spark.sql.streamjoin.operators.interval.{BoundsInWords, IntervalJoin}
import org.apache.spark.sql.streamjoin.sql.TableFunction
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}
import org.apache.spark.sql.{Row, SparkSession}

/** The time bounds of all stream-stream joins in a query, as `sj.bounds` shows them. */
private[streamjoin] object BoundsOfQuery {
  val Schema: StructType =
    Seq("side", "input", "column", "bound", "keeps", "conjunct", "origin").foldLeft(
      new StructType().add("join", IntegerType, nullable = false)
    )(_.add(_, StringType, nullable = false))

  val Function: TableFunction = TableFunction("sj_bounds", "SELECT * FROM sj_bounds(TABLE(SELECT ...))")

  /** @throws org.apache.spark.sql.AnalysisException for a join that `start()` would reject */
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
