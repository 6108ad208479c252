package org.apache.spark.sql.streamjoin.joins.table

import scala.annotation.tailrec
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.arrangement.lookup.{LookUpSpec, LookUpTask}
import org.apache.spark.sql.streamjoin.arrangement.source.ReaderFigures
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.observe.collect.TaskReport
import org.apache.spark.sql.streamjoin.operator.{
  BufferLimits,
  BufferingTask,
  Placement,
  RowIterator,
  StateSpec,
  TaskInputs,
  TaskMetrics
}
import org.apache.spark.sql.streamjoin.state.{JoinState, MatchIterator, RowLayout}
import org.apache.spark.sql.types.{DataType, LongType}

import streamjoin.core.Side

/**
 * The data that the tasks of a batch need.
 *
 * @param rows
 *   column types of the stream
 * @param keys
 *   ordinals of the key columns
 * @param time
 *   ordinal of the event time
 * @param bucketWidth
 *   bucket width of buffered rows, in microseconds
 * @param leaving
 *   rows with a lower time expire after the batch, in microseconds
 */
final private[table] case class RematchTaskSpec(
    rows: Seq[DataType],
    keys: Array[Int],
    time: Int,
    bucketWidth: Long,
    leaving: Long,
    lookUps: LookUpSpec,
    figures: ReaderFigures,
    results: LookUpResults,
    limits: BufferLimits
) extends StateSpec {

  /** Types of the changed keys and of a time, which is the same for all of them. */
  def changedTypes: Seq[DataType] = keys.map(rows).toSeq :+ LongType

  def changedLayout: RowLayout =
    new RowLayout(changedTypes, keys.indices.toArray, times = Array(keys.length), expiring = Array(0))

  override def layouts: Seq[RowLayout] =
    Seq(new RowLayout(rows, keys, times = Array(time), expiring = Array(0)))

  override def bucketWidths: Seq[Long] = Seq(bucketWidth)

  override def placed: Seq[Placement] = Seq(Placement.ByFields(keys.toSeq))

  override def lateRows: Option[LateRows.Spec] = None

  /** No row is late: each is looked up when it arrives. */
  override def observed: Option[Seq[Option[Long]]] = None

  override def task(of: TaskInputs): BufferingTask =
    new RematchTask(this, of, LookUpTask.begin(lookUps, of.hadoopConf, figures))

  override def count(state: JoinState, report: TaskReport, metrics: TaskMetrics): Unit = {
    metrics("numTotalStateRows") += state.rows
    metrics("payloadBytes") += state.size.payload
    report.add(Side.Left, state.rows, state.payload(Side.Left))
    report.keeps(0, state.lowest(Side.Left, 0))
  }
}

/**
 * Runs one task of a batch, in phases: (1) look up again the buffered rows whose keys were added to
 * the table since the previous batch, and remove those that now match; (2) look up the rows of the
 * batch, and buffer those without a match; (3) evict expired rows.
 *
 * A row is looked up at the version of its own batch when it arrives, and again whenever its key
 * changes, so it misses no version that has a match.
 */
final private[table] class RematchTask(
    spec: RematchTaskSpec,
    inputs: TaskInputs,
    lookUps: LookUpTask
) extends BufferingTask(spec, inputs) {
  private val results = spec.results.inTask(lookUps)
  private val padded = metrics("paddedRows")
  private val removed = metrics("numRemovedStateRows")
  private val rematchedRows = metrics("rematchedRows")

  override def output: Iterator[InternalRow] =
    rematched ++ counted(Side.Left, lookUps.readAhead(inputs.rows.head)).flatMap(takeIn)

  override def finish(): Unit = {
    val expired = state.expired(Side.Left, Array(spec.leaving), unmatched = false)
    while (expired.next()) {}
    removed += expired.evicted
  }

  private def rematched: Iterator[InternalRow] =
    if (state.rows == 0) Iterator.empty
    else
      new RowIterator {
        private val keys = changed
        private lazy val passing = state.passing(spec.changedLayout, Side.Left)
        private var pairs: MatchIterator = _
        private var current: Iterator[InternalRow] = Iterator.empty

        override protected def advance(): InternalRow = {
          while (!current.hasNext && nextPair()) {
            current = results.matches(pairs.otherRow)
            if (current.hasNext) {
              pairs.removeOther()
              rematchedRows += 1
              removed += 1
            }
          }
          if (current.hasNext) current.next() else null
        }

        @tailrec private def nextPair(): Boolean =
          if (pairs != null && pairs.next()) true
          else if (keys.hasNext) {
            pairs = passing.pairs(keys)
            nextPair()
          } else {
            passing.drop()
            false
          }
      }

  /** Each key once: for every key that passes, all buffered rows of that key are looked up. */
  private def changed: Iterator[UnsafeRow] = {
    val time = new GenericInternalRow(Array[Any](0L))
    val both = new JoinedRow
    val withTime = UnsafeProjection.create(spec.changedTypes.toArray)
    val passed = mutable.HashSet.empty[UnsafeRow]
    inputs.rows(1).map(key => withTime(both(key, time))).filterNot(passed.contains).map { key =>
      if (passed.size >= RematchTask.MostKeys) passed.clear()
      passed += key.copy()
      key
    }
  }

  private def takeIn(row: InternalRow): Iterator[InternalRow] = {
    val matches = results.matches(row)
    if (matches.hasNext) matches
    else {
      padded += 1
      if (lookUps.hasKey(row) && !row.isNullAt(spec.time) && row.getLong(spec.time) >= spec.leaving) {
        kept += 1
        buffer(Side.Left, row.asInstanceOf[UnsafeRow])
      }
      results.unmatched(row)
    }
  }
}

private object RematchTask {

  /** The number of remembered keys. A hot key may pass again once there were as many others. */
  private val MostKeys = 1 << 16
}
