package org.apache.spark.sql.streamjoin.arrangement.lookup

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning, UnknownPartitioning}
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{LeafExecNode, StreamSourceAwareSparkPlan}
import org.apache.spark.sql.streamjoin.arrangement.index.{
  IndexLocality,
  IndexRegistry,
  IndexSettings,
  IndexTasks
}
import org.apache.spark.sql.streamjoin.arrangement.source.SnapshotDiffReader
import org.apache.spark.sql.streamjoin.arrangement.storage.Snapshot
import org.apache.spark.sql.streamjoin.base.{HadoopConf, OwnExec}

/**
 * Reads the changes of an arrangement by primary key, on the executors that hold its index.
 *
 * @param version
 *   column with the version of a change
 * @param tasks
 *   the tasks of a small batch; otherwise there is one task per partition
 * @param condition
 *   filter on the changes
 * @param values
 *   projection of the changes that pass the filter
 */
final private[streamjoin] case class ChangesExec(
    input: ArrangedRows,
    version: Attribute,
    stream: Option[SparkDataStream],
    start: Snapshot,
    end: Snapshot,
    tasks: Option[IndexTasks],
    condition: Option[Expression],
    values: Seq[NamedExpression]
) extends LeafExecNode
    with StreamSourceAwareSparkPlan
    with OwnExec {

  private def meta = input.arrangement.meta

  /** The columns of a change, as in [[ChangesTable.schema]]. */
  private def changed: Seq[Attribute] = input.columns :+ version :+ input.diff

  override def output: Seq[Attribute] = values.map(_.toAttribute)
  override def producedAttributes: AttributeSet = AttributeSet(changed ++ output)
  override def getStream: Option[SparkDataStream] = stream

  override def outputPartitioning: Partitioning =
    tasks.fold[Partitioning](HashPartitioning(input.key(0), meta.partitions)) { few =>
      UnknownPartitioning(few.number)
    }

  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"))

  override def logicalLink: Option[LogicalPlan] = None

  override protected def doExecute(): RDD[InternalRow] = {
    val arrangement = input.arrangement
    val (from, to) = (start, end)
    val indexes = IndexSettings.of(conf)
    val hadoopConf = HadoopConf.of(session)
    val numOutputRows = longMetric("numOutputRows")
    val handedOn = FilterProject(condition, values, changed)
    val slices = tasks.fold(meta.partitions)(_.number)
    val partitions = tasks.fold(IndexedSeq.range(0, slices).map(Seq(_))) { few =>
      IndexedSeq.tabulate(slices)(task => few.taskOf.indices.filter(few.taskOf(_) == task))
    }
    val none: RDD[InternalRow] = sparkContext.parallelize(Seq.empty[InternalRow], slices)
    IndexLocality.place(none, tasks).mapPartitionsWithIndexInternal { (slice, _) =>
      val reader = new SnapshotDiffReader(arrangement, IndexRegistry(indexes), hadoopConf.value.value)
      val changes = partitions(slice).iterator.flatMap(reader.changes(_, from, to)).map { change =>
        numOutputRows += 1
        reader.withVersion(change)
      }
      handedOn.inTask(changes)
    }
  }

  override def simpleString(maxFields: Int): String =
    s"Changes of ${input.name}${FilterProject.where(condition)}"
}
