package org.apache.spark.sql.streamjoin.rules.start

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.OptimizedQuery
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.batch.SparksBatch
import org.apache.spark.sql.streamjoin.checkpoint.{SparksJoin, TakeOver}
import org.apache.spark.sql.streamjoin.joins.interval.{SparksState, StreamIntervalJoin}
import org.apache.spark.sql.types.{StructField, StructType}

import streamjoin.core.{JoinType, Side}

/** `start()` of a query on a checkpoint whose joins Spark's own operator has run. */
private[start] object TakeOverOfJoins {

  /** Whether the session accepts that ours take over. */
  private def isAccepted: Boolean = SQLConf.get.getConf(StreamJoinConf.Evolve) != StreamJoinConf.Reject

  /**
   * Rejects what cannot be taken over, before anything is written. A batch that Spark's own join
   * has planned and not committed is left to it.
   *
   * @param optimized
   *   the query as it will run, or as written if Spark runs all of its joins
   */
  def apply(
      write: WriteToStream,
      checkpoint: Path,
      takeOver: TakeOver,
      optimized: LogicalPlan
  ): WriteToStream =
    if (OptimizedQuery.nodesIn(optimized).isEmpty) write
    else {
      def rejected(condition: String, parameters: (String, String)*): AnalysisException =
        StreamJoinErrors.analysis(condition, parameters :+ ("checkpoint" -> checkpoint.toString): _*)
      if (!isAccepted) throw rejected("STREAMJOIN_CHECKPOINT_OF_SPARK_JOIN")
      val (was, is) = (takeOver.joins.all, TakeOver.joinsIn(optimized))
      val joins = optimized.collect { case join: StreamIntervalJoin => join.ordinal -> join }.toMap
      if (was.size != is.size || !is.flatten.forall(joins.contains))
        throw rejected("STREAMJOIN_TAKE_OVER.NUMBER", "was" -> was.size.toString, "is" -> is.size.toString)
      val sources = takeOver.sources(optimized).map { case (ordinal, source) => joins(ordinal) -> source }
      sources.foreach { case (join, source) =>
        checkFormat(join.plan.joinType, source)((name, found) => rejected(name, found: _*))
        checkColumns(join, source)((name, found) => rejected(name, found: _*))
      }
      takeOver.pending.fold(write) { batch =>
        val isSame = sources.forall { case (join, source) =>
          inputs(join).forall { case (side, input) =>
            SparksState.columns(source.columns(side), input).contains(source.columns(side).indices)
          }
        }
        if (!isSame) throw rejected("STREAMJOIN_TAKE_OVER.PENDING", "batch" -> batch.toString)
        write.copy(inputQuery = SparksBatch.mark(write.inputQuery, batch))
      }
    }

  private type Rejected = (String, Seq[(String, String)]) => AnalysisException

  private def inputs(join: StreamIntervalJoin) = Side.both.zip(Seq(join.left.output, join.right.output))

  private def checkFormat(joinType: JoinType, source: SparksJoin)(rejected: Rejected): Unit =
    if (!source.hasFlags && joinType != JoinType.Inner)
      throw rejected(
        "STREAMJOIN_TAKE_OVER.FORMAT",
        Seq("type" -> joinType.name, "format" -> source.format.toString)
      )

  private def checkColumns(join: StreamIntervalJoin, source: SparksJoin)(rejected: Rejected): Unit =
    inputs(join).foreach { case (side, input) =>
      val stored = source.columns(side)
      if (SparksState.columns(stored, input).isEmpty)
        throw rejected(
          "STREAMJOIN_TAKE_OVER.COLUMNS",
          Seq(
            "side" -> side.name,
            "was" -> words(stored),
            "is" -> words(StructType(input.map(column => StructField(column.name, column.dataType))))
          )
        )
    }

  private def words(columns: StructType): String =
    columns.map(column => s"${column.name} ${column.dataType.sql}").mkString(", ")
}
