package org.apache.spark.sql.streamjoin.rules.start

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.InlineCTE
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.streamjoin.analysis.{StreamJoinType, WatermarkLineage}
import org.apache.spark.sql.streamjoin.arrangement.source.ChangesTable
import org.apache.spark.sql.streamjoin.arrangement.storage.ChangeColumns
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors, Wording}
import org.apache.spark.sql.streamjoin.joins.delta.StreamDeltaJoin
import org.apache.spark.sql.streamjoin.joins.temporal.StreamAsOfJoin
import org.apache.spark.sql.types.NumericType

import streamjoin.core.Side

/**
 * Rejects a join by time with an input that retracts rows: the join would treat a retraction like a
 * row, or drop it as late while the retracted row stays. The origin of the rows determines whether
 * they can be retracted, not the names of columns.
 */
private[start] object CheckRetractions {

  def apply(query: LogicalPlan): Unit = withoutTables(query).foreach {
    case join: StreamAsOfJoin =>
      val name = if (join.operation.isDefined) "a temporal join" else "a temporal or as-of join"
      check(name, Side.Left, join.left, Wording.isSql(join))
      if (join.operation.isEmpty) check(name, Side.Right, join.right, Wording.isSql(join))
    case join: Join if StreamJoinType.isStreamJoin(join) =>
      Side.both.foreach { side =>
        check("a join by time", side, join.children(side.index), Wording.isSql(join))
      }
    case _ =>
  }

  /** The query with references to common tables replaced by the tables. */
  private def withoutTables(query: LogicalPlan): LogicalPlan =
    if (!query.exists(_.isInstanceOf[WithCTE])) query
    else AnalysisHelper.allowInvokingTransformsInAnalyzer(InlineCTE(alwaysInline = true)(query))

  private def check(join: String, side: Side, input: LogicalPlan, inSql: Boolean): Unit =
    of(input).foreach { found =>
      throw StreamJoinErrors.analysis(
        if (side == Side.Left) "STREAMJOIN_RETRACTIONS.LEFT" else "STREAMJOIN_RETRACTIONS.RIGHT",
        Seq("join" -> join, "side" -> side.name, "source" -> found.source) ++ advice(side, inSql): _*
      )
    }

  private def advice(side: Side, inSql: Boolean): Seq[(String, String)] = (side, inSql) match {
    case (Side.Left, true) =>
      Seq("delta" -> "a join of their streams without a bound", "filter" -> "WHERE _diff > 0")
    case (Side.Left, false) => Seq("delta" -> "sj.delta_join", "filter" -> "left.where(\"_diff > 0\")")
    case (Side.Right, true) =>
      Seq(
        "lookup" -> "JOIN name FOR SYSTEM_TIME AS OF NOW()",
        "versions" -> "VERSIONS(TABLE(SELECT *, if(_diff > 0, 'insert', 'delete') AS op FROM ...), KEY(...), TIME(...), OP(op))"
      )
    case (Side.Right, false) =>
      Seq(
        "lookup" -> "sj.table",
        "versions" -> "sj.versions(right.withColumn(\"op\", F.expr(\"if(_diff > 0, 'insert', 'delete')\")), key=..., op=\"op\")"
      )
  }

  /**
   * Rows that can be retracted.
   *
   * @param diff
   *   columns with the number of copies
   */
  final private case class Retracting(source: String, diff: AttributeSet)

  private def of(plan: LogicalPlan): Option[Retracting] = plan match {
    case relation: StreamingRelationV2 => ofSource(relation)
    case join: StreamDeltaJoin => Some(Retracting("a delta join", AttributeSet(diffs(join.output))))
    case Project(list, child) => of(child).map(ofProjection(_, list))
    case Filter(condition, child) =>
      of(child).filterNot(found => PredicateParts.conjuncts(condition).exists(keepsAdded(_, found.diff)))
    case union: Union =>
      union.children.flatMap { child =>
        of(child).map { found =>
          val diffs =
            child.output.zip(union.output).collect { case (own, out) if found.diff.contains(own) => out }
          found.copy(diff = AttributeSet(diffs))
        }
      }.headOption
    // Its rows are the result of the changes, or depend on it.
    case _: Aggregate => None
    case stateful if WatermarkLineage.isStateful(stateful) => stateful.children.flatMap(of).headOption
    case other => other.children.flatMap(of).headOption
  }

  private def ofSource(relation: StreamingRelationV2): Option[Retracting] = relation.table match {
    case table: ChangesTable if table.takesBack =>
      Some(Retracting(s"the arrangement ${table.options.root.getName}", AttributeSet(diffs(relation.output))))
    case _ => None
  }

  private def diffs(output: Seq[Attribute]) = output.filter(_.name == ChangeColumns.Diff)

  private def ofProjection(found: Retracting, list: Seq[NamedExpression]): Retracting =
    found.copy(diff = AttributeSet(list.filter(isDiff(_, found.diff)).map(_.toAttribute)))

  /** Whether a value is a number of copies. A view casts each of its columns to its own type. */
  private def isDiff(value: Expression, diff: AttributeSet): Boolean = value match {
    case column: Attribute => diff.contains(column)
    case Alias(child, _) => isDiff(child, diff)
    case cast: Cast => cast.dataType.isInstanceOf[NumericType] && isDiff(cast.child, diff)
    case _ => false
  }

  /** Whether a condition holds only for added rows. */
  private def keepsAdded(condition: Expression, diff: AttributeSet): Boolean = {
    def isCopies(side: Expression) = isDiff(side, diff)
    def isAtLeast(bound: Expression, least: Int): Boolean = bound.foldable && (bound.eval() match {
      case number: java.lang.Number => number.doubleValue >= least
      case _ => false
    })
    condition match {
      case GreaterThan(column, bound) => isCopies(column) && isAtLeast(bound, 0)
      case GreaterThanOrEqual(column, bound) => isCopies(column) && isAtLeast(bound, 1)
      case LessThan(bound, column) => isCopies(column) && isAtLeast(bound, 0)
      case LessThanOrEqual(bound, column) => isCopies(column) && isAtLeast(bound, 1)
      case Equality(one, other) =>
        isCopies(one) && isAtLeast(other, 1) || isCopies(other) && isAtLeast(one, 1)
      case _ => false
    }
  }
}
