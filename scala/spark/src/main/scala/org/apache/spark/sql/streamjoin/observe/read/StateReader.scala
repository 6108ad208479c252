package org.apache.spark.sql.streamjoin.observe.read

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.streamjoin.base.EventTimeText
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, OperatorOutline}
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.operator.StateStores
import org.apache.spark.sql.streamjoin.state.{KeptRow, KeptRows}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

/**
 * The data that tasks need to read the rows of an operator.
 *
 * @param inputs
 *   the inputs to read, with their numbers in the state
 * @param watermarks
 *   by watermark key, in microseconds
 * @param timesAreText
 *   whether times and dates are text
 */
final private[read] case class StateReaderFactory(
    stores: StateStores,
    operator: OperatorOutline,
    inputs: Seq[(InputOutline, Int)],
    watermarks: IndexedSeq[Option[Long]],
    timesAreText: Boolean,
    hadoopConf: Broadcast[SerializableConfiguration]
) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new StateReader(this, partition.asInstanceOf[StatePartition].number)
}

/** Reads one state store. */
final private class StateReader(of: StateReaderFactory, partition: Int) extends PartitionReader[InternalRow] {
  private val opened = of.stores.openToRead(partition, of.hadoopConf.value.value)
  private val kept = new KeptRows(opened.store, of.operator.inputs.map(_.layout))

  private val rows: Iterator[InternalRow] = of.inputs.iterator.zipWithIndex.flatMap {
    case ((input, number), column) =>
      val row = new StateRow(of, input, partition, column)
      kept.buffered(number).map(row.buffered) ++
        (if (input.newestByKey) kept.newestByKey(input.stored.size).map(row.newest) else Iterator.empty)
  }

  private var current: InternalRow = _

  override def next(): Boolean = {
    val more = rows.hasNext
    if (more) current = rows.next()
    more
  }

  override def get: InternalRow = current

  override def close(): Unit = opened.close()
}

/**
 * A row of the table.
 *
 * @param column
 *   which of the columns with rows of inputs contains this input's rows
 */
final private[read] class StateRow(
    of: StateReaderFactory,
    input: InputOutline,
    partition: Int,
    column: Int
) {
  private val layout = input.layout
  private val leaving = new Leaving(of.operator, input, of.watermarks)
  private val shown = UnsafeProjection.create(input.columns.zipWithIndex.map { case (field, at) =>
    val value = BoundReference(at, field.dataType, field.nullable)
    if (of.timesAreText) EventTimeText.within(value) else value
  })
  private val side = input.side.map(UTF8String.fromString).orNull
  private val name = UTF8String.fromString(input.name)

  private def text(value: String): UTF8String = UTF8String.fromString(value)

  private def timestamp(micros: Long): Any = if (of.timesAreText) text(EventTimeText.of(micros)) else micros

  /** A row that leaves because of its time. */
  def buffered(kept: KeptRow): InternalRow = {
    def time(at: Int) = layout.expiryTime(kept.row.getBaseObject, kept.row.getBaseOffset, at)
    val awaited = leaving.of(time)
    made(
      kept,
      time(0),
      awaited.map(of => text(of.column)).orNull,
      awaited.map(awaited => timestamp(awaited.after)).orNull,
      StateRow.Waiting
    )
  }

  /** The newest row of a key, or its deletion. */
  def newest(kept: KeptRow): InternalRow = {
    val time = layout.expiryTime(kept.row.getBaseObject, kept.row.getBaseOffset, 0)
    made(kept, time, null, null, if (kept.isDeletion) StateRow.Deletion else StateRow.Newest)
  }

  private def made(kept: KeptRow, time: Long, by: UTF8String, after: Any, as: UTF8String): InternalRow = {
    val before: Array[Any] = Array(partition, side, name)
    val rows = new Array[Any](of.inputs.size)
    rows(column) = shown(kept.row).copy()
    val rest: Array[Any] = Array(
      timestamp(time),
      by,
      after,
      if (input.recordsMatches) kept.isMatched else null,
      as,
      kept.segment.map(segment => text(s"${segment.bucket}/${segment.number}")).orNull,
      kept.segment.flatMap(_.writtenIn).map(Long.box).orNull
    )
    new GenericInternalRow(before ++ rows ++ rest)
  }
}

private[read] object StateRow {
  private val Waiting = UTF8String.fromString("row")
  private val Newest = UTF8String.fromString("newest of its key")
  private val Deletion = UTF8String.fromString("deletion of its key")

  /**
   * The columns of an input, each with another name, as in late rows: Spark finds the fields of a
   * source's column by their names.
   */
  def columns(input: InputOutline): StructType = {
    val names = LateRows.distinctNames(input.columns.fieldNames.toSeq)
    StructType(input.columns.zip(names).map { case (field, name) => field.copy(name = name) })
  }

  /** @param inputs the inputs to read */
  def schema(inputs: Seq[InputOutline]): StructType = {
    val before = new StructType()
      .add("partition", IntegerType, nullable = false)
      .add("side", StringType)
      .add("input", StringType, nullable = false)
    inputs
      .foldLeft(before)((fields, input) => fields.add(input.side.getOrElse("row"), columns(input)))
      .add("time", TimestampType, nullable = false)
      .add("leaves_by", StringType)
      .add("leaves_after", TimestampType)
      .add("matched", BooleanType)
      .add("kept_as", StringType, nullable = false)
      .add("segment", StringType)
      .add("batch", LongType)
  }
}
