package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.arrangement.source.{ChangesTable, LookedUpTable}
import org.apache.spark.sql.streamjoin.arrangement.storage.ChangeColumns
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

/** Joins of arrangements that keep no state. */
object DeltaJoins {

  /**
   * A join of arrangements as a query of their changes, for [[of]].
   *
   * @param inputs
   *   name of each input in the condition, and name or path of its arrangement
   * @param on
   *   join condition, in SQL
   * @param select
   *   columns of the result, in SQL; empty for all
   * @param options
   *   options of the inputs, such as the number of versions in a batch
   */
  def written(
      session: SparkSession,
      inputs: Seq[(String, String)],
      on: Option[String],
      select: Seq[String],
      options: Map[String, String]
  ): DataFrame = {
    val condition = on.getOrElse {
      throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.NO_CONDITION")
    }
    checkNumber(inputs.size)
    val streams = inputs.map { case (alias, nameOrPath) =>
      ChangesTable.stream(session, nameOrPath, options).alias(alias)
    }
    val rows = streams.reduce(_ crossJoin _).where(condition)
    rows.select((if (select.isEmpty) Seq("*") else select).map(expr): _*)
  }

  /**
   * The changes of a join that is written as a query of the inputs' changes.
   *
   * @param query
   *   the resolved query: columns, the condition, and the cross join of the inputs
   * @param names
   *   name of each input in the condition
   * @param joinType
   *   `inner`, or of two inputs `left`, `right` or `full`, in any of Spark's spellings
   */
  private[streamjoin] def of(query: LogicalPlan, names: Seq[String], joinType: String): LogicalPlan = {
    checkNumber(names.size)
    of(query, names, outerInputs(JoinType(joinType)))
  }

  private def checkNumber(inputs: Int): Unit = if (inputs < 2)
    throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.ONE_INPUT")

  /**
   * The changes of a join of two tables.
   *
   * @param joined
   *   the resolved join as a batch query
   * @return
   *   none unless both sides are tables
   */
  private[streamjoin] def ofTables(session: SparkSession, joined: LogicalPlan): Option[LogicalPlan] = {
    val (select, join) = EliminateSubqueryAliases(joined) match {
      case Project(list, join: Join) => (list, Some(join))
      case join: Join => (join.output, Some(join))
      case _ => (Nil, None)
    }
    for {
      found <- join
      left <- TableSide.of(session, found.left)
      right <- TableSide.of(session, found.right)
    } yield ofTables(select, found, left, right)
  }

  /** The numbers of the inputs whose unmatched rows are in the result too. */
  private def outerInputs(joinType: JoinType): Set[Int] = StreamDeltaJoin.outer(joinType).getOrElse {
    throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.JOIN_TYPE", "type" -> joinType.sql)
  }

  private def ofTables(
      select: Seq[NamedExpression],
      join: Join,
      left: TableSide,
      right: TableSide
  ): StreamDeltaJoin = {
    val outer = outerInputs(join.joinType)
    // In an unmatched row its columns are null, whatever they are computed from.
    for ((side, other) <- Seq(left -> 1, right -> 0) if outer.contains(other))
      side.computed.find(!_.child.isInstanceOf[Attribute]).foreach { column =>
        throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.COMPUTED_BELOW_OUTER", "column" -> column.name)
      }
    def inStreams(expression: Expression): Expression = left.inStream(right.inStream(expression))
    DeltaJoinBuilder(
      select.map {
        case alias: Alias => Alias(inStreams(alias.child), alias.name)()
        case column => Alias(inStreams(column), column.name)()
      },
      join.condition.toSeq.flatMap(PredicateParts.conjuncts).map(inStreams(_)),
      Seq("left" -> left.stream, "right" -> right.stream),
      outer,
      Seq(left, right).map(side => side.filters.map(side.inStream))
    )
  }

  /** A star selects the columns of the rows, not the version and the number of copies. */
  private def withoutHidden(
      list: Seq[NamedExpression],
      relation: StreamingRelationV2
  ): Seq[NamedExpression] = {
    val ids = relation.output.map(_.exprId)
    list.map(_.exprId).indexOfSlice(ids) match {
      case -1 => list
      case from => list.patch(from + ids.size - ChangeColumns.OfSource.size, Nil, ChangeColumns.OfSource.size)
    }
  }

  /** As [[ChangesTable.stream]] reads them. */
  private def isChanges(relation: StreamingRelationV2): Boolean = relation.table match {
    case table: ChangesTable => table.options.source.isDefined
    case _ => false
  }

  private def of(analyzed: LogicalPlan, names: Seq[String], outer: Set[Int]): StreamDeltaJoin =
    analyzed match {
      case Project(list, Filter(condition, join: Join)) =>
        val relations = join.collectLeaves().collect { case relation: StreamingRelationV2 => relation }
        if (relations.size != names.size || !relations.forall(isChanges))
          throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.NOT_AN_ARRANGEMENT")
        val columns = relations.foldLeft(list)(withoutHidden)
        DeltaJoinBuilder(columns, PredicateParts.conjuncts(condition), names.zip(relations), outer)
      case other =>
        throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.OPERATOR", "operator" -> other.nodeName)
    }
}

/**
 * A table as a side of a join, and the stream of its changes.
 *
 * @param fields
 *   columns of the side, in terms of the table's columns
 * @param columns
 *   the stream's column for each column of the table
 */
final private case class TableSide(
    fields: Seq[NamedExpression],
    filters: Seq[Expression],
    columns: AttributeMap[Attribute],
    stream: StreamingRelationV2
) {
  private val values = AttributeMap(computed.map(alias => alias.toAttribute -> alias.child))

  def computed: Seq[Alias] = fields.collect { case alias: Alias => alias }

  /** Rewrites an expression in terms of the stream. */
  def inStream(expression: Expression): Expression = expression
    .transform { case column: Attribute => values.getOrElse(column, column) }
    .transform { case column: Attribute => columns.getOrElse(column, column) }
}

private object TableSide {
  def of(session: SparkSession, side: LogicalPlan): Option[TableSide] = side match {
    case PhysicalOperation(fields, filters, LookedUpTable(table, columns)) =>
      if (table.isPrevious || table.atLeast.isDefined || table.rematch.isDefined)
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_DELTA.TABLE_OPTIONS",
          "arrangement" -> table.options.root.getName
        )
      val changes = ChangesTable.stream(session, table.options.root.toString, Map.empty)
      changes.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed.collectFirst {
        case stream: StreamingRelationV2 =>
          TableSide(fields, filters, AttributeMap(columns.zip(stream.output)), stream)
      }
    case _ => None
  }
}
