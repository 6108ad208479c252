package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.analysis.OptimizedQuery
import org.apache.spark.sql.streamjoin.checkpoint.{Description, OperatorLog}
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.WatermarkKeys

/**
 * An operator of a query.
 *
 * @param ordinal
 *   the number that it has in the checkpoint
 * @param description
 *   as it would be recorded
 */
final private[streamjoin] case class QueryOperator(ordinal: Int, node: StatefulNode, description: Description)

/**
 * The operators of a query, next to those that its checkpoint records.
 *
 * @param all
 *   from the inputs up
 * @param recorded
 *   by ordinal: the operators that have run the batch before
 * @param failure
 *   why the two cannot be compared
 */
final private[streamjoin] case class QueryOperators(
    all: Seq[QueryOperator],
    recorded: Map[Int, Description],
    failure: Option[Change] = None
) {
  private lazy val ordinals = all.map(_.ordinal).toSet

  def get(ordinal: Int): Option[QueryOperator] = all.find(_.ordinal == ordinal)

  /** Those that the query before has had as well. */
  def kept: Seq[QueryOperator] =
    if (recorded.isEmpty) all else all.filter(of => recorded.contains(of.ordinal))

  def added: Seq[QueryOperator] =
    if (recorded.isEmpty) Nil else all.filterNot(of => recorded.contains(of.ordinal))

  def removed: Map[Int, Description] = recorded.filterNot { case (ordinal, _) => ordinals(ordinal) }
}

private[streamjoin] object QueryOperators {
  val none: QueryOperators = QueryOperators(Nil, Map.empty)

  /** Of a batch, whose operators already have their numbers. */
  def ofBatch(optimized: LogicalPlan, keys: WatermarkKeys, log: OperatorLog, batch: Long): QueryOperators =
    QueryOperators(
      described(optimized, keys).map { case (node, description) =>
        QueryOperator(node.ordinal, node, description)
      },
      log.before(batch)
    )

  /**
   * Of a query that has not started yet, whose operators are numbered by their position.
   *
   * @param planned
   *   whether what the optimizer decides is compared, too
   */
  def ofNext(
      optimized: LogicalPlan,
      keys: WatermarkKeys,
      log: OperatorLog,
      batch: Long,
      planned: Boolean
  ): QueryOperators = {
    val recorded = log.before(batch)
    val found = described(optimized, keys)
    def written(node: StatefulNode, all: Description) =
      all.copy(properties = all.properties -- node.description.planned.keys)
    val compared = found.map { case (node, all) => written(node, all) }
    val numbered = Numbering.of(recorded.toSeq.sortBy(_._1), compared, log.nextNumber(batch))
    val numbers = numbered.getOrElse(found.indices)
    val operators = found.zip(numbers).map { case ((node, all), ordinal) =>
      val renumbered = all.copy(properties = all.properties ++ placeOf(all, numbers))
      QueryOperator(ordinal, node, if (planned) renumbered else written(node, renumbered))
    }
    QueryOperators(operators, recorded, numbered.left.toOption.map(_.change))
  }

  private def placeOf(operator: Description, numbers: Seq[Int]): Map[String, String] =
    PlaceRules.placeOf(operator).fold(Map.empty[String, String])(_.renumbered(numbers).properties)

  private def described(optimized: LogicalPlan, keys: WatermarkKeys): Seq[(StatefulNode, Description)] = {
    val places = PlacesInQuery.of(optimized, keys)
    OptimizedQuery.nodesIn(optimized).map { node =>
      val place = places(node.ordinal).properties
      val all = OperatorLog.describe(node)
      node -> all.copy(properties = all.properties ++ place, derived = all.derived ++ place.keySet)
    }
  }
}
