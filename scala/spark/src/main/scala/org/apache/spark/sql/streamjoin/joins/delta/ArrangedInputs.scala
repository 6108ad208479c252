package org.apache.spark.sql.streamjoin.joins.delta
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.streamjoin.arrangement.source.ChangesTable
import org.apache.spark.sql.streamjoin.base.{PredicateParts, SourceNames}

/**
 * The inputs of a tree of joins, in the order in which they are written.
 *
 * @param named
 *   name of each input in the query, and the stream of its changes
 * @param outer
 *   numbers of the inputs whose unmatched rows are in the result, in a join of two
 */
final private[streamjoin] case class ArrangedInputs(
    named: Seq[(String, StreamingRelationV2)],
    conditions: Seq[Expression],
    outer: Set[Int]
)

private[streamjoin] object ArrangedInputs {

  /** Matches trees with at least two inputs. */
  def unapply(plan: LogicalPlan): Option[ArrangedInputs] = plan match {
    // A filter above an outer join is not part of its condition.
    case Filter(condition, Tree(inputs)) if inputs.outer.isEmpty && inputs.named.size > 1 =>
      Some(inputs.copy(conditions = inputs.conditions ++ PredicateParts.conjuncts(condition)))
    case Tree(inputs) if inputs.named.size > 1 => Some(inputs)
    case _ => None
  }

  /** Whether every leaf is an arrangement that was read by name. */
  def areIn(plan: LogicalPlan): Boolean = plan match {
    case Input(_) => true
    case SubqueryAlias(_, child) => areIn(child)
    // Wraps a stream until Spark has named it.
    case SourceNames.Unnamed(child) => areIn(child)
    case join: Join => join.children.forall(areIn)
    case _ => false
  }

  /** The primary key of an input. */
  def keyOf(input: StreamingRelationV2): Option[Seq[String]] = input.table match {
    case table: ChangesTable => Some(table.options.open().meta.keys.head)
    case _ => None
  }

  private object Tree {
    def unapply(plan: LogicalPlan): Option[ArrangedInputs] = plan match {
      case SubqueryAlias(alias, SubqueryAlias(_, Input(relation))) =>
        Some(ArrangedInputs(Seq(alias.name -> relation), Nil, Set.empty))
      case SubqueryAlias(alias, Input(relation)) =>
        Some(ArrangedInputs(Seq(alias.name -> relation), Nil, Set.empty))
      case Join(Tree(left), Tree(right), Outer(outer), condition, _) =>
        Some(
          ArrangedInputs(
            left.named ++ right.named,
            left.conditions ++ right.conditions ++ condition.toSeq.flatMap(PredicateParts.conjuncts),
            left.outer ++ right.outer ++ outer
          )
        )
      case _ => None
    }
  }

  private object Outer {
    def unapply(joinType: JoinType): Option[Set[Int]] = DeltaJoin.outer(joinType)
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
