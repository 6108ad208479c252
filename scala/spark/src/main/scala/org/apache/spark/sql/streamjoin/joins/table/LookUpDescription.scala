package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, EliminateView}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical.Join
import org.apache.spark.sql.streamjoin.analysis.NormalForm
import org.apache.spark.sql.streamjoin.arrangement.source.LookedUpTable
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.checkpoint.{ArrangedJoinLog, Description}

/** Describes which rows of a table are joined to the rows of a stream. */
private[streamjoin] object LookUpDescription {

  /**
   * The selected columns and the location of the table are not part of the description.
   *
   * @param join
   *   the join as written
   * @param above
   *   a condition directly above the join
   */
  def of(join: Join, above: Option[Expression]): Option[Description] = {
    val StreamSide(stream, tableSide, _) = StreamSide.of(join).get
    EliminateSubqueryAliases(EliminateView(tableSide)) match {
      case PhysicalOperation(fields, filters, LookedUpTable(table, columns)) =>
        val values = AttributeMap(fields.collect { case alias: Alias => alias.toAttribute -> alias.child })
        val form = new NormalForm("stream" -> stream.output, "table" -> columns)
        // In an inner join, it makes no difference where a condition on the table is written.
        val ofTable = tableSide.outputSet
        val ofJoin = above.toSeq
          .filter(_ => join.joinType == Inner)
          .flatMap(PredicateParts.conjuncts)
          .filter(_.references.exists(ofTable.contains))
        val conditions = (join.condition.toSeq.flatMap(PredicateParts.conjuncts) ++ ofJoin)
          .map(_.transform { case column: Attribute => values.getOrElse(column, column) }) ++ filters
        Some(
          Description(
            ArrangedJoinLog.LookUp,
            Map(
              "table" -> table.options.root.getName,
              "join_type" -> (if (join.joinType == Inner) "inner" else "outer"),
              "condition" -> conditions.reduceOption[Expression](And(_, _)).fold("true")(form(_)),
              "as_of" -> (if (table.isPrevious) "previous" else "current")
            )
          )
        )
      case _ => None
    }
  }
}
