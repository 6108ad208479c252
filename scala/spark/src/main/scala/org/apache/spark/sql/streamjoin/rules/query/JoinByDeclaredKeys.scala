package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  And,
  Attribute,
  AttributeMap,
  AttributeSet,
  EqualTo,
  Expression
}
import org.apache.spark.sql.catalyst.plans.Cross
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.arrangement.source.{ArrangementTable, LookedUpTable}
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinConf}
import org.apache.spark.sql.streamjoin.joins.delta.ArrangedInputs
import org.apache.spark.sql.streamjoin.joins.table.StreamSide

/**
 * Adds a condition to a SQL join without one, of a stream with an arrangement or of the changes of
 * two arrangements: equality of the columns of the arrangement's first key. Spark calls the rule
 * while a query is analyzed, because the rest of the query may relate the two: only a join that
 * would be rejected gets the condition, and `FROM a, b WHERE a.x = b.y` keeps its meaning. Joins of
 * DataFrames are not changed, because their conditions may follow later.
 */
private[streamjoin] object JoinByDeclaredKeys extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SQLConf.get.getConf(StreamJoinConf.Arrangements).isEmpty) plan
    else {
      lazy val tables = CommonTables.of(plan)
      val joined = plan.resolveOperatorsUp {
        case project @ Project(_, source) if project.resolved && project.origin.sqlText.isDefined =>
          ArrangedInputs.of(tables.inlined(source)).fold[LogicalPlan](project)(ofChanges(project, _))
      }
      // A condition that relates the two inputs may be anywhere above.
      if (joined.resolved) ofTables(joined) else joined
    }

  private def ofChanges(project: Project, inputs: ArrangedInputs): LogicalPlan = {
    val keys = inputs.named.flatMap { case (_, input) => ArrangedInputs.keyOf(input) }
    val isTied =
      inputs.conditions.exists(condition => inputs.named.forall { case (_, input) => isOf(input, condition) })
    if (isTied || inputs.named.size != 2 || keys.map(_.toSet).distinct.size != 1) project
    else withConditions(project, join => condition(join.left, join.right, keys.head))
  }

  private def ofTables(plan: LogicalPlan): LogicalPlan = {
    lazy val all = conditions(plan)
    def isTied(join: Join) = all.exists(columns => join.children.forall(_.output.exists(columns.contains)))
    withConditions(
      plan,
      join =>
        for {
          key <- keyOfTable(join)
          if !isTied(join)
          found <- condition(join.left, join.right, key)
        } yield found
    )
  }

  private def withConditions(plan: LogicalPlan, of: Join => Option[Expression]): LogicalPlan =
    plan.resolveOperatorsDown {
      case join: Join if join.condition.isEmpty && join.joinType != Cross && join.origin.sqlText.isDefined =>
        of(join).fold[LogicalPlan](join)(condition => join.copy(condition = Some(condition)))
    }

  private def keyOfTable(join: Join): Option[Seq[String]] =
    StreamSide
      .of(join)
      .map(sides => EliminateSubqueryAliases(sides.other))
      .collect {
        case LookedUpTable(table, _) => table.options
        // A version of the arrangement, which Spark joins.
        case relation: DataSourceV2Relation if relation.table.isInstanceOf[ArrangementTable] =>
          relation.table.asInstanceOf[ArrangementTable].options
      }
      .map(_.open().meta.keys.head)

  /**
   * The columns of each condition, and those from which they are computed: an outer block may know
   * the columns of the join under other names.
   */
  private def conditions(plan: LogicalPlan): Seq[AttributeSet] = {
    val sources = AttributeMap(plan.collect { case Project(list, _) => list }.flatten.collect {
      case alias: Alias => alias.toAttribute -> alias.references
    })
    def withSources(columns: AttributeSet): AttributeSet = {
      val all = AttributeSet.fromAttributeSets(columns.toSeq.flatMap(sources.get(_)) :+ columns)
      if (all.size == columns.size) all else withSources(all)
    }
    plan
      .collect {
        case filter: Filter => Seq(filter.condition)
        case join: Join => join.condition.toSeq
      }
      .flatten
      .flatMap(PredicateParts.conjuncts)
      .map(condition => withSources(condition.references))
  }

  private def isOf(side: LogicalPlan, condition: Expression): Boolean =
    condition.references.exists(side.outputSet.contains)

  /** None unless each side has exactly one column of each name; `start()` reports a missing one. */
  private def condition(left: LogicalPlan, right: LogicalPlan, key: Seq[String]): Option[Expression] = {
    val equalities = key.map { name =>
      for {
        one <- column(left, name)
        other <- column(right, name)
      } yield EqualTo(one, other): Expression
    }
    Option.when(equalities.forall(_.isDefined))(equalities.flatten.reduce(And(_, _)))
  }

  private def column(side: LogicalPlan, name: String): Option[Attribute] =
    side.output.filter(column => SQLConf.get.resolver(column.name, name)) match {
      case Seq(one) => Some(one)
      case _ => None
    }
}
