package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.operator.explain.{JoinNames, WatermarkExplain}

import streamjoin.core.Side

/** A join of two streams: defines how EXPLAIN, the progress and late rows name its inputs. */
private[streamjoin] trait TwoStreamsExec extends BinaryExecNode with StatefulNodeExec {

  /** The event-time columns by watermark key, followed by other columns. */
  def times: Seq[Attribute]

  /** The side of each event-time column, by watermark key. */
  protected def sides: IndexedSeq[Side]

  /** Expressions that carry the aliases written by the user. */
  protected def expressionsInWords: Seq[Expression]

  final protected def input(side: Side): SparkPlan = if (side == Side.Left) left else right

  /** The columns of an input; they may be followed by others that are computed for the join. */
  protected def shown(side: Side): Seq[Attribute] = input(side).output

  /** The data that tasks need to write late rows, if these are kept. */
  final private[streamjoin] def lateRows: Option[LateRows.Spec] =
    binding.filter(_ => StreamJoinConf.keepsLateRows).map { batch =>
      val inputs = Side.both.map { side =>
        val own = sides.indices.filter(sides(_) == side).map(times)
        side -> LateRows.Input(names.name(side), own, shown(side))
      }
      LateRows.Spec(batch.lateRows.toString, batch.batch, Some(ordinal + 1), inputs.toMap, numPartitions)
    }

  final protected lazy val names: JoinNames = binding match {
    case Some(batch) =>
      JoinNames.of(sides, watermarks, times.take(sides.size), left, right, batch.inputs)
    case None => JoinNames.qualified(left, right, expressionsInWords)
  }

  final override protected def keptSides: Seq[Option[String]] = Side.both.map(side => Some(side.name))

  /** The event-time columns by watermark key. */
  final protected def columnsInWords: Seq[String] = names.distinctColumns(sides.zip(times))

  final protected lazy val watermarksInWords =
    new WatermarkExplain(sides, watermarks, times, names, eviction)

  /**
   * For each event-time column with a watermark: the watermark and its lag behind the newest row of
   * the column. Also, the distance between the lowest and the highest watermark.
   */
  override protected def progressFigures: Seq[(String, Long)] =
    watermarksInWords.figures(
      origin => binding.flatMap(_.newest.get(origin)),
      column => binding.flatMap(_.eviction.idleSince(column))
    )
}
