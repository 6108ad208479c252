package org.apache.spark.sql.streamjoin

import java.util.UUID

import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.streamjoin.arrangement._
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.operators.delta.{DeltaJoin, DeltaJoinOf}
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

/** Joins of arrangements that keep nothing of their own. */
private[streamjoin] object DeltaJoins {

  /** All columns, or those of an input. */
  private val Star = """\s*(?:(\w+)\s*\.\s*)?\*\s*""".r

  /**
   * The changes of a join.
   *
   * @param inputs
   *   what the condition calls an arrangement, and its name or path
   * @param on
   *   the condition, in SQL
   * @param outer
   *   of two inputs, by number, those whose rows without a match are in the result too
   * @param select
   *   the columns of the result, in SQL; all where there are none
   * @param options
   *   of the inputs, such as how many versions a batch has
   */
  def of(
      session: SparkSession,
      inputs: Seq[(String, String)],
      on: String,
      select: Seq[String],
      outer: Set[Int],
      options: Map[String, String]
  ): DataFrame = {
    if (inputs.size < 2)
      throw DeltaJoinOf.refused(
        "there are not two inputs",
        "Give the arrangements by the names that the condition uses."
      )
    val streams = inputs.map { case (alias, nameOrPath) =>
      session.readStream
        .format("streamjoin")
        .options(options)
        .option(ArrangementOptions.Source, UUID.randomUUID().toString)
        .load(nameOrPath)
        .alias(alias)
    }
    val rows = streams.reduce(_ crossJoin _).where(on)
    val columns = inputs.zip(streams).map { case ((alias, _), stream) =>
      // Behind them are the version and the number of copies, which are not columns of the rows.
      alias -> stream.columns
        .dropRight(2)
        .toSeq
        .map(name => col(s"${quoteIdentifier(alias)}.${quoteIdentifier(name)}"))
    }
    val selected = rows.select((if (select.isEmpty) Seq("*") else select).flatMap {
      case Star(null) => columns.flatMap(_._2)
      case Star(alias) if columns.exists(_._1 == alias) => columns.filter(_._1 == alias).flatMap(_._2)
      case other => Seq(expr(other))
    }: _*)
    val classic = selected.asInstanceOf[ClassicDataset[Row]]
    val join = of(classic.queryExecution.analyzed, inputs.map(_._1), outer)
    ClassicDataset.ofRows(classic.sparkSession, join)
  }

  private def of(analyzed: LogicalPlan, names: Seq[String], outer: Set[Int]): DeltaJoin =
    analyzed match {
      case Project(list, Filter(condition, join: Join)) =>
        val relations = join.collectLeaves().collect { case relation: StreamingRelationV2 => relation }
        DeltaJoinOf(list, PredicateParts.conjuncts(condition), names.zip(relations), outer)
      case other =>
        throw DeltaJoinOf.refused(
          s"it is not a plain condition and columns: ${other.nodeName}",
          "Aggregate or window its result instead."
        )
    }
}
