package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf

import streamjoin.core.Side

/** A join of two streams: how EXPLAIN, the progress and late rows name its inputs. */
private[streamjoin] trait TwoStreamsExec extends BinaryExecNode with JoinStateExec {

  /** The event-time columns by watermark key, followed by other columns. */
  def times: Seq[Attribute]

  /** The side of each event-time column, by watermark key. */
  protected def sides: IndexedSeq[Side]

  /** Expressions that carry the aliases written by the user. */
  protected def expressionsInWords: Seq[Expression]

  /** Lines for EXPLAIN. */
  protected def words: Seq[String]

  final protected def input(side: Side): SparkPlan = if (side == Side.Left) left else right

  /** What the tasks need to write late rows, if they are kept. */
  final private[operators] def lateRows: Option[LateRows.Spec] =
    binding.filter(_ => StreamJoinConf.keepsLateRows).map { batch =>
      val inputs = Side.both.map { side =>
        val own = sides.indices.filter(sides(_) == side).map(times)
        side -> LateRows.Input(names.name(side), own, input(side).output)
      }
      LateRows.Spec(batch.lateRows.toString, batch.batch, Some(ordinal + 1), inputs.toMap)
    }

  @transient final protected lazy val names: JoinNames = binding match {
    case Some(batch) =>
      JoinNames.of(sides, watermarks, times.take(sides.size), left.output, right.output, batch.inputs)
    case None => JoinNames.qualified(left.output, right.output, expressionsInWords)
  }

  @transient final protected lazy val watermarksInWords =
    new WatermarksInWords(sides, watermarks, times, names, eviction)

  /**
   * For each event-time column, once it has a watermark: the watermark and its lag behind the
   * newest row of the column. Also, how far the lowest watermark is behind the highest.
   */
  override protected def progressFigures: Seq[(String, Long)] =
    watermarksInWords.figures(
      origin => binding.flatMap(_.newest.get(origin)),
      column => binding.flatMap(_.eviction.idleSince(column))
    )

  override def simpleString(maxFields: Int): String = s"$nodeName ${words.mkString(", ")}"

  override def verboseStringWithOperatorId(): String =
    s"$formattedNodeName\n${words.map(line => s"  $line").mkString("\n")}\n"
}
