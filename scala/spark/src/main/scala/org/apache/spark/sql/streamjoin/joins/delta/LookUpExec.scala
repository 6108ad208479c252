package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.arrangement.lookup.{
  FilterProject,
  IndexAccess,
  IndexReaderExec,
  LookUpTask
}

/**
 * Joins each row with the rows of the arrangement that have its key.
 *
 * @param condition
 *   filter on the joined rows
 * @param values
 *   output for each of them
 */
final private[streamjoin] case class LookUpExec(
    access: IndexAccess,
    condition: Option[Expression],
    values: Seq[NamedExpression],
    child: SparkPlan
) extends IndexReaderExec {
  override protected def outputExpressions: Seq[NamedExpression] = values

  override def output: Seq[Attribute] = values.map(_.toAttribute)

  override protected def results: (LookUpTask, Iterator[InternalRow]) => Iterator[InternalRow] = {
    val handedOn = FilterProject(condition, values, child.output ++ access.found)
    (task, rows) => handedOn.inTask(rows.flatMap(task.look))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LookUpExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String =
    s"LookUp ${access.words}${FilterProject.where(condition)}, keeps nothing"
}
