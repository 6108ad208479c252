package org.apache.spark.sql.streamjoin.operators.delta

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streamjoin.arrangement._
import org.apache.spark.sql.streamjoin.base.{HadoopConf, StreamJoinConf}
import org.apache.spark.sql.streamjoin.operators.{IndexPlaces, LocalRows}

/**
 * Each row with the rows of an arrangement that have its key, as of a snapshot. It keeps nothing:
 * the index is the executor's, and all queries share it.
 *
 * @param key
 *   of a row of the child, for each column of the index
 * @param at
 *   the snapshot that is looked up
 * @param low
 *   the oldest version of the arrangement that the batch looks up anywhere
 * @param high
 *   the newest
 */
final private[streamjoin] case class LookUpExec(
    input: DeltaInput,
    index: Int,
    key: Seq[Attribute],
    nullSafe: Seq[Boolean],
    at: Snapshot,
    low: Long,
    high: Long,
    child: SparkPlan
) extends UnaryExecNode {

  private def meta = input.arrangement.meta

  /** The rows that are found have no version of their own. */
  private def found: Seq[Attribute] = input.diff +: input.rows

  override def output: Seq[Attribute] = child.output ++ found

  /** Rows go where the index of their key is. Where one process has all of them, they are there. */
  override def requiredChildDistribution: Seq[Distribution] =
    if (IndexPlaces.areOne(sparkContext)) Seq(UnspecifiedDistribution)
    else Seq(StatefulOpClusteredDistribution(key, meta.partitions))

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "loadedRows" -> SQLMetrics.createMetric(sparkContext, "rows loaded into the index"),
    "loadTimeMs" -> SQLMetrics.createMetric(sparkContext, "time to load the index")
  )

  override def logicalLink: Option[LogicalPlan] = None

  override protected def doExecute(): RDD[InternalRow] = {
    val spec = LookUpSpec(
      input.arrangement,
      index,
      new RowKey(
        key.map(_.dataType).toArray,
        key.map(column => child.output.indexWhere(_.exprId == column.exprId)).toArray
      ),
      nullSafe.indices.filterNot(nullSafe),
      at,
      low,
      high,
      conf.getConf(StreamJoinConf.ExecutorIndexMemory)
    )
    val hadoopConf = HadoopConf.of(session)
    val (rows, loaded, loadTime) =
      (longMetric("numOutputRows"), longMetric("loadedRows"), longMetric("loadTimeMs"))
    LocalRows.place(child.execute()).mapPartitions { input =>
      val task = new LookUpTask(spec, hadoopConf.value.value)
      TaskContext.get().addTaskCompletionListener[Unit] { _ =>
        loaded += task.load.rows
        loadTime += task.load.nanos / 1000000
      }
      input.flatMap(task.look).map { row =>
        rows += 1
        row
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LookUpExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String =
    s"LookUp ${input.name} by ${meta.keys(index).mkString("(", ", ", ")")}, keeps nothing"
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

final private class LookUpTask(spec: LookUpSpec, hadoopConf: Configuration) {
  private val primaryKey = RowKey.of(spec.arrangement.meta, 0)
  private val probe = new Probe(spec.arrangement.meta.schema.length, spec.wanted)

  val load = new LoadStats
  private val registry = IndexRegistry(spec.executorIndexMemory)

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
