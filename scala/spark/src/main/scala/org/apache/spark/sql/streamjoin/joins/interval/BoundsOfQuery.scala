package org.apache.spark.sql.streamjoin.joins.interval

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.analysis.{InputName, OptimizedQuery, PreparedQuery}
import org.apache.spark.sql.streamjoin.base.TableFunction
import org.apache.spark.sql.streamjoin.operator.explain.JoinNames
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

/** The time bounds of all stream-stream joins in a query, as `sj.bounds` shows them. */
object BoundsOfQuery {
  val Schema: StructType =
    Seq("side", "input", "column", "bound", "keeps", "conjunct", "origin").foldLeft(
      new StructType().add("join", IntegerType, nullable = false)
    )(_.add(_, StringType, nullable = false))

  private[streamjoin] val Function: TableFunction =
    TableFunction("sj_bounds", "SELECT * FROM sj_bounds(TABLE(SELECT ...))")

  /** @throws org.apache.spark.sql.AnalysisException for a join that `start()` would reject */
  def of(df: DataFrame): DataFrame = {
    val classic = df.asInstanceOf[ClassicDataset[Row]]
    val found = rows(classic.queryExecution.analyzed, classic.sparkSession)
    classic.sparkSession.createDataFrame(found.asJava, Schema)
  }

  /** @throws org.apache.spark.sql.AnalysisException for a join that `start()` would reject */
  private[streamjoin] def rows(analyzed: LogicalPlan, session: SparkSession): Seq[Row] = {
    val plan = PreparedQuery.of(analyzed)
    val inputs = InputName.of(plan)
    for {
      join <- OptimizedQuery.nodes(plan, session).collect { case join: IntervalJoin => join }
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
