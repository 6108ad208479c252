package org.apache.spark.sql.streamjoin.batch

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan

/**
 * The numbers of our operators in a query, from the inputs up. They are positions, unless operators
 * were added to the query or removed from it since its first batch: then `start()` finds the
 * numbers that the others have in the checkpoint.
 */
private[streamjoin] object OperatorNumbers {
  private val Tag = TreeNodeTag[Seq[Int]]("streamjoin.numbers")

  /** The query of a run whose operators have these numbers. */
  def mark(query: LogicalPlan, numbers: Seq[Int]): LogicalPlan =
    if (numbers == numbers.indices) query
    else {
      // A DataFrame may be started several times.
      val own = query.clone()
      own.setTagValue(Tag, numbers)
      AnalyzedPlan.rewrite(own)(PartialFunction.empty)
    }

  /** By position, of the query whose batch this thread plans; positions if it plans none. */
  def ofBatch(session: SparkSession): Int => Int =
    PlannedBatch.current(session).flatMap(_.query.analyzedPlan.getTagValue(Tag)) match {
      case None => identity
      case Some(numbers) => at => numbers.lift(at).getOrElse(numbers.max + 1 + at - numbers.size)
    }
}
