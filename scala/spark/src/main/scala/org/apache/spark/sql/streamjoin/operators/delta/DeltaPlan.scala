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
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementStream, ReaderFigures, Snapshot}
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.operators.PlannedBatch
import org.apache.spark.sql.types.LongType

/**
 * What a batch has of an input.
 *
 * @param stream
 *   for what the progress says of it
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
    val paths = DeltaPath.all(join)
    val unmatched = if (join.isLeftOuter) unmatchedRows(paths.head, paths.last) else Nil
    val plan = paths.filter(isNeeded).map(planned) ++ unmatched match {
      // No exchange and no task.
      case Seq() => LocalTableScanExec(join.output, Nil, None)
      case Seq(one) => consolidated(one)
      case several => consolidated(UnionExec(several))
    }
    report(plan)
    plan
  }

  /** The streams tell of the look-ups in the progress. */
  private def report(plan: SparkPlan): Unit = {
    val readers = plan.collect { case reader: IndexReaderExec => reader }
    inputs.indices.foreach { i =>
      batches(i).stream.collect { case stream: ArrangementStream =>
        stream.figures = readers.filter(_.access.input == inputs(i)).map(_.access.figures)
      }
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
    val (changes, diff) = inOnePiece(ChangesExec(from, batch.stream, batch.start, batch.end), from.diff)
    val begun = (filtered(changes, path.conditions), diff)
    val (last, copies) = path.lookUps.zipWithIndex.foldLeft(begun) { case ((plan, copies), (lookUp, step)) =>
      val (access, keyed) = accessed(lookUp, seen(path.input, lookUp.input), pruned(plan, copies, path, step))
      val found = filtered(LookUpExec(access, keyed), lookUp.conditions)
      val product = Alias(Multiply(copies, access.input.diff), join.output.last.name)()
      (ProjectExec(found.output.filterNot(_ == copies) :+ product, found), product.toAttribute)
    }
    result(join.select ++ join.time :+ copies, last)
  }

  /**
   * Our operators hand on rows that are not in one piece, as an exchange needs them. Spark removes a
   * projection that does nothing, so it gives a column another name.
   */
  private def inOnePiece(plan: SparkPlan, column: Attribute): (SparkPlan, Attribute) = {
    val named = Alias(column, column.name)()
    (ProjectExec(plan.output.filterNot(_.exprId == column.exprId) :+ named, plan), named.toAttribute)
  }

  private def result(values: Seq[Expression], plan: SparkPlan): SparkPlan =
    ProjectExec(values.zip(join.output).map { case (value, column) => Alias(value, column.name)() }, plan)

  /** How an input is looked up, and the rows with the key by which it is. */
  private def accessed(lookUp: LookUp, at: Snapshot, plan: SparkPlan): (IndexAccess, SparkPlan) = {
    val key = lookUp.key.map {
      case attribute: Attribute => attribute -> None
      case value =>
        val named = Alias(value, "key")()
        named.toAttribute -> Some(named)
    }
    val computed = key.flatMap(_._2)
    val versions = batches(lookUp.input).versions
    val access = IndexAccess(
      inputs(lookUp.input),
      lookUp.index,
      key.map(_._1),
      lookUp.nullSafe,
      at,
      versions.minOption.getOrElse(-1),
      versions.maxOption.getOrElse(-1)
    )(ReaderFigures.of(session.sparkContext))
    (access, if (computed.isEmpty) plan else ProjectExec(plan.output ++ computed, plan))
  }

  // A left outer join.

  /**
   * The rows without a match that come or go. A row of the left input that changes has none if the
   * right input, as it was before, has none. Where the right input changes, the left rows that have
   * the key of a change are counted twice, against it as it was and as it is: a row without a match
   * comes where the last match has gone, and goes where the first has come.
   */
  private def unmatchedRows(left: DeltaPath, right: DeltaPath): Seq[SparkPlan] = {
    val (leftBatch, rightBatch) = (batches(left.input), batches(right.input))
    val toRight = left.lookUps.head
    def counted(at: Snapshot, plan: SparkPlan): (SparkPlan, Attribute) = {
      val (access, keyed) = accessed(toRight, at, plan)
      val matches = AttributeReference("matches", LongType, nullable = false)()
      inOnePiece(CountMatchesExec(access, PredicateParts.all(join.conditions), matches, keyed), matches)
    }
    def isNone(matches: Attribute): Expression = EqualTo(matches, Literal(0L))
    val nulls = AttributeMap(
      inputs(right.input).output.map(column => column -> Literal(null, column.dataType))
    )
    def padded(copies: Expression, plan: SparkPlan): SparkPlan = {
      val values = (join.select ++ join.time).map(_.transform {
        case column: Attribute if nulls.contains(column) => nulls(column)
      })
      result(values :+ copies, plan)
    }
    val diff = inputs(left.input).diff

    val ofLeft = Option.when(leftBatch.hasChanges) {
      val (changes, copies) =
        inOnePiece(ChangesExec(inputs(left.input), leftBatch.stream, leftBatch.start, leftBatch.end), diff)
      val (plan, matches) = counted(rightBatch.start, changes)
      padded(copies, FilterExec(isNone(matches), plan))
    }
    val ofRight = Option.when(rightBatch.hasChanges && !leftBatch.end.isEmpty) {
      val changes = ChangesExec(inputs(right.input), rightBatch.stream, rightBatch.start, rightBatch.end)
      val keys = right.lookUps.head.key.map(key => Alias(key, "key")())
      val distinct = AggUtils
        .planAggregateWithoutDistinct(keys, Nil, keys.map(_.toAttribute), changes)
        .head
      val (access, keyed) =
        accessed(right.lookUps.head.copy(key = keys.map(_.toAttribute)), leftBatch.end, distinct)
      val (found, copies) = inOnePiece(LookUpExec(access, keyed), diff)
      val (once, before) = counted(rightBatch.start, found)
      val (twice, after) = counted(rightBatch.end, once)
      val changed = FilterExec(Not(EqualTo(isNone(before), isNone(after))), twice)
      padded(If(isNone(after), copies, UnaryMinus(copies)), changed)
    }
    (ofLeft ++ ofRight).toSeq
  }

  private def filtered(plan: SparkPlan, conditions: Seq[Expression]): SparkPlan =
    PredicateParts.all(conditions).fold(plan)(FilterExec(_, plan))

  /** What a later step needs, and no more: it may be shuffled. */
  private def pruned(plan: SparkPlan, copies: Attribute, path: DeltaPath, step: Int): SparkPlan = {
    val later = path.lookUps.drop(step).flatMap(lookUp => lookUp.key ++ lookUp.conditions)
    val needed = AttributeSet(later ++ join.select ++ join.time :+ copies)
    val kept = plan.output.filter(needed.contains)
    if (kept.size == plan.output.size) plan else ProjectExec(kept, plan)
  }

  /** Changes of a batch that cancel do not come out. */
  private def consolidated(paths: SparkPlan): SparkPlan = {
    val count = join.select.size
    val grouping = paths.output.zip(join.output).take(count).map { case (column, named) =>
      Alias(NormalizeFloatingNumbers.normalize(column), named.name)(exprId = named.exprId)
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
        grouping.map(_.toAttribute) ++ results,
        paths
      )
      .head
    FilterExec(Not(EqualTo(join.output.last, Literal(0L))), aggregate)
  }

  // Versions.

  private def batchOf(i: Int): InputBatch =
    (streamIn(join.children(i)), PlannedBatch.current(session)) match {
      case (Some((stream, start, end)), _) => InputBatch(Some(stream), start, end)
      // Nothing new has come: the relation is gone, but the offsets of the query know.
      case (None, Some(batch)) =>
        val seen = batch.context.endOffsets.collectFirst {
          case (stream: ArrangementStream, offset) if stream.source.contains(inputs(i).source) =>
            (stream, Snapshot.of(offset))
        }
        val at = seen.fold(Snapshot.Nothing)(_._2)
        InputBatch(seen.map(_._1), at, at)
      // It is only explained: all paths, as if all had changed.
      case (None, None) => InputBatch(None, Snapshot(0), Snapshot(1))
    }

  private def streamIn(child: LogicalPlan): Option[(ArrangementStream, Snapshot, Snapshot)] =
    child.collectFirst {
      case StreamingDataSourceV2ScanRelation(_, _, _, stream: ArrangementStream, start, end) =>
        def snapshot(offset: Option[Offset]) =
          offset.fold(Snapshot.Nothing)(at => stream.checked(Snapshot.of(at)))
        (stream, snapshot(start), snapshot(end))
    }
}
