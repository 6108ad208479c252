package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.streamjoin.arrangement.source.ChangesTable
import org.apache.spark.sql.streamjoin.arrangement.storage.ChangeColumns
import org.apache.spark.sql.streamjoin.base.{PredicateParts, SourceNames}

/**
 * The inputs of a tree of joins, in the order in which they are written. An input is the stream of
 * an arrangement's changes, given by its name, or by views, common tables and subqueries that only
 * select columns and filter rows.
 *
 * @param named
 *   name of each input in the query, and the stream of its changes
 * @param filters
 *   by input: filters on its rows
 * @param outer
 *   numbers of the inputs whose unmatched rows are in the result, in a join of two
 * @param values
 *   the columns of views and subqueries, as expressions over the streams
 * @param computedBelow
 *   columns that are computed below an outer join, in an input that it pads with nulls
 */
final private[streamjoin] case class ArrangedInputs(
    named: Seq[(String, StreamingRelationV2)],
    conditions: Seq[Expression],
    filters: Seq[Seq[Expression]],
    outer: Set[Int],
    values: AttributeMap[Expression],
    computedBelow: AttributeSet
) {
  private val hidden = AttributeSet(named.flatMap { case (_, relation) =>
    relation.output.takeRight(ChangeColumns.OfSource.size)
  })

  /** An expression of the query in terms of the streams. */
  def inStreams(expression: Expression): Expression =
    expression.transformUp { case column: Attribute => values.getOrElse(column, column) }

  /** Whether it is the version or the number of copies of an input, as selected by `*`. */
  def isHidden(column: NamedExpression): Boolean = column match {
    case attribute: Attribute =>
      inStreams(attribute) match {
        case found: Attribute => hidden.contains(found)
        case _ => false
      }
    case _ => false
  }

  private def usesHidden(expression: Expression): Boolean =
    inStreams(expression).references.exists(hidden.contains)

  /** A view casts each of its columns to the type that it has. */
  private def ofView(value: Expression): Expression = value match {
    case cast: Cast if cast.child.dataType == cast.dataType => ofView(cast.child)
    case other => other
  }

  /** The name in the query is that of the outermost alias. */
  private def called(name: String): ArrangedInputs = named match {
    case Seq((_, relation)) => copy(named = Seq(name -> relation))
    case _ => this
  }

  /** A row must look the same when it is added and when it is removed. */
  private def select(list: Seq[NamedExpression]): Option[ArrangedInputs] = {
    val aliases = list.collect { case alias: Alias => alias }
    def isPlain(alias: Alias) = alias.child.deterministic && (ofView(alias.child) match {
      case column: Attribute => column.name == alias.name || !usesHidden(column)
      case other => !usesHidden(other)
    })
    Option.when(aliases.forall(isPlain)) {
      copy(
        values =
          values ++ AttributeMap(aliases.map(alias => alias.toAttribute -> inStreams(ofView(alias.child)))),
        computedBelow = computedBelow ++
          AttributeSet(aliases.filter(_.references.exists(computedBelow.contains)).map(_.toAttribute))
      )
    }
  }

  /** A filter above an outer join is not part of its condition. */
  private def where(condition: Expression): Option[ArrangedInputs] = {
    val added = PredicateParts.conjuncts(condition).map(inStreams)
    if (named.size > 1) Option.when(outer.isEmpty)(copy(conditions = conditions ++ added))
    else
      Option.when(condition.deterministic && !usesHidden(condition)) {
        copy(filters = Seq(filters.head ++ added))
      }
  }

  /**
   * A common table or a view that is read twice becomes two streams.
   *
   * @param output
   *   the columns of these inputs that the query sees
   */
  private def apartFrom(others: ArrangedInputs, output: Seq[Attribute]): ArrangedInputs = {
    val known = others.named.map { case (_, relation) => ChangesTable.sourceOf(relation) }
    val (streams, renamed) = named.map { case (name, relation) =>
      if (!known.contains(ChangesTable.sourceOf(relation))) (name -> relation, Nil)
      else {
        val again = ChangesTable.again(relation)
        (name -> again, relation.output.zip(again.output))
      }
    }.unzip
    val columns = AttributeMap(renamed.flatten)
    def again(expression: Expression): Expression =
      expression.transformUp { case column: Attribute => columns.getOrElse(column, column) }
    if (columns.isEmpty) this
    else
      ArrangedInputs(
        streams,
        conditions.map(again),
        filters.map(_.map(again)),
        outer,
        AttributeMap(values.map { case (column, value) => column -> again(value) }.toSeq) ++
          AttributeMap(output.flatMap(column => columns.get(column).map(column -> _))),
        computedBelow
      )
  }

  private def computed: AttributeSet = AttributeSet(values.collect {
    case (column, value) if !value.isInstanceOf[Attribute] => column
  })

  private def joined(right: ArrangedInputs, preserved: Set[Int], on: Option[Expression]): ArrangedInputs = {
    val both = ArrangedInputs(
      named ++ right.named,
      conditions ++ right.conditions,
      filters ++ right.filters,
      outer ++ right.outer ++ preserved,
      values ++ right.values,
      computedBelow ++ right.computedBelow ++
        Seq(right, this).zipWithIndex
          .collect { case (side, other) if preserved(other) => side.computed }
          .reduceOption(_ ++ _)
          .getOrElse(AttributeSet.empty)
    )
    both.copy(conditions = both.conditions ++ on.toSeq.flatMap(PredicateParts.conjuncts).map(both.inStreams))
  }
}

private[streamjoin] object ArrangedInputs {

  /** For a tree with at least two inputs. */
  def of(plan: LogicalPlan): Option[ArrangedInputs] = tree(plan).filter(_.named.size > 1)

  /** Whether every leaf is an arrangement that was read by its name, with nothing above it. */
  def areIn(plan: LogicalPlan): Boolean = plan match {
    case Input(_) => true
    case SubqueryAlias(_, child) => areIn(child)
    // The wrapper around a stream that Spark has not named yet.
    case SourceNames.Unnamed(child) => areIn(child)
    case join: Join => join.children.forall(areIn)
    case _ => false
  }

  /** Whether it has inputs of a delta join and nothing else. */
  def canBeJoined(plan: LogicalPlan): Boolean = tree(plan).isDefined

  /** The primary key of an input. */
  def keyOf(input: StreamingRelationV2): Option[Seq[String]] = input.table match {
    case table: ChangesTable => Some(table.options.open().meta.keys.head)
    case _ => None
  }

  private def tree(plan: LogicalPlan): Option[ArrangedInputs] = plan match {
    case Input(relation) =>
      val name = relation.table match {
        case table: ChangesTable => table.options.root.getName
        case table => table.name
      }
      Some(
        ArrangedInputs(
          Seq(name -> relation),
          Nil,
          Seq(Nil),
          Set.empty,
          AttributeMap.empty,
          AttributeSet.empty
        )
      )
    case SubqueryAlias(alias, child) => tree(child).map(_.called(alias.name))
    case view: View => tree(view.child)
    case Project(list, child) => tree(child).flatMap(_.select(list))
    case Filter(condition, child) => tree(child).flatMap(_.where(condition))
    case Join(left, right, Outer(outer), condition, _) =>
      for {
        one <- tree(left)
        other <- tree(right)
      } yield one.joined(other.apartFrom(one, right.output), outer, condition)
    case _ => None
  }

  private object Outer {
    def unapply(joinType: JoinType): Option[Set[Int]] = StreamDeltaJoin.outer(joinType)
  }

  private object Input {
    def unapply(plan: LogicalPlan): Option[StreamingRelationV2] = plan match {
      case relation: StreamingRelationV2 =>
        relation.table match {
          case table: ChangesTable if table.options.isByName => Some(relation)
          case _ => None
        }
      case _ => None
    }
  }
}
