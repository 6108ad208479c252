package org.apache.spark.sql.streamjoin.arrangement.lookup

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{PartitioningPreservingUnaryExecNode, SparkPlan}
import org.apache.spark.sql.streamjoin.arrangement.index._
import org.apache.spark.sql.streamjoin.arrangement.source.ReaderFigures
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementMeta, RowKey, Snapshot, VersionId}
import org.apache.spark.sql.streamjoin.base.{HadoopConf, OwnExec}
import org.apache.spark.sql.types.{ArrayType, IntegerType}

/**
 * A reference to an arrangement in a query.
 *
 * @param name
 *   name in the query
 * @param columns
 *   columns of its rows
 * @param diff
 *   column with the number of copies of a row
 */
final private[streamjoin] case class ArrangedRows(
    name: String,
    arrangement: ArrangementRef,
    columns: Seq[Attribute],
    diff: Attribute
) {

  /** The key columns of an index. */
  def key(index: Int): Seq[Attribute] = arrangement.meta.keyOrdinals(index).map(columns)
}

/**
 * The index and the snapshot at which an arrangement is looked up.
 *
 * @param key
 *   columns of the child, one per key column of the index
 * @param nullSafe
 *   per key column, whether a null matches a null
 * @param at
 *   snapshot to look up
 * @param low
 *   oldest version of the arrangement that the batch looks up anywhere
 * @param high
 *   newest version of the arrangement that the batch looks up anywhere, if there is one
 * @param tasks
 *   the tasks of a small batch; otherwise there is one task per partition of the index
 * @param figures
 *   metrics for the progress of the query. Spark copies an operator before it runs, and all copies
 *   add to them.
 */
final private[streamjoin] case class IndexAccess(
    input: ArrangedRows,
    index: Int,
    key: Seq[Attribute],
    nullSafe: Seq[Boolean],
    at: Snapshot,
    low: Long,
    high: Option[VersionId],
    tasks: Option[IndexTasks] = None
)(val figures: ReaderFigures) {
  def meta: ArrangementMeta = input.arrangement.meta

  /** The columns of a found row, which has no version. */
  def found: Seq[Attribute] = input.diff +: input.columns

  /** The data that tasks need to look up rows with these columns. */
  private[streamjoin] def spec(rows: Seq[Attribute], indexes: IndexSettings): LookUpSpec =
    LookUpSpec(
      input.arrangement,
      index,
      new RowKey(
        key.map(_.dataType).toArray,
        key.map(column => rows.indexWhere(_.exprId == column.exprId)).toArray
      ),
      nullSafe.indices.filterNot(nullSafe),
      at,
      low,
      high,
      indexes
    )

  /**
   * Shuffles rows to the task that has the index of their key. A single process has all indexes.
   */
  def gathered(rows: SparkPlan): SparkPlan = tasks match {
    case Some(few) if !IndexLocality.areOne(rows.session.sparkContext) =>
      val partition = Pmod(new Murmur3Hash(key), Literal(meta.partitions))
      val task =
        GetArrayItem(Literal(new GenericArrayData(few.taskOf.toArray), ArrayType(IntegerType)), partition)
      val to = ShufflePartitionIdPassThrough(DirectShufflePartitionID(task), few.number)
      ShuffleExchangeExec(to, rows)
    case _ => rows
  }

  def words: String = s"${input.name} by ${meta.keys(index).mkString("(", ", ", ")")}"
}

/**
 * Looks up an arrangement for each row. Stateless: the index belongs to the executor, and all
 * queries share it.
 */
private[streamjoin] trait IndexReaderExec extends PartitioningPreservingUnaryExecNode with OwnExec {
  def access: IndexAccess

  /**
   * Rows are shuffled to the index partition of their key, unless [[IndexAccess.gathered]] has done
   * so; a single executor needs no shuffle.
   */
  override def requiredChildDistribution: Seq[Distribution] =
    if (access.tasks.isDefined || IndexLocality.areOne(sparkContext)) Seq(UnspecifiedDistribution)
    else Seq(StatefulOpClusteredDistribution(access.key, access.meta.partitions))

  override def producedAttributes: AttributeSet = AttributeSet(access.found) ++ outputSet

  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows")) ++
      access.figures.metrics ++ ownMetrics

  protected def ownMetrics: Map[String, SQLMetric] = Map.empty

  /** Adaptive execution would double the time of a small batch. */
  override def logicalLink: Option[LogicalPlan] = None

  override protected def doExecute(): RDD[InternalRow] = {
    val spec = access.spec(child.output, IndexSettings.of(conf))
    val hadoopConf = HadoopConf.of(session)
    val rows = longMetric("numOutputRows")
    val figures = access.figures
    val resultsOf = results
    IndexLocality.place(child.execute(), access.tasks).mapPartitionsInternal { input =>
      val task = LookUpTask.begin(spec, hadoopConf.value.value, figures)
      resultsOf(task, task.readAhead(input)).map { row =>
        rows += 1
        row
      }
    }
  }

  /** Transforms the rows of a task into results. A row is valid until the next one is requested. */
  protected def results: (LookUpTask, Iterator[InternalRow]) => Iterator[InternalRow]
}

/**
 * The data that the tasks of a look-up need.
 *
 * @param wanted
 *   position of the key in a row of the child
 * @param never
 *   key columns that must not be null
 */
final private[streamjoin] case class LookUpSpec(
    arrangement: ArrangementRef,
    index: Int,
    wanted: RowKey,
    never: Seq[Int],
    at: Snapshot,
    low: Long,
    high: Option[VersionId],
    indexes: IndexSettings
)

final private[streamjoin] class LookUpTask(spec: LookUpSpec, hadoopConf: Configuration) {
  private val primaryKey = RowKey.of(spec.arrangement.meta, 0)
  private val probe = new ProbeResult(spec.arrangement.meta.schema.length, spec.wanted)

  val load = new LoadStats
  private val registry = IndexRegistry(spec.indexes)

  def registryBytes: Long = registry.bytes

  /** By partition; opened when the first row needs it. */
  private val indexes = new Array[KeyIndex](spec.arrangement.meta.partitions)

  private def indexOf(partition: Int): KeyIndex = {
    if (indexes(partition) == null)
      indexes(partition) =
        registry.get(spec.arrangement, spec.index, partition, spec.low, spec.high.get, hadoopConf, load)
    indexes(partition)
  }

  private val diff = new GenericInternalRow(1)
  private val found = new JoinedRow
  private val joined = new JoinedRow

  /** The row may match, now or later. */
  def hasKey(row: InternalRow): Boolean = !spec.never.exists(spec.wanted.isNull(row, _))

  private def mayMatch(row: InternalRow): Boolean = !spec.at.isEmpty && hasKey(row)

  /** The same rows, to be looked up faster. A row is valid until the next one is requested. */
  def readAhead(rows: Iterator[InternalRow]): Iterator[InternalRow] =
    new ReadAhead(rows, spec.wanted, mayMatch, indexes.length, indexOf)

  /** A row is valid until the next one is requested. */
  def look(row: InternalRow): Iterator[InternalRow] =
    if (!mayMatch(row)) Iterator.empty
    else {
      val hash = spec.wanted.hash(row)
      indexOf(Math.floorMod(hash, indexes.length)).find(row, hash, spec.at.version, probe)
      if (spec.at.slices.nonEmpty) probe.leaveOut(found => !spec.at.has(primaryKey.hash(found)))
      new Iterator[InternalRow] {
        private var i = 0

        override def hasNext: Boolean = i < probe.size

        override def next(): InternalRow = {
          diff.setLong(0, probe.copies(i).toLong)
          joined(row, found(diff, probe.row(i)))
          i += 1
          joined
        }
      }
    }
}

private[streamjoin] object LookUpTask {

  /** Its metrics are counted when the task ends. */
  def begin(spec: LookUpSpec, hadoopConf: Configuration, figures: ReaderFigures): LookUpTask = {
    val task = new LookUpTask(spec, hadoopConf)
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      figures.metrics("loadedRows") += task.load.rows
      figures.metrics("loadTimeMs") += task.load.nanos / 1000000
      figures.indexBytes.add(task.registryBytes)
    }
    task
  }
}
