package org.apache.spark.sql.streamjoin.operators.interval

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.streamjoin.operators.{Accumulated, LateRowsWriter, Rows, StateTask}
import org.apache.spark.sql.streamjoin.state.{JoinState, Matches}

import streamjoin.core.Side

/** What a task counts. */
final private[streamjoin] case class TaskMetrics(
    joined: SQLMetric,
    padded: SQLMetric,
    late: SQLMetric,
    lateBySide: Map[Side, SQLMetric],
    evicted: SQLMetric,
    removed: SQLMetric,
    kept: SQLMetric,
    timeMs: Map[Side, SQLMetric],
    evictTimeMs: SQLMetric,
    removalsTimeMs: SQLMetric
)

/**
 * The work of one task in one batch, in phases: (1) the left rows are stored, and joined with those
 * of the other side; (2) the right rows likewise; (3) eviction.
 *
 * Each pair that satisfies the condition is emitted exactly once. A right row finds the left rows
 * of its own batch in the state, for those came first; a left row finds the right rows of earlier
 * batches only. A pair whose rows come in different batches is found because eviction follows the
 * watermark that the later row is not below (see [[streamjoin.core.TimeBound]]). And a row that
 * expires in its own batch is kept until the batch has seen it all.
 */
final private[streamjoin] class JoinTask(
    spec: TaskSpec,
    partition: Int,
    left: Iterator[InternalRow],
    right: Iterator[InternalRow],
    state: JoinState,
    metrics: TaskMetrics,
    lateRows: Option[LateRowsWriter]
) extends StateTask {
  private val joinType = spec.joinType
  private val satisfies: BasePredicate = spec.pair
    .map(Predicate.create(_, Side.both.flatMap(spec.sides(_).stored)))
    .orNull
  private val pair = new JoinedRow
  private val emit: Emit =
    if (joinType.filtered.isDefined) new EmitLeft(spec)
    else if (spec.sides.values.forall(_.isPlain)) new EmitPlainPairs(spec)
    else new EmitPairs(spec)

  /**
   * Rows in the buffers now and earlier in this batch: what leaves within a batch still counts,
   * whatever the order.
   */
  private val accumulated =
    new Accumulated(partition, Side.both.map(state.rows).sum, spec.maxAccumulatedRecords)

  /**
   * The output of the batch. When it is used up, [[finish]], and the state is ready to be
   * committed.
   */
  override def output: Iterator[InternalRow] =
    timed(metrics.timeMs(Side.Left))(takeIn(Side.Left, left) ++ meet(Side.Left)) ++
      timed(metrics.timeMs(Side.Right))(takeIn(Side.Right, right) ++ meet(Side.Right)) ++
      timed(metrics.evictTimeMs, metrics.removalsTimeMs)(Side.both.iterator.flatMap(evict))

  override def finish(): Unit = {
    metrics.joined += joined
    metrics.kept += came - leftAtOnce
  }

  /** A row that comes to every task is counted where it is kept. */
  private def counts(side: Side): Boolean = !state.isGuest(side)

  /**
   * Rows that may have a match go into the state; the others are emitted, if their side is
   * preserved.
   */
  private def takeIn(side: Side, rows: Iterator[InternalRow]): Iterator[InternalRow] = new Rows {
    private val reader = new SideReader(spec.sides(side))

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && rows.hasNext) {
        val row = rows.next()
        val lateAt = reader.lateAt(row)
        if (lateAt >= 0) {
          if (counts(side)) dropped(side, row, lateAt)
        } else {
          val stored = reader.meeting(row)
          if (stored != null) keep(side, stored)
          else if (joinType.pads(side)) {
            metrics.padded += 1
            out = emit.unmet(side, row)
          }
        }
      }
      out
    }
  }

  private def dropped(side: Side, row: InternalRow, at: Int): Unit = {
    metrics.late += 1
    metrics.lateBySide(side) += 1
    lateRows.foreach(_.add(side, row, at, spec.sides(side).late(at)))
  }

  private def keep(side: Side, row: UnsafeRow): Unit = {
    accumulated.add()
    if (counts(side)) came += 1
    state.append(side, row)
  }

  /** The rows of this batch with those of the other side. */
  private def meet(side: Side): Iterator[InternalRow] = new Rows {
    private lazy val matches = state.matches(side, spec.sides(side).reach)
    private lazy val (left, right) =
      if (side == Side.Left) (matches.ownRow, matches.otherRow) else (matches.otherRow, matches.ownRow)

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && matches.next())
        if (satisfies == null || satisfies.eval(pair(left, right))) out = met(side, matches, left, right)
      out
    }
  }

  /** Two rows that match; what is emitted, or null. */
  private def met(side: Side, matches: Matches, left: UnsafeRow, right: UnsafeRow): InternalRow = {
    if (joinType.leavesOnMatch(side)) {
      matches.removeOwn()
      leftAtOnce += 1
    } else if (joinType.pads(side)) matches.flagOwn()
    if (joinType.leavesOnMatch(side.other)) {
      matches.removeOther()
      metrics.removed += 1
    } else if (joinType.pads(side.other)) matches.flagOther()
    if (joinType.emitsPairs || joinType.emitsFirstMatch) {
      joined += 1
      emit.met(left, right)
    } else null
  }

  // Counted here and added up at the end, for a metric is an accumulator.
  private var joined = 0L
  private var leftAtOnce = 0L
  private var came = 0L

  private def evict(side: Side): Iterator[InternalRow] = new Rows {
    private val expired =
      state.expired(side, spec.sides(side).evictionLimits.toArray, unmatched = joinType.pads(side))

    override protected def advance(): InternalRow =
      if (expired.next()) {
        metrics.padded += 1
        emit.unmet(side, expired.row)
      } else {
        if (counts(side)) {
          metrics.evicted += expired.evicted
          metrics.removed += expired.evicted
        }
        null
      }
  }

  /** Counts the time from the first look at a phase to its end. */
  private def timed(counters: SQLMetric*)(rows: => Iterator[InternalRow]): Iterator[InternalRow] =
    new Iterator[InternalRow] {
      private lazy val begun = System.nanoTime()
      private lazy val phase = { begun: Unit; rows }
      private var ended = false

      override def hasNext: Boolean = {
        val more = phase.hasNext
        if (!more && !ended) {
          ended = true
          counters.foreach(_ += (System.nanoTime() - begun) / 1000000)
        }
        more
      }

      override def next(): InternalRow = phase.next()
    }
}

/** Makes rows of the output from stored ones; each overwrites the one before. */
sealed abstract private class Emit {
  def met(left: UnsafeRow, right: UnsafeRow): InternalRow

  /** An unmatched row; it may be one that is not stored. */
  def unmet(side: Side, row: InternalRow): InternalRow
}

/** Only rows of the left side are emitted. */
final private class EmitLeft(spec: TaskSpec) extends Emit {
  private val left = spec.sides(Side.Left)
  private lazy val project = UnsafeProjection.create(spec.output, left.output)

  override def met(row: UnsafeRow, right: UnsafeRow): InternalRow = unmet(Side.Left, row)
  override def unmet(side: Side, row: InternalRow): InternalRow =
    if (left.isPlain) row else project(row)
}

/** Both rows side by side, byte for byte. */
final private class EmitPlainPairs(spec: TaskSpec) extends Emit {
  private val schemas = Side.both.map(side => DataTypeUtils.fromAttributes(spec.sides(side).output))
  private val joiner = GenerateUnsafeRowJoiner.create(schemas.head, schemas(1))
  private val nulls: Seq[UnsafeRow] = schemas.map { schema =>
    val row = UnsafeRow.createFromByteArray(
      UnsafeRow.calculateBitSetWidthInBytes(schema.size) + 8 * schema.size,
      schema.size
    )
    schema.indices.foreach(row.setNullAt)
    row
  }

  override def met(left: UnsafeRow, right: UnsafeRow): InternalRow = joiner.join(left, right)

  override def unmet(side: Side, row: InternalRow): InternalRow = {
    val own = row.asInstanceOf[UnsafeRow]
    if (side == Side.Left) joiner.join(own, nulls(1)) else joiner.join(nulls.head, own)
  }
}

/** Where a stored row has more than the columns of its side. */
final private class EmitPairs(spec: TaskSpec) extends Emit {
  private val pair = new JoinedRow
  // As output, not as input: there a side that can be padded is nullable.
  private val (leftOut, rightOut) = spec.output.splitAt(spec.sides(Side.Left).output.size)
  private val leftStored = leftOut ++ spec.sides(Side.Left).stored.drop(leftOut.size)
  private val rightStored = rightOut ++ spec.sides(Side.Right).stored.drop(rightOut.size)
  private val both = UnsafeProjection.create(spec.output, leftStored ++ rightStored)
  private lazy val storedLeft = UnsafeProjection.create(spec.output, leftStored ++ rightOut)
  private lazy val plain = UnsafeProjection.create(spec.output, leftOut ++ rightOut)
  private val nulls: Seq[InternalRow] =
    Side.both.map(side => new GenericInternalRow(spec.sides(side).output.size))

  override def met(left: UnsafeRow, right: UnsafeRow): InternalRow = both(pair(left, right))

  override def unmet(side: Side, row: InternalRow): InternalRow =
    if (side == Side.Right) plain(pair(nulls.head, row))
    else if (row.numFields == leftOut.size) plain(pair(row, nulls(1)))
    else storedLeft(pair(row, nulls(1)))
}
