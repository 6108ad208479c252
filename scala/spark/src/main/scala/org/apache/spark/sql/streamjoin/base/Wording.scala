package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.quoteIfNeeded

/** Errors suggest code in the language that the user wrote. */
private[streamjoin] object Wording {

  /** Whether an operator comes from a SQL text. */
  def isSql(operator: LogicalPlan): Boolean = operator.origin.sqlText.isDefined

  /** An example to copy that gives an input a watermark. */
  def mark(input: String, column: String, inSql: Boolean): String =
    if (inSql) s"FROM $input WATERMARK ${quoteIfNeeded(column)} DELAY OF INTERVAL 10 SECONDS"
    else s"""$input.withWatermark("${quoteIfNeeded(column)}", "10 seconds")"""

  /** An example to copy that changes a setting. */
  def setting(name: String, value: String, inSql: Boolean): String =
    if (inSql) s"SET $name = $value" else s"""spark.conf.set("$name", "$value")"""
}
