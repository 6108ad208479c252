package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.analysis._
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.AsOfMatch
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

/** An [[AsOfMatch]] as a [[TemporalJoin]], or the error that says why it is none. */
private[streamjoin] object RecognizeTemporalJoin extends Recognizer {

  /** For EXPLAIN. */
  val NodeName = "StreamTemporalJoin"

  override def isMine(operator: LogicalPlan): Boolean = operator match {
    case found: AsOfMatch => found.children.forall(_.isStreaming)
    case _ => false
  }

  override def recognize(operator: LogicalPlan, ordinal: Int, lineage: WatermarkLineage): Recognition =
    operator match {
      case found: AsOfMatch if isMine(found) =>
        val (left, right) = SharedColumns.keepApart(found.left, found.right)
        (for {
          leftMark <- watermark(found.leftTime, found.left, lineage)
          rightMark <- watermark(found.rightTime, found.right, lineage)
        } yield Recognition.Found(
          TemporalJoin(
            left,
            right,
            found.leftKeys.map(NormalizeFloatingNumbers.normalize),
            found.rightKeys.map(NormalizeFloatingNumbers.normalize),
            found.isDelete,
            found.condition,
            Seq(found.leftTime, found.rightTime),
            TemporalPlan(ordinal, found.rule, IndexedSeq(leftMark, rightMark), found.isLeftOuter)
          )
        )).merge
      case _ => Recognition.NotMine
    }

  private def watermark(
      time: Attribute,
      input: LogicalPlan,
      lineage: WatermarkLineage
  ): Either[Recognition, ColumnWatermark] =
    lineage.of(time, input) match {
      case None =>
        val error = StreamJoinErrors.analysis("STREAMJOIN_TEMPORAL_TIME", "column" -> time.name)
        Left(Recognition.Rejected(NodeName, error))
      case Some(known) =>
        UndefinedWatermark
          .of(known, input)
          .map(where => Recognition.Rejected(NodeName, where.refused("The temporal join")))
          .toLeft(known)
    }
}
