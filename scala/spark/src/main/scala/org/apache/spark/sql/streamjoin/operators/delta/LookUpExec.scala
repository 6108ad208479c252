package org.apache.spark.sql.streamjoin.operators.delta

import org.apache.hadoop.conf.Configuration

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streamjoin.arrangement._
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.operators.LocalRows
import org.apache.spark.util.SerializableConfiguration

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
    key: Seq[Expression],
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

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(StatefulOpClusteredDistribution(key, meta.partitions))

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
      key,
      nullSafe,
      at,
      low,
      high,
      child.output,
      found,
      conf.getConf(StreamJoinConf.ExecutorIndexMemory)
    )
    val hadoopConf = SerializableConfiguration.broadcast(sparkContext, session.sessionState.newHadoopConf())
    val (rows, loaded, loadTime) =
      (longMetric("numOutputRows"), longMetric("loadedRows"), longMetric("loadTimeMs"))
    LocalRows.place(child.execute()).mapPartitionsWithIndex { (partition, input) =>
      // What nothing asks for is not loaded.
      if (input.isEmpty) Iterator.empty
      else {
        val task = new LookUpTask(spec, partition, hadoopConf.value.value)
        loaded += task.load.rows
        loadTime += task.load.nanos / 1000000
        input.flatMap(task.look).map { row =>
          rows += 1
          row
        }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LookUpExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String =
    s"LookUp ${input.name} by ${meta.keys(index).mkString("(", ", ", ")")}, keeps nothing"
}

/** What the tasks of a look-up need. */
final private case class LookUpSpec(
    arrangement: ArrangementRef,
    index: Int,
    key: Seq[Expression],
    nullSafe: Seq[Boolean],
    at: Snapshot,
    low: Long,
    high: Long,
    input: Seq[Attribute],
    found: Seq[Attribute],
    executorIndexMemory: Option[Long]
)

final private class LookUpTask(spec: LookUpSpec, partition: Int, hadoopConf: Configuration) {
  private val meta = spec.arrangement.meta
  private def rowKey(index: Int) = new RowKey(meta.schema, meta.keyOrdinals(index), meta.partitions)
  private val key = UnsafeProjection.create(spec.key, spec.input)
  private val ownKey = rowKey(spec.index)
  private val primaryKey = rowKey(0)
  private val probe = new Probe(meta.schema.length, rowKey(spec.index))
  private val never = spec.nullSafe.indices.filterNot(spec.nullSafe)

  val load = new LoadStats
  private val index = IndexRegistry(spec.executorIndexMemory)
    .get(spec.arrangement, spec.index, partition, spec.low, spec.high, hadoopConf, load)

  private val joined = new JoinedRow
  private val diff = new GenericInternalRow(1)
  private val withDiff = new JoinedRow
  private val toRow = UnsafeProjection.create(spec.input ++ spec.found, spec.input ++ spec.found)

  /** A row is valid until the next one is asked for. */
  def look(row: InternalRow): Iterator[InternalRow] = {
    val wanted = key(row)
    if (never.exists(wanted.isNullAt)) Iterator.empty
    else {
      index.find(wanted, ownKey.hashOfKey(wanted), spec.at.version, probe)
      Iterator
        .range(0, probe.size)
        .filter(i => spec.at.slices.isEmpty || spec.at.has(primaryKey.hash(probe.row(i))))
        .map { i =>
          diff.setLong(0, probe.copies(i).toLong)
          toRow(joined(row, withDiff(diff, probe.row(i))))
        }
    }
  }
}
