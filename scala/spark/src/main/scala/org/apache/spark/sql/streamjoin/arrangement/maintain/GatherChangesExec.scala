package org.apache.spark.sql.streamjoin.arrangement.maintain

import scala.collection.mutable
import scala.concurrent.Await
import scala.concurrent.duration.Duration

import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{CoalescedPartitionSpec, ShufflePartitionSpec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streamjoin.arrangement.storage.{BlockFile, BlockFileWriter, BlockWriter}
import org.apache.spark.sql.streamjoin.base.{HadoopConf, OwnExec}
import org.apache.spark.sql.types.{BinaryType, IntegerType, StructType}
import org.apache.spark.unsafe.Platform

/**
 * Writes the changes of an arrangement with many partitions. If each task of [[ArrangeExec]] wrote
 * its own changes, it would have a block for each partition of every other key. The number of
 * blocks would be the square of the number of partitions, with one or two rows in each. So the
 * changes are shuffled, and a few tasks write one block per partition.
 *
 * {{{
 *   task of ArrangeExec -+              +-> task: a file with blocks of partitions 0 to 31
 *   task of ArrangeExec -+-> partition -+-> task: a file with blocks of partitions 32 to 63
 *   ...                  |              |   ...
 * }}}
 */
final private[streamjoin] case class GatherChangesExec(
    root: String,
    batch: Option[ArrangeExec.Batch],
    partitions: Int,
    output: Seq[Attribute],
    child: SparkPlan
) extends UnaryExecNode
    with OwnExec {

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(ClusteredDistribution(child.output.take(1), requiredNumPartitions = Some(partitions)))

  override def outputPartitioning: Partitioning = UnknownPartitioning(0)

  /** Adaptive execution would double the time of a small batch. */
  override def logicalLink: Option[LogicalPlan] = None

  override protected def doExecute(): RDD[InternalRow] = {
    val hadoopConf = HadoopConf.of(session)
    val folder = root
    val ArrangeExec.Batch(number, run, _, _, _) = batch.getOrElse(throw new IllegalStateException("no batch"))
    changes().mapPartitionsWithIndexInternal { (task, rows) =>
      val file = ArrangeTask.changesFile(new Path(folder), number, task, run, hadoopConf.value.value)
      TaskContext.get().addTaskFailureListener((_, _) => file.abort())
      rows.flatMap(ChangeRows.write(_, file)) ++ Iterator.single(()).map { _ =>
        TaskOutput(file.commit(), None, wroteBase = false, Map.empty).toRow
      }
    }
  }

  /** The changes, in a number of partitions that suits their size. */
  private def changes(): RDD[InternalRow] = child match {
    case shuffle: ShuffleExchangeExec =>
      // Null if no partition had work to do.
      val sizes = Option(Await.result(shuffle.submitShuffleJob(), Duration.Inf))
      val tasks =
        sizes.fold(Array.empty[ShufflePartitionSpec])(all => GatherChangesExec.tasks(all.bytesByPartitionId))
      shuffle.getShuffleRDD(tasks).asInstanceOf[RDD[InternalRow]]
    case other => other.execute()
  }

  override protected def withNewChildInternal(newChild: SparkPlan): GatherChangesExec =
    copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"GatherChanges of $root"
}

private[streamjoin] object GatherChangesExec {

  /** With more partitions than this, changes are gathered into files of this many partitions. */
  val MostBlocks = 32

  private val TaskBytes = 32L << 20

  /** Adjacent partitions of a shuffle as tasks; partitions without changes cost nothing. */
  def tasks(bytes: Array[Long]): Array[ShufflePartitionSpec] = {
    val tasks = mutable.ArrayBuffer.empty[CoalescedPartitionSpec]
    var filled = 0
    bytes.indices.filter(bytes(_) > 0).foreach { at =>
      tasks.lastOption match {
        case Some(last) if filled < MostBlocks && last.dataSize.get < TaskBytes =>
          val sum = last.dataSize.get + bytes(at)
          tasks(tasks.size - 1) = CoalescedPartitionSpec(last.startReducerIndex, at + 1, Some(sum))
          filled += 1
        case _ =>
          tasks += CoalescedPartitionSpec(at, at + 1, Some(bytes(at)))
          filled = 1
      }
    }
    tasks.toArray
  }
}

/** Passes the changes of a task on as rows, instead of writing them. */
final private[streamjoin] class ChangeRows(task: Int) extends BlockWriter {
  private val toUnsafe = UnsafeProjection.create(ChangeRows.Schema)
  private var rows = mutable.ArrayBuffer.empty[InternalRow]

  override def add(index: Int, partition: Int, row: UnsafeRow, copies: Int): Unit =
    rows += toUnsafe(InternalRow(partition, index, copies, row.getBytes)).copy()

  /** The rows that have been added since the last call. */
  def take(): Iterator[InternalRow] = {
    val taken = rows
    rows = mutable.ArrayBuffer.empty
    taken.iterator
  }

  /** Everything else that a task reports to the sink. */
  def of(output: TaskOutput): InternalRow =
    toUnsafe(InternalRow(task, ChangeRows.NoIndex, 0, output.toBytes))

  override def commit(): Option[BlockFile] = None
  override def abort(): Unit = ()
}

private[streamjoin] object ChangeRows {
  private val Schema = new StructType()
    .add("partition", IntegerType, nullable = false)
    .add("index", IntegerType, nullable = false)
    .add("copies", IntegerType, nullable = false)
    .add("row", BinaryType, nullable = false)

  private val NoIndex = -1

  def columns: Seq[Attribute] = toAttributes(Schema)

  /** Writes a change; returns any other row, which is for the sink. */
  private[maintain] def write(change: InternalRow, file: BlockFileWriter): Option[InternalRow] = {
    val bytes = change.getBinary(3)
    if (change.getInt(1) == NoIndex) Some(InternalRow(bytes))
    else {
      val row = new UnsafeRow(0)
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length)
      file.add(change.getInt(1), change.getInt(0), row, change.getInt(2))
      None
    }
  }
}
