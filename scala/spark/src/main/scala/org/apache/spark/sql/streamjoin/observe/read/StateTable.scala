package org.apache.spark.sql.streamjoin.observe.read

import java.util.{EnumSet, Set => JSet}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.streamjoin.base.{EventTimeText, HadoopConf}
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/**
 * `format("streamjoin")` with a checkpoint: its operators or, with the option `operator`, the rows
 * that one operator keeps after a batch.
 */
final private[streamjoin] class StateTable(session: SparkSession, asked: CaseInsensitiveStringMap)
    extends Table
    with SupportsRead {
  private val options = new StateOptions(asked, session)

  override def schema: StructType = rows

  private lazy val rows = { options.checkpoint.operators: Unit; options.operator }
    .fold(StateTable.Operators) { _ =>
      val typed = StateRow.schema(options.inputs.map(_._1))
      if (options.timesAreText) EventTimeText.typeWithin(typed).asInstanceOf[StructType] else typed
    }

  override def name: String = s"streamjoin state ${options.checkpoint.root}"

  override def columns: Array[Column] = CatalogV2Util.structTypeToV2Columns(schema)

  override def capabilities: JSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ)

  override def newScanBuilder(ignored: CaseInsensitiveStringMap): ScanBuilder = () =>
    options.operator.fold[Scan](operators) { operator =>
      val batch = options.batch
      new StateScan(
        schema,
        options.checkpoint.partitions(operator, batch),
        StateReaderFactory(
          options.checkpoint.stores(operator, batch),
          operator,
          options.inputs,
          options.checkpoint.watermarks(operator, batch),
          options.timesAreText,
          HadoopConf.of(session)
        )
      )
    }

  private def operators: LocalScan = new LocalScan {
    override def readSchema: StructType = StateTable.Operators
    override def rows: Array[InternalRow] = (for {
      operator <- options.checkpoint.operators
      input <- operator.inputs
    } yield new GenericInternalRow(
      Array[Any](
        operator.ordinal + 1,
        UTF8String.fromString(operator.title),
        input.side.map(UTF8String.fromString).orNull,
        UTF8String.fromString(input.name),
        UTF8String.fromString(StateRow.columns(input).toDDL),
        options.checkpoint.partitions(operator, options.checkpoint.batches.last),
        options.checkpoint.batches.head,
        options.checkpoint.batches.last
      )
    )).toArray[InternalRow]
  }
}

private[streamjoin] object StateTable {
  val Operators: StructType = new StructType()
    .add("operator", IntegerType, nullable = false)
    .add("title", StringType, nullable = false)
    .add("side", StringType)
    .add("input", StringType, nullable = false)
    .add("columns", StringType, nullable = false)
    .add("partitions", IntegerType, nullable = false)
    .add("first_batch", LongType, nullable = false)
    .add("last_batch", LongType, nullable = false)
}

/** @param partitions number of state stores, each read by a task */
final private class StateScan(schema: StructType, partitions: Int, readers: StateReaderFactory)
    extends Scan
    with Batch {
  override def readSchema: StructType = schema
  override def description: String = s"streamjoin state of operator ${readers.operator.ordinal + 1}"
  override def toBatch: Batch = this
  override def planInputPartitions: Array[InputPartition] =
    Array.tabulate(partitions)(StatePartition(_))
  override def createReaderFactory: PartitionReaderFactory = readers
}

final private case class StatePartition(number: Int) extends InputPartition
