package org.apache.spark.sql.streamjoin.operators.delta

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{Max, Sum}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.read.streaming.{Offset, SparkDataStream}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.AggUtils
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementStream, Snapshot}
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.operators.PlannedBatch

/**
 * What a batch has of an input.
 *
 * @param stream
 *   for the number of its rows in the progress
 */
final private case class InputBatch(stream: Option[SparkDataStream], start: Snapshot, end: Snapshot) {
  def hasChanges: Boolean = start != end && !end.isEmpty
  def versions: Seq[Long] = Seq(start, end).filterNot(_.isEmpty).map(_.version)
}

/** The physical plan of a delta join for a batch: a path for each input that has changed. */
final private[streamjoin] class DeltaPlan(join: DeltaJoin, session: SparkSession) {
  private val inputs = join.inputs
  private val batches: IndexedSeq[InputBatch] = inputs.indices.map(batchOf).toIndexedSeq

  def plan: SparkPlan = {
    val paths = DeltaPath.all(join).filter(path => isNeeded(path)).map(planned)
    paths match {
      // No exchange and no task.
      case Seq() => LocalTableScanExec(join.output, Nil, None)
      case Seq(one) => consolidated(one)
      case several => consolidated(UnionExec(several))
    }
  }

  /** Something has changed, and no input that it meets is empty. */
  private def isNeeded(path: DeltaPath): Boolean =
    batches(path.input).hasChanges && path.lookUps.forall(lookUp => !seen(path.input, lookUp.input).isEmpty)

  /** What the changes of an input see of another one. */
  private def seen(by: Int, other: Int): Snapshot =
    if (other < by) batches(other).end else batches(other).start

  private def planned(path: DeltaPath): SparkPlan = {
    val from = inputs(path.input)
    val batch = batches(path.input)
    val changes: SparkPlan = ChangesExec(from, batch.stream, batch.start, batch.end)
    val last = path.lookUps.zipWithIndex.foldLeft(pruned(filtered(changes, path.conditions), path, 0)) {
      case (plan, (lookUp, step)) =>
        val versions = batches(lookUp.input).versions
        val key = lookUp.key.map {
          case attribute: Attribute => attribute -> None
          case value =>
            val named = Alias(value, "key")()
            named.toAttribute -> Some(named)
        }
        val computed = key.flatMap(_._2)
        val found = LookUpExec(
          inputs(lookUp.input),
          lookUp.index,
          key.map(_._1),
          lookUp.nullSafe,
          seen(path.input, lookUp.input),
          versions.min,
          versions.max,
          if (computed.isEmpty) plan else ProjectExec(plan.output ++ computed, plan)
        )
        pruned(filtered(found, lookUp.conditions), path, step + 1)
    }
    val copies = inputs.map(_.diff: Expression).reduce[Expression]((a, b) => Multiply(a, b))
    val columns = (join.select ++ join.time :+ copies).zip(join.output).map { case (value, column) =>
      Alias(value, column.name)()
    }
    ProjectExec(columns, last)
  }

  private def filtered(plan: SparkPlan, conditions: Seq[Expression]): SparkPlan =
    PredicateParts.all(conditions).fold(plan)(FilterExec(_, plan))

  /** What a later step needs, and no more: it may be shuffled. */
  private def pruned(plan: SparkPlan, path: DeltaPath, step: Int): SparkPlan = {
    val later = path.lookUps.drop(step)
    val needed = AttributeSet(
      later.flatMap(lookUp => lookUp.key ++ lookUp.conditions) ++ join.select ++ join.time ++ inputs.map(
        _.diff
      )
    )
    val kept = plan.output.filter(needed.contains)
    // Also where all is kept: a look-up hands on rows that are not in one piece.
    ProjectExec(kept, plan)
  }

  /** Changes of a batch that cancel do not come out. */
  private def consolidated(paths: SparkPlan): SparkPlan = {
    val count = join.select.size
    val grouping = paths.output.zip(join.output).take(count).map { case (column, named) =>
      Alias(NormalizeFloatingNumbers.normalize(column), named.name)(exprId = named.exprId)
    }
    val figures = paths.output.zip(join.output).drop(count).map { case (column, named) =>
      val function = if (named == diff) Sum(column) else Max(column)
      (function.toAggregateExpression(), named)
    }
    val results = figures.map { case (figure, named) =>
      Alias(figure.resultAttribute, named.name)(exprId = named.exprId)
    }
    val aggregate = AggUtils
      .planAggregateWithoutDistinct(
        grouping,
        figures.map(_._1),
        grouping.map(_.toAttribute) ++ results,
        paths
      )
      .head
    FilterExec(Not(EqualTo(diff, Literal(0L))), aggregate)
  }

  private def diff = join.output.last

  // Versions.

  private def batchOf(i: Int): InputBatch = streamIn(join.children(i)) match {
    case Some((stream, start, end)) => InputBatch(Some(stream), start, end)
    // Nothing new has come: the relation is gone, but the offsets of the query know.
    case None =>
      val seen = PlannedBatch.current(session).flatMap { batch =>
        batch.context.endOffsets.collectFirst {
          case (stream: ArrangementStream, offset) if stream.source.contains(inputs(i).source) =>
            Snapshot.of(offset)
        }
      }
      val at = seen.getOrElse(Snapshot.Nothing)
      InputBatch(None, at, at)
  }

  private def streamIn(child: LogicalPlan): Option[(SparkDataStream, Snapshot, Snapshot)] =
    child.collectFirst { case scan: StreamingDataSourceV2ScanRelation =>
      def snapshot(offset: Option[Offset]) = offset.fold(Snapshot.Nothing)(Snapshot.of)
      (scan.stream, snapshot(scan.startOffset), snapshot(scan.endOffset))
    }
}
