package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streamjoin.arrangement.index.{ArrangementRef, IndexLocality, IndexSettings}
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  InputKind,
  Restored
}
import org.apache.spark.sql.streamjoin.base.{Figures, HadoopConf, OwnExec, RunningQuery, StreamJoinConf}
import org.apache.spark.sql.streamjoin.batch.PlannedBatch
import org.apache.spark.sql.streamjoin.laterows.LateRows

import streamjoin.core.{Operation, Side}

/**
 * Writes the changes of a batch, one task for each partition of the primary key.
 *
 * {{{
 *   rows -- by the primary key -- task: what was stored before? -> changes/<version>/<file> -> sink
 *                                   |                             a block for each partition
 *                             index of version - 1                of each key
 * }}}
 *
 * A partition costs nothing unless it has rows in the batch or other work to do: see
 * [[BusyPartitions]].
 *
 * @param timeToLive
 *   how long rows are kept, in microseconds, if they are dropped
 * @param traits
 *   how the changes of a changelog are interpreted
 * @param batch
 *   none in EXPLAIN
 * @param lateRows
 *   folder for outdated changes, and for updates and deletes of unknown keys, if they are kept
 * @param isGathered
 *   whether the changes are passed on to [[GatherChangesExec]], which writes them
 */
final private[streamjoin] case class ArrangeExec(
    root: String,
    meta: ArrangementMeta,
    timeToLive: Option[Long],
    traits: LogTraits,
    batch: Option[ArrangeExec.Batch],
    lateRows: Option[String],
    isGathered: Boolean,
    output: Seq[Attribute],
    child: SparkPlan
) extends UnaryExecNode
    with OwnExec {

  private def rows = child.output.take(meta.schema.length)
  private def change = child.output.lift(meta.schema.length)

  /** The position in a log. */
  private def position = child.output.drop(meta.schema.length + 1)

  private def key = meta.keyOrdinals(0).map(rows)

  /** The columns that order the changes of a key. */
  private def times = (meta.time ++ meta.order).map(name => rows(meta.schema.fieldIndex(name))).toSeq

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(StatefulOpClusteredDistribution(key, meta.partitions))

  /**
   * Groups the rows of a key, the latest last: by time, then by order, then by the position in a
   * log. If all of these are equal, a delete precedes other rows. If such rows differ, their values
   * decide, not their order of arrival.
   */
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(meta.input match {
    case InputKind.Changelog =>
      val others = rows.filter(column => RowOrdering.isOrderable(column.dataType))
      (key ++ times ++ position ++ change.map(ArrangeExec.rank) ++ others).map(SortOrder(_, Ascending))
    case _ => Nil
  })

  override def outputPartitioning: Partitioning = UnknownPartitioning(meta.partitions)

  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of changes")) ++
      Figures.metrics(sparkContext, "arrangement") ++ Figures.metrics(sparkContext, "source")

  /** Adaptive execution would double the time of a small batch. */
  override def logicalLink: Option[LogicalPlan] = None

  override protected def doExecute(): RDD[InternalRow] = {
    val ArrangeExec.Batch(number, run, batchTime, endsByItself, checkpoint) =
      batch.getOrElse(throw new IllegalStateException("no batch"))
    val hadoopConf = HadoopConf.of(session)
    val folder = new ArrangementFolder(new Path(root), hadoopConf.value.value)
    val before = Option.when(number > 0)(folder.manifestOf(number - 1).getOrElse {
      val newest = folder.newest
      throw if (newest < number - 1) Restored.arrangement(root, checkpoint, number - 1, newest)
      else folder.missing(number - 1)
    })
    val spec = ArrangeSpec(
      ArrangementRef(root, meta),
      number,
      before.map(_.versionId),
      run,
      batchTime,
      conf.getConf(StreamJoinConf.ArrangementDeletedKeysMaxAge),
      timeToLive.map(TimeToLive.of(meta, _, batchTime, conf.sessionLocalTimeZone)),
      writesBase = before.exists { last =>
        Base.isDueInBatch(last, endsByItself) ||
        endsByItself && last.bases.nonEmpty && !meta.isWrittenLike(folder.metaOf(last))
      },
      dropsDeletions = before.exists(_.baseFiles.nonEmpty),
      rows,
      change,
      position,
      traits,
      IndexSettings.of(conf),
      lateRows.map { folder =>
        LateRows.Spec(
          folder,
          number,
          None,
          Map(Side.Left -> LateRows.Input(new Path(root).getName, times, rows ++ change)),
          meta.partitions
        )
      }
    )
    val figures = metrics
    val gathered = isGathered
    val busy = BusyPartitions.of(spec, before, child, sparkContext)
    val outputs = IndexLocality.place(child.execute()).mapPartitionsWithIndexInternal { (partition, input) =>
      val conf = hadoopConf.value.value
      val passedOn = Option.when(gathered)(new ChangeRows(partition))
      val changes = passedOn.getOrElse(
        ArrangeTask.changesFile(new Path(spec.arrangement.root), number, partition, run, conf)
      )
      val task = new ArrangeTask(spec, partition, changes, conf)
      TaskContext.get().addTaskFailureListener((_, _) => task.abort())
      val steps = task.steps(input)
      def end() = {
        val output = task.end()
        task.figures.foreach { case (name, figure) => figures(name) += figure }
        figures("numOutputRows") += task.numberOfChanges
        output
      }
      passedOn match {
        case Some(rows) => steps.flatMap(_ => rows.take()) ++ Iterator.single(()).map(_ => rows.of(end()))
        case None =>
          // Lazy, because one task processes several partitions one after the other.
          Iterator.single(()).map { _ =>
            steps.foreach(identity)
            end().toRow
          }
      }
    }
    busy.fold(outputs)(_.of(outputs))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ArrangeExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"Arrange $root by ${Arrange.words(meta, timeToLive)}"
}

private[streamjoin] object ArrangeExec {

  /**
   * @param number
   *   version of the arrangement
   * @param run
   *   run id of the query
   * @param timeMs
   *   time of the batch in the offset log, in milliseconds since the epoch
   * @param endsByItself
   *   the query ends once it has processed what is available
   */
  final case class Batch(number: Long, run: UUID, timeMs: Long, endsByItself: Boolean, checkpoint: String)

  def of(arrange: Arrange, session: SparkSession, child: SparkPlan): SparkPlan = {
    val planned = PlannedBatch.current(session)
    val batch = planned.map { found =>
      val execution = found.execution
      Batch(
        execution.currentBatchId,
        execution.runId,
        execution.offsetSeqMetadata.batchTimestampMs,
        RunningQuery.endsByItself(found.query),
        found.query.resolvedCheckpointRoot
      )
    }
    val isGathered = arrange.meta.partitions > GatherChangesExec.MostBlocks
    val tasks = ArrangeExec(
      arrange.root,
      arrange.meta,
      arrange.timeToLive,
      arrange.traits,
      batch,
      planned
        .filter(_ => arrange.meta.input == InputKind.Changelog)
        .flatMap(found =>
          LateRows.prepareForArrangement(
            found.execution,
            arrange.meta.partitions,
            HadoopConf.of(session).value.value
          )
        ),
      isGathered,
      if (isGathered) ChangeRows.columns else arrange.output,
      child
    )
    if (isGathered)
      GatherChangesExec(
        arrange.root,
        batch,
        arrange.meta.partitions,
        arrange.output,
        tasks
      )
    else tasks
  }

  /** Sorts removals first. */
  private def rank(operation: Attribute): Expression = {
    val going = Seq(Operation.Before, Operation.Delete).flatMap(Operation.names)
    Not(In(Lower(StringTrim(operation, Literal(Operation.Trimmed))), going.map(Literal(_))))
  }
}
