package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Join, LogicalPlan, SubqueryAlias}
import org.apache.spark.sql.streamjoin.watermark.WatermarkId

/**
 * The user's name for an input.
 *
 * @param alias
 *   alias in the condition, such as `o`; none if columns are written without an alias
 * @param table
 *   name that the alias stands for, if any: `orders`
 */
final private[streamjoin] case class InputName(alias: Option[String], table: String)

private[streamjoin] object InputName {

  /** PySpark's prefix for the DataFrames in `spark.sql("... {a} ...", a=df)`. */
  private val PySpark = "_pyspark_"

  /**
   * The input name of each mark in an analyzed query, as written below the join. Names are read
   * before the optimizer runs, because it may replace the query's columns with those of a source,
   * which have no qualifiers.
   */
  def of(analyzed: LogicalPlan): Map[WatermarkId, InputName] = {
    def marks(
        plan: LogicalPlan,
        outer: Option[String],
        inner: Option[String]
    ): Seq[(EventTimeWatermark, Option[InputName])] =
      plan match {
        case mark: EventTimeWatermark =>
          Seq(mark -> outer.map(alias => InputName(Some(alias), inner.getOrElse(alias))))
        case SubqueryAlias(name, child) if name.name.startsWith(PySpark) => marks(child, outer, inner)
        case SubqueryAlias(name, child) => marks(child, outer.orElse(Some(name.name)), Some(name.name))
        case _: Join => plan.children.flatMap(marks(_, None, None))
        case other => other.children.flatMap(marks(_, outer, inner))
      }
    val named = marks(analyzed, None, None)
    WatermarkId
      .number(named.map(_._1.nodeId))
      .zip(named)
      .collect { case (origin, (_, Some(name))) => origin -> name }
      .toMap
  }
}
