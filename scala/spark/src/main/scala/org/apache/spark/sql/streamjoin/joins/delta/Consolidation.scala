package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{Complete, Max, Sum}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.{AggUtils, HashAggregateExec}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.types.StringType

/** The last step of a delta join: drops changes that cancel within a batch. */
private[delta] object Consolidation {

  /**
   * @param paths
   *   the changes of the result, from all paths
   * @param tasks
   *   how many tasks are sufficient for them, if the batch is small
   */
  def of(join: StreamDeltaJoin, paths: SparkPlan, tasks: Option[Int]): SparkPlan = {
    val count = join.select.size
    val grouping = paths.output.take(count).map { column =>
      Alias(NormalizeFloatingNumbers.normalize(asBytes(column)), column.name)()
    }
    val grouped = grouping.map(_.toAttribute).zip(join.output).map { case (column, named) =>
      val value = if (column.dataType == named.dataType) column else Cast(column, named.dataType)
      Alias(value, named.name)(exprId = named.exprId)
    }
    val figures = paths.output.zip(join.output).drop(count).map { case (column, named) =>
      val function = if (named == join.output.last) Sum(column) else Max(column)
      (function.toAggregateExpression(), named)
    }
    val results = figures.map { case (figure, named) =>
      Alias(figure.resultAttribute, named.name)(exprId = named.exprId)
    }
    val aggregate = AggUtils
      .planAggregateWithoutDistinct(
        grouping,
        figures.map(_._1),
        grouped ++ results,
        paths
      )
      .head
    FilterExec(
      Not(EqualTo(join.output.last, Literal(0L))),
      tasks.fold(aggregate)(inTasks(aggregate, count, _))
    )
  }

  /**
   * Strings that are equal under their collation are two values: one may be removed while the other
   * stays.
   */
  private def asBytes(column: Attribute): Expression = {
    val bytes = column.dataType.transformRecursively { case _: StringType => StringType }
    if (bytes == column.dataType) column else Cast(column, bytes)
  }

  /** Even a task with little work costs some milliseconds, so a small batch gets few tasks. */
  def inTasks(aggregate: SparkPlan, columns: Int, tasks: Int): SparkPlan = aggregate match {
    case last @ HashAggregateExec(_, _, _, _, _, _, _, _, first: HashAggregateExec) if tasks == 1 =>
      last.copy(
        groupingExpressions = first.groupingExpressions,
        aggregateExpressions = first.aggregateExpressions.map(_.copy(mode = Complete)),
        initialInputBufferOffset = 0,
        child = CoalesceExec(1, first.child)
      )
    case other =>
      other.mapChildren { first =>
        val few = first.mapChildren(CoalesceExec(tasks, _))
        if (tasks == 1) few
        else
          ShuffleExchangeExec(HashPartitioning(few.output.take(columns), tasks), few)
      }
  }
}
