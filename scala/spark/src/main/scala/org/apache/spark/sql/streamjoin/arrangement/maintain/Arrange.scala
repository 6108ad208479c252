package org.apache.spark.sql.streamjoin.arrangement.maintain

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, ArrangementMeta, InputKind}
import org.apache.spark.sql.streamjoin.base.{MaintainsTarget, StreamJoinConf, TargetChange}
import org.apache.spark.sql.streamjoin.time.DurationText
import org.apache.spark.sql.types.BinaryType

/**
 * Maintains an arrangement: the top of a streaming query, below its sink. Each task writes its
 * changes to a file and passes the file's description to the sink, which commits the version.
 *
 * @param root
 *   folder of the arrangement
 * @param meta
 *   wanted description of the arrangement; its id is used only if this query is the first
 * @param timeToLive
 *   how long rows are kept by their time, in microseconds; a restarted query may use another
 *   duration
 * @param traits
 *   how the changes of a changelog are interpreted
 * @param child
 *   columns of the rows, then the operation of a changelog or the number of copies of updates, then
 *   the position in a log if it is known
 */
final private[streamjoin] case class Arrange(
    root: String,
    meta: ArrangementMeta,
    timeToLive: Option[Long],
    traits: LogTraits,
    output: Seq[Attribute],
    child: LogicalPlan
) extends UnaryNode
    with MaintainsTarget {

  override lazy val references: AttributeSet = AttributeSet(child.output)

  override def changes(session: SparkSession): Seq[TargetChange] = {
    val folder = ArrangementFolder.open(session, new Path(root))
    // Nothing has been written or read yet.
    if (!folder.exists || folder.newest < 0) Nil
    else ArrangementChanges.all(folder.current, meta, StreamJoinConf.setPartitions)
  }

  override protected def withNewChildInternal(newChild: LogicalPlan): Arrange = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"Arrange $root by ${Arrange.words(meta, timeToLive)}"
}

private[streamjoin] object Arrange {
  def apply(
      root: String,
      meta: ArrangementMeta,
      timeToLive: Option[Long],
      traits: LogTraits,
      child: LogicalPlan
  ): Arrange =
    Arrange(
      root,
      meta,
      timeToLive,
      traits,
      Seq(AttributeReference(TaskOutput.Schema.head.name, BinaryType, nullable = false)()),
      child
    )

  def words(meta: ArrangementMeta, timeToLive: Option[Long]): String = {
    val keys = meta.keys.map(_.mkString("(", ", ", ")")).mkString(", ")
    val input = meta.input match {
      case InputKind.Changelog => "a changelog by the first"
      case other => other.name
    }
    val kept = timeToLive.map(length => s", rows kept for ${DurationText.of(length)} of ${meta.time.get}")
    s"$keys, $input${kept.getOrElse("")}"
  }
}
