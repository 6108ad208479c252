package org.apache.spark.sql.streamjoin.arrangement.lookup

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

/**
 * A filter and a projection that a task applies to the rows of an operator. Spark's own `Filter`
 * and `Project` would generate code for every step of every path in every batch, which takes longer
 * than processing a small batch.
 *
 * @param condition
 *   filter on the rows
 * @param values
 *   projection of the rows that pass the filter
 */
final private[streamjoin] case class FilterProject(condition: Option[Expression], values: Seq[Expression]) {

  /**
   * Created once per task, for one or several iterators. It produces UnsafeRows, as an exchange
   * requires; a row is valid until the next one is requested.
   */
  def inTask: Iterator[InternalRow] => Iterator[InternalRow] = {
    val (project, wanted) = (projection, predicate)
    rows => wanted.fold(rows)(is => rows.filter(is.eval)).map(project)
  }

  def predicate: Option[BasePredicate] = condition.map(Predicate.create(_))

  def projection: UnsafeProjection = UnsafeProjection.create(values)
}

private[streamjoin] object FilterProject {

  /** @param input columns of the input rows */
  def apply(
      condition: Option[Expression],
      values: Seq[Expression],
      input: Seq[Attribute]
  ): FilterProject =
    FilterProject(
      condition.map(BindReferences.bindReference(_, input)),
      values.map(BindReferences.bindReference(_, input))
    )

  /** For EXPLAIN. */
  def where(condition: Option[Expression]): String = condition.fold("")(found => s" where ${found.sql}")
}
