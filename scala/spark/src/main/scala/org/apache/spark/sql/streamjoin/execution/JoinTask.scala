package org.apache.spark.sql.streamjoin.execution

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.streamjoin.StreamJoinErrors
import org.apache.spark.sql.streamjoin.state.{JoinState, KeptRow}
import org.apache.spark.sql.streamjoin.watermark.WatermarkLineage

import streamjoin.core.{JoinType, Left, Right, Side, TimeBounds}

/**
 * One side of the join, for the tasks: data, and the same for both.
 *
 * @param times
 *   the event-time columns, by position
 * @param keyed
 *   the watermark keys of those columns
 * @param bounded
 *   the positions of the columns that a time bound keeps: the times of a row that is kept, in this order
 * @param needed
 *   the positions of all columns in a bound: with a null in one of them a row meets nobody
 */
final private[streamjoin] case class SideSpec(
    side: Side,
    output: Seq[Attribute],
    keys: Seq[Expression],
    times: Seq[Attribute],
    keyed: Seq[Int],
    bounded: Seq[Int],
    needed: Seq[Int],
    only: Option[Expression]
)

/** What each task of a batch does; it has all that is needed, in numbers. */
final private[streamjoin] case class TaskSpec(
    joinType: JoinType,
    sides: Map[Side, SideSpec],
    bounds: TimeBoundNumbers,
    pair: Option[Expression],
    output: Seq[Attribute],
    late: IndexedSeq[Long],
    eviction: IndexedSeq[Long],
    maxAccumulatedRecords: Long
)

/** The bounds of a join as plain numbers: `(out key, in key, postpone in microseconds)`. */
final private[streamjoin] case class TimeBoundNumbers(bounds: Seq[(Int, Int, Long)])

private[streamjoin] object TimeBoundNumbers {
  def of(bounds: TimeBounds): TimeBoundNumbers =
    TimeBoundNumbers(bounds.tightest.map(bound => (bound.out, bound.in, bound.postpone)))
}

/** Reads a row of a side: its key, its times, whether it is late, whether it can meet anybody. */
final private[streamjoin] class SideReader(spec: SideSpec, late: IndexedSeq[Long]) {
  private val keyOf = UnsafeProjection.create(spec.keys, spec.output)
  private val only = spec.only.map(Predicate.create(_, spec.output))
  private val ordinals = spec.times.map(time => spec.output.indexWhere(_.exprId == time.exprId)).toArray
  private val windows = spec.times.map(WatermarkLineage.isWindow).toArray
  private val lateBelow = spec.keyed.map(late).toArray
  private val bounded = spec.bounded.toArray
  private val needed = spec.needed.toArray

  /** A window counts for the last instant in it. */
  private def time(row: InternalRow, position: Int): Long =
    if (windows(position)) row.getStruct(ordinals(position), 2).getLong(1) - 1
    else row.getLong(ordinals(position))

  private def isNull(row: InternalRow, position: Int): Boolean = row.isNullAt(ordinals(position))

  def isLate(row: InternalRow): Boolean =
    lateBelow.indices.exists(at => !isNull(row, at) && time(row, at) < lateBelow(at))

  /** The key, overwritten by the next call; null if the row can meet nobody. */
  def matchKey(row: InternalRow): UnsafeRow =
    if (needed.exists(isNull(row, _)) || only.exists(!_.eval(row))) null
    else {
      val key = keyOf(row)
      if (key.anyNull) null else key
    }

  /** The times in a row's bounds, by position. */
  def timeAt(row: InternalRow, position: Int): Long = time(row, position)

  def kept(row: UnsafeRow, key: UnsafeRow): KeptRow =
    new KeptRow(spec.side, key.copy(), row, bounded.map(time(row, _)))

  /** A row that was in the store, as it was when it was kept. */
  def restored(row: UnsafeRow): KeptRow =
    new KeptRow(spec.side, keyOf(row).copy(), row, bounded.map(time(row, _)))
}

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
 * The work of one task in one batch, in phases: (1) the left rows, (2) the right rows, each against what the other side has,
 * (3) eviction.
 *
 * Each pair that satisfies the condition comes out exactly once. A right row finds the left rows of its own batch in the
 * state, for those came first; a left row finds the right rows of earlier batches only. A pair whose rows come in
 * different batches meets because eviction follows the watermark that the later row is not below (see
 * [[streamjoin.core.TimeBound]]). And a row that expires in its own batch is kept until the batch has seen it all.
 */
final private[streamjoin] class JoinTask(
    spec: TaskSpec,
    partition: Int,
    state: JoinState,
    metrics: TaskMetrics
) {
  private val readers = Side.both.map(side => side -> new SideReader(spec.sides(side), spec.late)).toMap
  private val satisfies: InternalRow => Boolean = spec.pair match {
    case Some(condition) =>
      val predicate = Predicate.create(condition, Side.both.flatMap(spec.sides(_).output))
      predicate.eval
    case None => _ => true
  }
  private val pair = new JoinedRow
  private val nulls: Map[Side, InternalRow] =
    Side.both.map(side => side -> new GenericInternalRow(spec.sides(side).output.size)).toMap
  private val project =
    if (spec.joinType.filtered.isDefined) UnsafeProjection.create(spec.output, spec.sides(Left).output)
    else {
      // As output, not as input: there a side that can come out padded is nullable.
      UnsafeProjection.create(spec.output, spec.output)
    }

  /** Rows in the buffers now and earlier in this batch: what leaves within a batch still counts, whatever the order. */
  private var accumulated = Side.both.map(state.rows).sum

  /** The output of the batch. When it is used up, the state is ready to be committed. */
  def run(left: Iterator[InternalRow], right: Iterator[InternalRow]): Iterator[InternalRow] =
    timed(metrics.timeMs(Left))(left.flatMap(take(Left, _))) ++
      timed(metrics.timeMs(Right))(right.flatMap(take(Right, _))) ++
      timed(metrics.evictTimeMs, metrics.removalsTimeMs)(Side.both.iterator.flatMap(evict))

  private def take(side: Side, row: InternalRow): Iterator[InternalRow] = {
    val reader = readers(side)
    if (reader.isLate(row)) {
      metrics.late += 1
      metrics.lateBySide(side) += 1
      Iterator.empty
    } else {
      val key = reader.matchKey(row)
      if (key == null) {
        if (spec.joinType.pads(side)) Iterator.single(alone(side, row)) else Iterator.empty
      } else meet(side, reader.kept(row.asInstanceOf[UnsafeRow], key), row)
    }
  }

  /** The row with those of the other side, and then its own way into the state. */
  private def meet(side: Side, arriving: KeptRow, row: InternalRow): Iterator[InternalRow] = {
    val partners = candidates(side, row, arriving.key).filter { partner =>
      satisfies(both(side, row, partner.row))
    }
    val once = if (spec.joinType.leavesOnMatch(side)) partners.take(1) else partners
    once.flatMap { partner =>
      arriving.matched = true
      if (spec.joinType.leavesOnMatch(side.other)) {
        state.remove(partner)
        metrics.removed += 1
      } else if (spec.joinType.pads(side.other)) state.markMatched(partner)
      if (spec.joinType.emitsPairs) {
        metrics.joined += 1
        Iterator.single(project(both(side, row, partner.row)))
      } else if (spec.joinType.emitsFirstMatch) {
        metrics.joined += 1
        Iterator.single(project(if (side == Left) row else partner.row))
      } else Iterator.empty
    } ++ keep(side, arriving)
  }

  private def keep(side: Side, arriving: KeptRow): Iterator[InternalRow] = {
    if (!(arriving.matched && spec.joinType.leavesOnMatch(side))) {
      accumulated += 1
      if (accumulated >= spec.maxAccumulatedRecords)
        throw StreamJoinErrors.runtime(
          "STREAMJOIN_MAX_ACCUMULATED_RECORDS",
          "partition" -> partition.toString,
          "cap" -> spec.maxAccumulatedRecords.toString
        )
      metrics.kept += 1
      state.append(arriving.durable)
    }
    Iterator.empty
  }

  private val first: Map[Side, Int] = Side.both.map(side => side -> spec.sides(side).bounded.head).toMap

  /** The rows of the other side with the key that the bounds allow. */
  private def candidates(side: Side, row: InternalRow, key: UnsafeRow): Iterator[KeptRow] = {
    val own = spec.sides(side)
    val others = spec.sides(side.other)
    val target = others.keyed(first(side.other))
    def position(watermarkKey: Int): Int = own.keyed.indexOf(watermarkKey)
    var from = Long.MinValue
    var to = Long.MaxValue
    spec.bounds.bounds.foreach { case (out, in, postpone) =>
      if (out == target) from = math.max(from, minus(readers(side).timeAt(row, position(in)), postpone))
      if (in == target) to = math.min(to, minus(readers(side).timeAt(row, position(out)), -postpone))
    }
    state.probe(side.other, key, 0, from, to)
  }

  /** The ends of the range hold. */
  private def minus(time: Long, constant: Long): Long = {
    val result = time - constant
    if (((time ^ constant) & (time ^ result)) < 0) { if (constant > 0) Long.MinValue else Long.MaxValue }
    else result
  }

  private def evict(side: Side): Iterator[InternalRow] =
    spec.sides(side).bounded.indices.iterator.flatMap { at =>
      state.evict(side, at, limit(spec.sides(side).keyed(spec.sides(side).bounded(at)))).flatMap { expired =>
        metrics.evicted += 1
        metrics.removed += 1
        if (!expired.matched && spec.joinType.pads(side)) Iterator.single(alone(side, expired.row))
        else Iterator.empty
      }
    }

  /** The watermark state of a key, as [[streamjoin.core.TimeBounds.state]] has it. */
  private def limit(key: Int): Long = spec.eviction(key)

  private def alone(side: Side, row: InternalRow): InternalRow = {
    metrics.padded += 1
    if (spec.joinType.filtered.isDefined) project(row) else project(both(side, row, nulls(side.other)))
  }

  private def both(side: Side, row: InternalRow, other: InternalRow): InternalRow =
    if (side == Left) pair(row, other) else pair(other, row)

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
