package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.read.streaming.{Offset, SparkDataStream}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.AggUtils
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.index.{
  IndexLocality,
  IndexRegistry,
  IndexSettings,
  IndexTasks
}
import org.apache.spark.sql.streamjoin.arrangement.lookup.{
  ChangesExec,
  IndexAccess,
  IndexReaderExec,
  KeyColumns
}
import org.apache.spark.sql.streamjoin.arrangement.source.{ArrangementStream, ReaderFigures}
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ChangeColumns,
  Manifest,
  Snapshot,
  VersionId
}
import org.apache.spark.sql.streamjoin.base.{HadoopConf, PredicateParts}
import org.apache.spark.sql.streamjoin.batch.PlannedBatch
import org.apache.spark.sql.types.LongType

/**
 * One input in a batch.
 *
 * @param stream
 *   the stream that reports the input's metrics in the query progress
 */
final private case class InputBatch(stream: Option[SparkDataStream], start: Snapshot, end: Snapshot) {
  def hasChanges: Boolean = start != end && !end.isEmpty
  def versions: Seq[Long] = Seq(start, end).filterNot(_.isEmpty).map(_.version)
  def newest: Option[VersionId] = end.versionId.orElse(start.versionId)

  /** The batch spans few versions, so that counting the changed rows is cheap. */
  def isShort: Boolean =
    start == end || !start.isEmpty && start.slices.isEmpty && end.version - start.version <= 20
}

/** Plans a delta join for a batch: a path for each input that has changed. */
final private[streamjoin] class DeltaPlanner(join: StreamDeltaJoin, session: SparkSession) {
  private val inputs = join.inputs
  private val running = PlannedBatch.current(session)
  private val batches: IndexedSeq[InputBatch] = inputs.indices.map(batchOf).toIndexedSeq

  def plan: SparkPlan = {
    val paths = DeltaPath.all(join)
    val unmatched = join.outer.toSeq.sorted.flatMap(input => unmatchedRows(paths(input), paths(1 - input)))
    val plan = paths.filter(isNeeded).map(planned) ++ unmatched match {
      // This needs no exchange and no task.
      case Seq() => LocalTableScanExec(join.output, Nil, None)
      case Seq(one) => Consolidation.of(join, one, tasks)
      case several => Consolidation.of(join, UnionExec(several), tasks)
    }
    report(plan)
    plan
  }

  /** Lets the streams report the look-ups in the query progress. */
  private def report(plan: SparkPlan): Unit = {
    val readers = plan.collect { case reader: IndexReaderExec => reader }
    for {
      batch <- running
      i <- inputs.indices
      stream <- batches(i).stream.collect { case stream: ArrangementStream => stream }
    } {
      val ofInput = readers.filter(_.access.input.diff == inputs(i).diff)
      stream.report(batch.context.batchId, ofInput.map(_.access.figures))
    }
  }

  /** Whether the input has changed, and no input that it looks up is empty. */
  private def isNeeded(path: DeltaPath): Boolean =
    batches(path.input).hasChanges && path.lookUps.forall(lookUp => !seen(path.input, lookUp.input).isEmpty)

  /**
   * The snapshot of another input that the changes of an input see, according to the law of the
   * core.
   */
  private def seen(by: Int, other: Int): Snapshot =
    if (other < by) batches(other).end else batches(other).start

  /** The last output column of each step is the number of copies. */
  private def planned(path: DeltaPath): SparkPlan = {
    val from = inputs(path.input)
    val keys = path.lookUps.map(lookUp => KeyColumns.of(lookUp.key))

    // Only the columns that later steps need, because the rows may be shuffled.
    def handedOn(step: Int, columns: Seq[Attribute], copies: Expression): Seq[NamedExpression] =
      if (step == path.lookUps.size) result(join.select ++ join.time :+ copies)
      else {
        val later = path.lookUps.drop(step).flatMap(lookUp => lookUp.key ++ lookUp.conditions)
        val needed = AttributeSet(later ++ join.select ++ join.time)
        columns.filter(needed.contains) ++ keys(step).computed :+ Alias(copies, ChangeColumns.Diff)()
      }

    val begun: SparkPlan = changes(path.input, path.conditions, handedOn(0, from.output, from.diff))
    path.lookUps.zipWithIndex.foldLeft(begun) { case (plan, (lookUp, step)) =>
      val access = accessed(lookUp, keys(step).columns, seen(path.input, lookUp.input))
      val copies = Multiply(plan.output.last, access.input.diff)
      val values = handedOn(step + 1, plan.output ++ access.found, copies)
      LookUpExec(access, PredicateParts.all(lookUp.conditions), values, access.gathered(plan))
    }
  }

  private def changes(i: Int, conditions: Seq[Expression], values: Seq[NamedExpression]): ChangesExec = {
    val InputBatch(stream, start, end) = batches(i)
    ChangesExec(
      inputs(i).arranged,
      inputs(i).version,
      stream,
      start,
      end,
      tasksOf(i),
      PredicateParts.all(conditions),
      values
    )
  }

  private def result(values: Seq[Expression]): Seq[NamedExpression] =
    values.zip(join.output).map { case (value, column) => Alias(value, column.name)() }

  private def accessed(lookUp: LookUp, key: Seq[Attribute], at: Snapshot): IndexAccess = {
    val versions = batches(lookUp.input).versions
    IndexAccess(
      inputs(lookUp.input).arranged,
      lookUp.index,
      key,
      lookUp.nullSafe,
      at,
      versions.minOption.getOrElse(-1),
      batches(lookUp.input).newest,
      tasksOf(lookUp.input)
    )(ReaderFigures.of(session.sparkContext))
  }

  // An outer join.

  /**
   * The unmatched rows of an input, here called left, that are added or removed. A left row that
   * changes is unmatched if it had no match in the right input before the batch. If the right input
   * changes, the matches of each left row with the key of a change are counted twice, before and
   * after the batch: the unmatched row is added when its last match is removed, and removed when
   * its first match is added. The rows of a key are read once for all of these counts.
   */
  private def unmatchedRows(left: DeltaPath, right: DeltaPath): Seq[SparkPlan] = {
    val (leftInput, leftBatch) = (inputs(left.input), batches(left.input))
    val (rightInput, rightBatch) = (inputs(right.input), batches(right.input))
    val toRight = left.lookUps.head
    val keyToRight = KeyColumns.of(toRight.key)
    val undecided = PredicateParts.all(left.conditions ++ toRight.conditions)
    def counted(at: Snapshot, plan: SparkPlan): (SparkPlan, Attribute) = {
      val matches = AttributeReference("matches", LongType, nullable = false)()
      val access = accessed(toRight, keyToRight.columns, at)
      (CountMatchesExec(access, undecided, matches, access.gathered(plan)), matches)
    }
    def isNone(matches: Attribute): Expression = EqualTo(matches, Literal(0L))
    val nulls = AttributeMap(rightInput.output.map(column => column -> Literal(null, column.dataType)))
    def padded(copies: Expression, plan: SparkPlan): SparkPlan = {
      val values = (join.select ++ join.time).map(_.transform {
        case column: Attribute if nulls.contains(column) => nulls(column)
      })
      ProjectExec(result(values :+ copies), plan)
    }

    val ofLeft = Option.when(leftBatch.hasChanges) {
      val changed = changes(left.input, join.filters(left.input), leftInput.output ++ keyToRight.computed)
      val (plan, matches) = counted(rightBatch.start, changed)
      padded(leftInput.diff, FilterExec(isNone(matches), plan))
    }
    val ofRight = Option.when(rightBatch.hasChanges && !leftBatch.end.isEmpty) {
      val toLeft = right.lookUps.head
      // Grouping compares byte by byte.
      val keys = toLeft.key.map(key => Alias(NormalizeFloatingNumbers.normalize(key), "key")())
      val columns = keys.map(_.toAttribute)
      val grouped = AggUtils
        .planAggregateWithoutDistinct(columns, Nil, columns, changes(right.input, right.conditions, keys))
        .head
      val distinct = tasks.fold(grouped)(Consolidation.inTasks(grouped, columns.size, _))
      val access = accessed(toLeft, columns, leftBatch.end)
      val found = LookUpExec(
        access,
        PredicateParts.all(join.filters(left.input)),
        access.found ++ keyToRight.computed,
        access.gathered(distinct)
      )
      val (once, before) = counted(rightBatch.start, found)
      val (twice, after) = counted(rightBatch.end, once)
      val changed = FilterExec(Not(EqualTo(isNone(before), isNone(after))), twice)
      padded(If(isNone(after), leftInput.diff, UnaryMinus(leftInput.diff)), changed)
    }
    (ofLeft ++ ofRight).toSeq
  }

  /** The tasks that look up each input. */
  private lazy val tasksOf: IndexedSeq[Option[IndexTasks]] = inputs.toIndexedSeq.map { input =>
    tasks.map(IndexLocality.tasks(session.sparkContext, input.arrangement.meta.partitions, _))
  }

  /** How many tasks are sufficient for a small batch. */
  private lazy val tasks: Option[Int] =
    Option
      .when(running.isDefined && batches.forall(_.isShort)) {
        inputs.indices.map(changedRows).sum / DeltaPlanner.RowsOfTask + 1
      }
      .filter(_ < inputs.map(_.arrangement.meta.partitions).max)
      .map(_.toInt)

  private def changedRows(i: Int): Long = {
    val registry = IndexRegistry(IndexSettings.of(SQLConf.get))
    val arrangement = inputs(i).arrangement
    val folder = new ArrangementFolder(new Path(arrangement.root), HadoopConf.of(session).value.value)
    val InputBatch(_, start, end) = batches(i)
    end.versionId
      .fold(IndexedSeq.empty[Manifest])(registry.manifests(arrangement, start.version + 1, _, folder))
      .map(_.changedRows)
      .sum
  }

  // Versions.

  private def batchOf(i: Int): InputBatch =
    (streamIn(join.children(i)), running) match {
      case (Some((stream, start, end)), _) => InputBatch(Some(stream), start, end)
      // Without new data, Spark drops the relation from the plan, but the query's offsets still
      // contain the version.
      case (None, Some(batch)) =>
        val seen = batch.context.endOffsets.collectFirst {
          case (stream: ArrangementStream, offset) if stream.source.contains(inputs(i).source) =>
            (stream, stream.checked(Snapshot.of(offset)))
        }
        val at = seen.fold(Snapshot.Nothing)(_._2)
        InputBatch(seen.map(_._1), at, at)
      // EXPLAIN: all paths, as if all inputs had changed.
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

private[delta] object DeltaPlanner {

  /**
   * Approximately the number of changes that a task processes in the time that it takes to start.
   */
  private val RowsOfTask = 20000L
}
