package org.apache.spark.sql.streamjoin.operators.arrange

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementMeta, InputKind, TaskOutput}
import org.apache.spark.sql.types.BinaryType

/**
 * Maintains an arrangement: the top of a streaming query, below its sink. Each task writes its
 * changes to a file and passes the file's description to the sink, which commits the version.
 *
 * @param root
 *   folder of the arrangement
 * @param meta
 *   wanted description of the arrangement; its id is used only if this query is the first
 * @param child
 *   columns of the rows, then the operation of a changelog or the number of copies of updates
 */
final private[streamjoin] case class Arrange(
    root: String,
    meta: ArrangementMeta,
    output: Seq[Attribute],
    child: LogicalPlan
) extends UnaryNode {

  override lazy val references: AttributeSet = AttributeSet(child.output)

  override protected def withNewChildInternal(newChild: LogicalPlan): Arrange = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"Arrange $root by ${Arrange.words(meta)}"
}

private[streamjoin] object Arrange {
  def apply(root: String, meta: ArrangementMeta, child: LogicalPlan): Arrange =
    Arrange(
      root,
      meta,
      Seq(AttributeReference(TaskOutput.Schema.head.name, BinaryType, nullable = false)()),
      child
    )

  def words(meta: ArrangementMeta): String = {
    val keys = meta.keys.map(_.mkString("(", ", ", ")")).mkString(", ")
    meta.input match {
      case InputKind.Changelog => s"$keys, a changelog by the first"
      case other => s"$keys, ${other.name}"
    }
  }
}
