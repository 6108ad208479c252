package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Join, LogicalPlan, SubqueryAlias}
import org.apache.spark.sql.streamjoin.watermark.Origin

/**
 * What the user calls an input.
 *
 * @param alias
 *   as the condition has it: `o`; none where columns are written without one
 * @param table
 *   the name that the alias stands for, where there is one: `orders`
 */
final private[streamjoin] case class InputName(alias: Option[String], table: String)

private[streamjoin] object InputName {

  /** What PySpark calls the DataFrames in `spark.sql("... {a} ...", a=df)`. */
  private val PySpark = "_pyspark_"

  /**
   * The names around each mark of an analyzed query, below the join. Where the optimizer puts a
   * source's columns in the place of the query's, their qualifiers are gone, so the names are read
   * here.
   */
  def of(analyzed: LogicalPlan): Map[Origin, InputName] = {
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
    Origin
      .number(named.map(_._1.nodeId))
      .zip(named)
      .collect { case (origin, (_, Some(name))) => origin -> name }
      .toMap
  }
}
