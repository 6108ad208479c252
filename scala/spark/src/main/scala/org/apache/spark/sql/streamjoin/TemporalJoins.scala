package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  Cast,
  EqualTo,
  Expression,
  In,
  Literal,
  Lower,
  Not
}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.operators.arrange.Operation
import org.apache.spark.sql.streamjoin.plans.AsOfMatch
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.sql.{Column, DataFrame, Dataset, Row}

import streamjoin.core.AsOf

/**
 * A stream of versions of the rows of a table.
 *
 * @param key
 *   the columns that tell its rows apart
 * @param time
 *   from when on a version is valid
 * @param op
 *   the column that says whether a row is a version, or takes its key away; without it all are
 *   versions
 */
final private[streamjoin] case class VersionsOf(
    df: DataFrame,
    key: Seq[String],
    time: String,
    op: Option[String]
)

/** Joins of a stream with what was valid at the time of its rows. */
private[streamjoin] object TemporalJoins {

  /**
   * Each row of a stream with the version of its key that was valid at its time.
   *
   * @param on
   *   has an equality for each column of the versions' key
   * @param asOf
   *   an event-time column of the stream
   */
  def temporal(
      stream: Dataset[Row],
      versions: VersionsOf,
      on: Column,
      isLeftOuter: Boolean,
      asOf: String
  ): DataFrame = {
    checkStream("sj.temporal_join", stream)
    checkStream("sj.versions", versions.df)
    val join = joined(stream, versions.df, on)
    val (left, right) = (join.left, join.right)
    val keys = versions.key.map(columnOf(right, _, "key="))
    val conjuncts = join.condition.toSeq.flatMap(PredicateParts.conjuncts)
    val found = keys.map(key => equality(key, left, conjuncts).getOrElse(throw keyNotTied(key, conjuncts)))
    val rest = conjuncts.filterNot(conjunct => found.exists(_._1 eq conjunct))
    val operation = versions.op.map(columnOf(right, _, "op="))
    val plan = AsOfMatch(
      left,
      operation.fold(right)(op => Filter(Not(isOne(op, Operation.Before)), right)),
      AsOf(),
      timeOf(left, asOf, "as_of="),
      timeOf(right, versions.time, "time="),
      found.map(_._2),
      found.map(_._3),
      operation.map(isOne(_, Operation.Delete)),
      PredicateParts.all(rest),
      isLeftOuter
    )
    ClassicDataset.ofRows(stream.asInstanceOf[ClassicDataset[Row]].sparkSession, plan)
  }

  /** As Spark resolves the names of a condition. */
  private def joined(left: DataFrame, right: DataFrame, on: Column): Join =
    left.join(right, on).asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed match {
      case join: Join => join
      case other => throw new IllegalArgumentException(s"no join: $other")
    }

  /** The conjunct that ties a key, and the two sides of it. */
  private def equality(
      key: Attribute,
      left: LogicalPlan,
      conjuncts: Seq[Expression]
  ): Option[(Expression, Expression, Expression)] = {
    def isKey(expression: Expression): Boolean = expression match {
      case attribute: Attribute => attribute.exprId == key.exprId
      case cast: Cast => Cast.canUpCast(cast.child.dataType, cast.dataType) && isKey(cast.child)
      case _ => false
    }
    def isOfLeft(expression: Expression) =
      expression.references.nonEmpty && expression.references.subsetOf(
        left.outputSet
      ) && expression.deterministic
    conjuncts.collectFirst {
      case same @ EqualTo(a, b) if isKey(b) && isOfLeft(a) => (same, a, b)
      case same @ EqualTo(a, b) if isKey(a) && isOfLeft(b) => (same, b, a)
    }
  }

  private def isOne(op: Attribute, operation: Operation): Expression =
    In(Lower(op), Operation.names(operation).map(Literal(_)))

  private def timeOf(plan: LogicalPlan, name: String, what: String): Attribute = {
    val column = columnOf(plan, name, what)
    if (column.dataType != TimestampType)
      throw refused(
        s"$what names ${column.name}, which is ${column.dataType.sql}",
        "It has to be a TIMESTAMP with a watermark."
      )
    column
  }

  private def columnOf(plan: LogicalPlan, name: String, what: String): Attribute = {
    val resolver = SQLConf.get.resolver
    plan.output.filter(column => resolver(column.name, name)) match {
      case Seq(column) => column
      case Seq() =>
        val columns = plan.output.map(_.name).mkString(", ")
        throw refused(s"$what names `$name`, which is no column", s"The columns are $columns.")
      case _ =>
        throw refused(s"$what names `$name`, which is several columns", "Give one of them another name.")
    }
  }

  private def keyNotTied(key: Attribute, conjuncts: Seq[Expression]) = {
    val on = PredicateParts.all(conjuncts).fold("true")(_.sql)
    refused(
      s"the condition $on has no equality for ${key.name}, which is in the versions' key",
      s"Write on= with <column of the stream> = ${key.name}; without the whole key a row would have several versions at a time."
    )
  }

  private def checkStream(call: String, df: DataFrame): Unit =
    if (!df.isStreaming)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NOT_A_STREAM",
        "call" -> call,
        "wanted" -> "a stream",
        "found" -> "a DataFrame of a batch",
        "advice" -> "A table as it was at a time is a batch query: join it with <, or read it AS OF a version."
      )

  private def refused(problem: String, advice: String) =
    StreamJoinErrors.analysis("STREAMJOIN_TEMPORAL", "problem" -> problem, "advice" -> advice)
}
