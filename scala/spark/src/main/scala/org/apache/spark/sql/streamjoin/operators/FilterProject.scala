package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

/**
 * What a task makes of the rows of an operator. Were it Spark's own `Filter` and `Project`, code
 * would be generated for every step of every path, in every batch, which takes longer than a small
 * batch.
 *
 * @param condition
 *   of the rows that are handed on
 * @param values
 *   what is handed on of them
 */
final private[streamjoin] case class FilterProject(condition: Option[Expression], values: Seq[Expression]) {

  /**
   * Made once for a task, for rows in one part or in many. What comes out is in one piece, as an
   * exchange needs it; a row is valid until the next one is asked for.
   */
  def inTask: Iterator[InternalRow] => Iterator[InternalRow] = {
    val project = UnsafeProjection.create(values)
    val predicate = condition.map(Predicate.create(_))
    rows => predicate.fold(rows)(wanted => rows.filter(wanted.eval)).map(project)
  }
}

private[streamjoin] object FilterProject {

  /**
   * @param input
   *   the columns of the rows
   */
  def apply(
      condition: Option[Expression],
      values: Seq[Expression],
      input: Seq[Attribute]
  ): FilterProject =
    FilterProject(
      condition.map(BindReferences.bindReference(_, input)),
      values.map(BindReferences.bindReference(_, input))
    )

  /** In EXPLAIN. */
  def where(condition: Option[Expression]): String = condition.fold("")(found => s" where ${found.sql}")
}
