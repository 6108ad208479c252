package org.apache.spark.sql.streamjoin.changes

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.{GenericArrayData, TypeUtils}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import streamjoin.core.{ChangeReader, Message, Operation, Reading}

/**
 * The changes of a message in Debezium's envelope ([[ChangeReader]]): an array with the row and the
 * operation of each change. An empty message has one element with neither.
 *
 * @param children
 *   the operation, the row before and the row after, both of the same type; then columns that are
 *   null if there is no message
 * @param key
 *   ordinals of the key in the rows
 * @param times
 *   ordinals of the columns of the rows that contain the time of the change
 * @param notSent
 *   stands for a value that was not sent
 * @param call
 *   the user's call, for errors
 */
final private[streamjoin] case class ReadChange(
    children: Seq[Expression],
    key: Seq[Int],
    times: Seq[Int],
    notSent: Option[String],
    call: String
) extends Expression
    with CodegenFallback {
  private def rowType = children(1).dataType.asInstanceOf[StructType]

  override def dataType: DataType = ReadChange.typeOf(rowType)

  override def nullable: Boolean = false

  @transient private lazy val orderings =
    key.map(at => TypeUtils.getInterpretedOrdering(rowType(at).dataType))

  @transient private lazy val unavailable = notSent.map(new Unavailable(_, rowType))

  @transient private lazy val reader = new ChangeReader[InternalRow](isSameKey, filled, dated)

  private def isSameKey(one: InternalRow, other: InternalRow): Boolean =
    key.zip(orderings).forall { case (at, ordering) =>
      (one.isNullAt(at), other.isNullAt(at)) match {
        case (false, false) =>
          val dataType = rowType(at).dataType
          ordering.equiv(one.get(at, dataType), other.get(at, dataType))
        case (one, other) => one && other
      }
    }

  private def filled(after: InternalRow, before: InternalRow): InternalRow =
    unavailable.fold(after)(_.filled(after, before))

  /** The old row is removed at the time of the new one. */
  private def dated(before: InternalRow, after: InternalRow): InternalRow =
    if (times.isEmpty) before
    else
      InternalRow.fromSeq(rowType.indices.map { at =>
        val from = if (times.contains(at)) after else before
        if (from.isNullAt(at)) null else from.get(at, rowType(at).dataType)
      })

  override def eval(input: InternalRow): Any = {
    val operation = Option(children.head.eval(input).asInstanceOf[UTF8String])
    val message = Message(operation.map(_.toString), row(1, input), row(2, input))
    val changes = reader.read(message) match {
      case Reading.Changes(parts) =>
        parts.map { part =>
          val written =
            if (parts.size == 1) operation.get else ReadChange.written(part.operation)
          InternalRow(part.row.orNull, written)
        }
      case Reading.Empty =>
        ReadChange.checkIsNoMessage(children.drop(3), input, call)
        Seq(InternalRow(null, null))
      // The task names the arrangement or the versions in its error.
      case Reading.Unreadable(operation) =>
        Seq(
          InternalRow(
            message.after.orElse(message.before).orNull,
            operation.map(UTF8String.fromString).orNull
          )
        )
    }
    new GenericArrayData(changes.toArray[Any])
  }

  private def row(child: Int, input: InternalRow): Option[InternalRow] =
    Option(children(child).eval(input).asInstanceOf[InternalRow])

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): ReadChange =
    copy(children = newChildren)
}

private[streamjoin] object ReadChange {
  val Row = "row"
  val Op = "op"

  def typeOf(row: DataType): ArrayType = ArrayType(
    new StructType().add(Row, row, nullable = true).add(Op, StringType, nullable = true),
    containsNull = false
  )

  /** @param proofs columns that are null if there is no message */
  def checkIsNoMessage(proofs: Seq[Expression], input: InternalRow, call: String): Unit =
    proofs.find(_.eval(input) != null).foreach { column =>
      throw StreamJoinErrors.runtime(
        "STREAMJOIN_UNREADABLE_CHANGE",
        "call" -> call,
        "column" -> (column match {
          case named: NamedExpression => named.name
          case bound => bound.sql
        })
      )
    }

  /** The operation of one change in a message, as tasks read it. */
  private def written(operation: Operation): UTF8String =
    UTF8String.fromString(Operation.names(operation).head)
}
