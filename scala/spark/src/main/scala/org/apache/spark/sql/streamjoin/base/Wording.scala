package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.quoteIfNeeded

/** Errors say what to write in the language in which the user wrote. */
private[streamjoin] object Wording {

  /** Whether an operator is from a text of SQL. */
  def isSql(operator: LogicalPlan): Boolean = operator.origin.sqlText.isDefined

  /** How an input gets a watermark, as an example to copy. */
  def mark(input: String, column: String, inSql: Boolean): String =
    if (inSql) s"FROM $input WATERMARK ${quoteIfNeeded(column)} DELAY OF INTERVAL 10 SECONDS"
    else s"""$input.withWatermark("$column", "10 seconds")"""
}
