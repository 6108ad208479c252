package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.optimizer.InlineCTE
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * The tables of `WITH` in a query that is being analyzed. Spark defines them at the top of the
 * query, so a part of the query may refer to tables defined outside of it.
 */
final private[streamjoin] class CommonTables(definitions: Seq[CTERelationDef]) {
  def isEmpty: Boolean = definitions.isEmpty

  /**
   * A resolved part of the query in which references are replaced by the tables. It is unchanged if
   * the tables are defined elsewhere, as for a subquery that is analyzed on its own.
   */
  def inlined(part: LogicalPlan): LogicalPlan = {
    val all = (definitions ++ CommonTables.in(part)).map(_.id).toSet
    val references = (part +: definitions).flatMap(_.collectWithSubqueries { case reference: CTERelationRef =>
      reference.cteId
    })
    if (!part.exists(_.isInstanceOf[CTERelationRef]) || !references.forall(all)) part
    else InlineCTE(alwaysInline = true)(WithCTE(part, definitions))
  }
}

private[streamjoin] object CommonTables {
  def of(query: LogicalPlan): CommonTables = new CommonTables(in(query))

  private def in(query: LogicalPlan): Seq[CTERelationDef] =
    query.collect { case WithCTE(_, definitions) => definitions }.flatten

  /** Drops tables that are no longer read: streams among them would never be started. */
  def withoutUnused(query: LogicalPlan): LogicalPlan = query.resolveOperatorsUp {
    case WithCTE(main, definitions) =>
      def read(by: Seq[LogicalPlan]): Seq[CTERelationDef] = {
        val ids = by.flatMap(_.collectWithSubqueries { case reference: CTERelationRef => reference.cteId })
        definitions.filter(definition => ids.contains(definition.id))
      }
      val used = Iterator
        .iterate(read(Seq(main)))(found => (found ++ read(found)).distinct)
        .sliding(2)
        .collectFirst { case Seq(before, after) if before.size == after.size => after }
        .get
      if (used.isEmpty) main else WithCTE(main, definitions.filter(used.contains))
  }
}
