package org.apache.spark.sql.streamjoin.rules

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.analysis.{
  AnalysisContext,
  NamedStreamingRelation,
  RelationTimeTravel,
  UnresolvedFunction,
  UnresolvedRelation
}
import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeSet, CurrentTimestamp, Expression}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementOptions, ChangesTable, TableOptions}
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.operators.delta.{DeltaJoin, DeltaJoinOf}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{DataFrame, SparkSession}

/**
 * Arrangements by their names, where there is no table or view of the name: `STREAM orders` is what
 * changes in one; `orders` are its rows, which a stream looks up, and `orders FOR SYSTEM_TIME AS OF
 * NOW()` says so.
 */
final private[streamjoin] case class ReadArrangementsByName(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SQLConf.get.getConf(StreamJoinConf.Arrangements).isEmpty) plan
    else {
      val read = plan.resolveOperatorsUp {
        case travel @ RelationTimeTravel(relation @ Named(name), time, version) =>
          if (!time.exists(isNow) || version.isDefined) throw onlyNow(name)
          table(name, relation.options).copied(travel)
        case relation @ Named(name) =>
          val options = relation.options
          (if (relation.isStreaming) changes(name, options) else table(name, options)).copied(relation)
      }
      read.foreach {
        case Join(left, right, UsingJoin(_, _) | NaturalJoin(_), _, _)
            if Seq(left, right).forall(ArrangedInputs.areIn) =>
          throw DeltaJoinOf.refused("it is written with USING or NATURAL", "Write the condition with ON.")
        case _ =>
      }
      read
    }

  private object Named {
    def unapply(relation: UnresolvedRelation): Option[String] = relation.multipartIdentifier match {
      case Seq(name) if isArrangement(name) => Some(name)
      case _ => None
    }
  }

  private def changes(name: String, options: CaseInsensitiveStringMap): Read = new Read(
    name,
    ChangesTable.stream(
      session,
      name,
      options.asCaseSensitiveMap.asScala.toMap + (ArrangementOptions.ByName -> "true")
    )
  )

  private def table(name: String, options: CaseInsensitiveStringMap): Read = new Read(
    name,
    session.read
      .format("streamjoin")
      .options(options.asCaseSensitiveMap.asScala)
      .option(TableOptions.Table, true)
      .load(name)
  )

  private class Read(name: String, rows: DataFrame) {

    /** In place of what stands in the query. */
    def copied(relation: LogicalPlan): LogicalPlan = {
      val alias = SubqueryAlias(name, rows.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed)
      alias.copyTagsFrom(relation)
      alias
    }
  }

  private def isNow(time: Expression): Boolean = time match {
    case UnresolvedFunction(Seq(name), Seq(), _, _, _, _, _) => Now.contains(name.toLowerCase(Locale.ROOT))
    case _: CurrentTimestamp => true
    case _ => false
  }

  private val Now = Set("now", "current_timestamp")

  private def onlyNow(name: String) = StreamJoinErrors.analysis(
    "STREAMJOIN_TABLE",
    "arrangement" -> name,
    "problem" -> "an arrangement is looked up as it is, or has versions, but no rows as of a time of the clock",
    "advice" -> "Write FOR SYSTEM_TIME AS OF NOW(), or read a version: spark.read.format('streamjoin').option('version', 3)."
  )

  /** Spark's own tables and views come first, in whichever catalog is the current one. */
  private def isArrangement(name: String): Boolean =
    !isSparks(name) &&
      rootOf(name).exists(ArrangementOptions.open(_).exists)

  /** In a view, names are those of the catalog and the database in which it was made. */
  private def isSparks(name: String): Boolean = {
    val made = AnalysisContext.get.catalogAndNamespace
    session.catalog.tableExists(quoteIdentifier(name)) ||
    made.nonEmpty && session.catalog.tableExists((made :+ name).map(quoteIdentifier).mkString("."))
  }

  /** None for what cannot be the name of a folder. */
  private def rootOf(name: String): Option[Path] =
    try Some(ArrangementOptions.root(name))
    catch { case _: IllegalArgumentException => None }
}

/** A join of arrangements in SQL, with the columns that are selected from it: a delta join. */
private[streamjoin] object JoinArrangements extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case project @ Project(list, ArrangedInputs(inputs)) if project.resolved =>
      val hidden = AttributeSet(inputs.named.flatMap { case (_, relation) => relation.output.takeRight(2) })
      // A star has them; the result has its own number of copies, and no version.
      val columns = list.filterNot(column => hidden.contains(column.toAttribute))
      val join = DeltaJoinOf(columns, inputs.conditions, inputs.named, inputs.outer)
      // A query around it may know the columns already.
      val known = join.output.zip(columns).map { case (output, column) =>
        Alias(output, column.name)(exprId = column.exprId)
      }
      Project(known ++ join.output.drop(columns.size), join)
  }
}

/**
 * What is left of joins of arrangements, where more than a condition and columns is asked of them.
 */
private[streamjoin] object CheckArrangedJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case join: Join if join.children.forall(ArrangedInputs.areIn) =>
        throw DeltaJoinOf.refused(
          "it is more than SELECT columns FROM inner joins, or an outer join of two",
          "Put what is above the join, such as GROUP BY, into an outer query: SELECT ... FROM (SELECT ... JOIN ...)."
        )
      case _ =>
    }
    plan
  }
}

/**
 * The inputs of a tree of joins, in the order in which they are written.
 *
 * @param named
 *   what the query calls an input, and its changes
 * @param outer
 *   of two inputs, those whose rows without a match are in the result
 */
final private[rules] case class ArrangedInputs(
    named: Seq[(String, StreamingRelationV2)],
    conditions: Seq[Expression],
    outer: Set[Int]
)

private[rules] object ArrangedInputs {

  /** Where there are two at least. */
  def unapply(plan: LogicalPlan): Option[ArrangedInputs] = plan match {
    // A condition above an outer join is none of the join.
    case Filter(condition, Tree(inputs)) if inputs.outer.isEmpty && inputs.named.size > 1 =>
      Some(inputs.copy(conditions = inputs.conditions ++ PredicateParts.conjuncts(condition)))
    case Tree(inputs) if inputs.named.size > 1 => Some(inputs)
    case _ => None
  }

  /** Every leaf is an arrangement that was read by its name. */
  def areIn(plan: LogicalPlan): Boolean = plan match {
    case Input(_) => true
    case SubqueryAlias(_, child) => areIn(child)
    // Around a stream until Spark has given it a name.
    case named: NamedStreamingRelation => areIn(named.child)
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
