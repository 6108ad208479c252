package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.{Row, SparkSession}

/**
 * The placeholder for a function of a whole query, its child, until the query is analyzed. A table
 * with the answer then replaces both; the query is not run.
 */
private[streamjoin] trait QueryFunction extends UnaryNode {

  /** Its name in Python. */
  def call: String

  /** The rows of the answer. */
  def answer(query: LogicalPlan, session: SparkSession): Seq[Row]

  /** The result is a batch table even if the query is a stream. */
  final override def isStreaming: Boolean = false

  final override def producedAttributes: AttributeSet = AttributeSet(output)
}
