package org.apache.spark.sql.streamjoin.changes

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.DataType

/**
 * The operation of a row of a flat log. A row with neither an operation nor a key is an empty
 * message. If another column shows that there was a message that could not be read, the query
 * fails.
 *
 * @param children
 *   the operation and the key, then columns that are null if there is no message
 * @param keys
 *   the number of columns of the key
 * @param call
 *   the user's call, for errors
 */
final private[streamjoin] case class CheckedOperation(children: Seq[Expression], keys: Int, call: String)
    extends Expression
    with CodegenFallback {
  override def dataType: DataType = children.head.dataType

  override def nullable: Boolean = true

  override def eval(input: InternalRow): Any = {
    val operation = children.head.eval(input)
    if (operation == null && children.slice(1, keys + 1).forall(_.eval(input) == null))
      ReadChange.checkIsNoMessage(children.drop(keys + 1), input, call)
    operation
  }

  override protected def withNewChildrenInternal(
      newChildren: IndexedSeq[Expression]
  ): CheckedOperation = copy(children = newChildren)
}
