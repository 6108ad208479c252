package org.apache.spark.sql.streamjoin.operators

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.PartitioningPreservingUnaryExecNode
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.streamjoin.arrangement._
import org.apache.spark.sql.streamjoin.base.{HadoopConf, StreamJoinConf}

/**
 * An arrangement in a query.
 *
 * @param name
 *   what the query calls it
 * @param columns
 *   of its rows
 * @param diff
 *   how many copies of a row there are
 */
final private[streamjoin] case class ArrangedRows(
    name: String,
    arrangement: ArrangementRef,
    columns: Seq[Attribute],
    diff: Attribute
) {

  /** The key of an index. */
  def key(index: Int): Seq[Attribute] = arrangement.meta.keyOrdinals(index).map(columns)
}

/**
 * Where and as of when an arrangement is looked up.
 *
 * @param key
 *   of a row of the child, for each column of the index
 * @param nullSafe
 *   by column of the key: whether a null finds a null
 * @param at
 *   the snapshot that is looked up
 * @param low
 *   the oldest version of the arrangement that the batch looks up anywhere
 * @param high
 *   the newest
 * @param figures
 *   for the progress of the query; Spark copies an operator before it runs, and all copies add to
 *   them
 */
final private[streamjoin] case class IndexAccess(
    input: ArrangedRows,
    index: Int,
    key: Seq[Attribute],
    nullSafe: Seq[Boolean],
    at: Snapshot,
    low: Long,
    high: Long
)(val figures: ReaderFigures) {
  def meta: ArrangementMeta = input.arrangement.meta

  /** What a row of the arrangement is found as: it has no version of its own. */
  def found: Seq[Attribute] = input.diff +: input.columns

  def words: String = s"${input.name} by ${meta.keys(index).mkString("(", ", ", ")")}"
}

/**
 * Looks up an arrangement for each row. It keeps nothing: the index is the executor's, and all
 * queries share it.
 */
private[streamjoin] trait IndexReaderExec extends PartitioningPreservingUnaryExecNode {
  def access: IndexAccess

  /** Rows go where the index of their key is. Where one process has all of them, they are there. */
  override def requiredChildDistribution: Seq[Distribution] =
    if (IndexPlaces.areOne(sparkContext)) Seq(UnspecifiedDistribution)
    else Seq(StatefulOpClusteredDistribution(access.key, access.meta.partitions))

  override def producedAttributes: AttributeSet = AttributeSet(access.found) ++ outputSet

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "loadedRows" -> access.figures.loadedRows,
    "loadTimeMs" -> access.figures.loadTimeMs
  )

  /** Adaptive execution would double the time of a small batch. */
  override def logicalLink: Option[LogicalPlan] = None

  override protected def doExecute(): RDD[InternalRow] = {
    val spec = LookUpSpec(
      access.input.arrangement,
      access.index,
      new RowKey(
        access.key.map(_.dataType).toArray,
        access.key.map(column => child.output.indexWhere(_.exprId == column.exprId)).toArray
      ),
      access.nullSafe.indices.filterNot(access.nullSafe),
      access.at,
      access.low,
      access.high,
      conf.getConf(StreamJoinConf.ExecutorIndexMemory)
    )
    val hadoopConf = HadoopConf.of(session)
    val rows = longMetric("numOutputRows")
    val ReaderFigures(loaded, loadTime, indexBytes) = access.figures
    val resultsOf = results
    LocalRows.place(child.execute()).mapPartitions { input =>
      val task = new LookUpTask(spec, hadoopConf.value.value)
      TaskContext.get().addTaskCompletionListener[Unit] { _ =>
        loaded += task.load.rows
        loadTime += task.load.nanos / 1000000
        indexBytes.add(task.registryBytes)
      }
      resultsOf(task, input).map { row =>
        rows += 1
        row
      }
    }
  }

  /** What the rows of a task become. A row is valid until the next one is asked for. */
  protected def results: (LookUpTask, Iterator[InternalRow]) => Iterator[InternalRow]
}

/**
 * What the tasks of a look-up need.
 *
 * @param wanted
 *   where the key is in a row of the child
 * @param never
 *   the columns of the key that must not be null
 */
final private case class LookUpSpec(
    arrangement: ArrangementRef,
    index: Int,
    wanted: RowKey,
    never: Seq[Int],
    at: Snapshot,
    low: Long,
    high: Long,
    executorIndexMemory: Option[Long]
)

final private[streamjoin] class LookUpTask(spec: LookUpSpec, hadoopConf: Configuration) {
  private val primaryKey = RowKey.of(spec.arrangement.meta, 0)
  private val probe = new Probe(spec.arrangement.meta.schema.length, spec.wanted)

  val load = new LoadStats
  private val registry = IndexRegistry(spec.executorIndexMemory)

  def registryBytes: Long = registry.bytes

  /** By partition: those that a row has asked for. */
  private val indexes = new Array[KeyIndex](spec.arrangement.meta.partitions)

  private def indexFor(hash: Int): KeyIndex = {
    val partition = Math.floorMod(hash, indexes.length)
    if (indexes(partition) == null)
      indexes(partition) =
        registry.get(spec.arrangement, spec.index, partition, spec.low, spec.high, hadoopConf, load)
    indexes(partition)
  }

  private val diff = new GenericInternalRow(1)
  private val found = new JoinedRow
  private val joined = new JoinedRow

  /** A row is valid until the next one is asked for. */
  def look(row: InternalRow): Iterator[InternalRow] =
    if (spec.never.exists(spec.wanted.isNull(row, _))) Iterator.empty
    else if (spec.at.isEmpty) Iterator.empty
    else {
      val hash = spec.wanted.hash(row)
      indexFor(hash).find(row, hash, spec.at.version, probe)
      Iterator
        .range(0, probe.size)
        .filter(i => spec.at.slices.isEmpty || spec.at.has(primaryKey.hash(probe.row(i))))
        .map { i =>
          diff.setLong(0, probe.copies(i).toLong)
          joined(row, found(diff, probe.row(i)))
        }
    }
}
