package org.apache.spark.sql.streamjoin.front.functions

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.streamjoin.base.CallArguments

/**
 * A call of one of our functions on a DataFrame, `SELECT *, sj_...('{...}', columns) FROM child`,
 * or on a table, `f(TABLE(child), ...)`. It stays unresolved until the function replaces it, once
 * its child and its columns are resolved.
 *
 * @param columns
 *   the arguments that are expressions; Spark resolves them against the child
 */
final private[streamjoin] case class FrameCall(
    function: FrameFunction,
    arguments: CallArguments,
    columns: Seq[Expression],
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): FrameCall = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"${function.name}$arguments"
}
