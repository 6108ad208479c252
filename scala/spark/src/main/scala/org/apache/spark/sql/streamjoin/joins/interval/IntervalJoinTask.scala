package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeRowJoiner
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.streamjoin.evolve.StateStep
import org.apache.spark.sql.streamjoin.operator.{BufferingTask, RowIterator, TaskInputs}
import org.apache.spark.sql.streamjoin.state.MatchIterator

import streamjoin.core.Side

/**
 * The work of one task in one batch, in phases: (1) store the left rows and join them with the
 * right rows in state; (2) store the right rows and join them with the left rows; (3) evict.
 *
 * The law: each pair that satisfies the condition is emitted exactly once, when its later row
 * arrives.
 *   - A pair within a batch: left rows count as earlier arrivals, whatever their times, so ties
 *     need no rule. A left row probes before any right row of the batch is stored; the right row
 *     then finds it in state.
 *   - A pair across batches: the earlier row is still in state, because eviction follows the
 *     watermark that the later row, not being late, has reached ([[streamjoin.core.TimeBound]]).
 *   - A row that expires in its own batch is evicted only after all rows of the batch have been
 *     joined.
 *
 * An unmatched row of a preserved side is padded once: when it is evicted, because from then on any
 * match would be late. A row that can never match is padded immediately and not stored.
 *
 * Idle inputs are the exception: others advance the eviction watermark beyond the idle input's own,
 * so an on-time row of the idle input may find its match evicted.
 */
final private[streamjoin] class IntervalJoinTask(
    spec: IntervalTaskSpec,
    inputs: TaskInputs
) extends BufferingTask(spec, inputs) {
  private val padded = metrics("paddedRows")
  private val evicted = metrics("evictedRows")
  private val removed = metrics("numRemovedStateRows")
  private val timeMs = metrics.bySide("timeMs")
  private val joinType = spec.joinType
  private val satisfies: BasePredicate =
    spec.pair.map(Predicate.create(_, Side.both.flatMap(spec.sides(_).stored))).orNull
  private val pair = new JoinedRow
  private val emit: Emit =
    if (joinType.filtered.isDefined) new EmitLeft(spec)
    else if (spec.sides.values.forall(_.isPlain)) new EmitPlainPairs(spec)
    else new EmitPairs(spec)

  /** The output of the batch. Once it is consumed, call [[finish]] and commit the state. */
  override def output: Iterator[InternalRow] = {
    spec.before.filter(step => counts(step.side)).foreach(take)
    timed(timeMs(Side.Left))(takeIn(Side.Left, inputs.rows.head) ++ pairs(Side.Left)) ++
      timed(timeMs(Side.Right))(takeIn(Side.Right, inputs.rows(1)) ++ pairs(Side.Right)) ++
      timed(metrics("evictTimeMs"), metrics("allRemovalsTimeMs"))(
        Side.both.iterator.flatMap(evict) ++ leaving
      )
  }

  /** Takes a step over the rows in state, in the first batch of a changed query. */
  private def take(step: StateStep): Unit = step match {
    case StateStep.CountAsMatched(side) => state.flagAll(side)
    case StateStep.RemoveMatched(side) => removed += state.removeMatched(side)
  }

  override def finish(): Unit = {
    metrics("joinedRows") += joinedRows
    kept += keptHere - leftAtOnce
  }

  /** Only the task that stores a broadcast row counts it. */
  private def counts(side: Side): Boolean = !state.isReplicated(side)

  /** Stores rows that may have a match. Emits the others, if their side is preserved. */
  private def takeIn(side: Side, input: Iterator[InternalRow]): Iterator[InternalRow] = new RowIterator {
    private val rows = if (counts(side)) counted(side, input) else input
    private val reader = new SideReader(spec.sides(side))

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && rows.hasNext) {
        val row = rows.next()
        if (observer != null && counts(side)) {
          val time = reader.observedTime(row)
          if (time != SideReader.NoTime) observer.came(side, time)
        }
        val lateAt = reader.lateAt(row)
        if (lateAt >= 0) {
          if (counts(side)) dropLate(side, row, lateAt, spec.sides(side).times(lateAt).late)
        } else {
          val stored = reader.toStoredRow(row)
          if (stored != null) keep(side, stored)
          else {
            if (observer != null && counts(side) && reader.hasNullKey(row)) observer.hasNullKey(side)
            if (joinType.pads(side)) {
              padded += 1
              out = emit.unmatched(side, row)
            }
          }
        }
      }
      out
    }
  }

  private def keep(side: Side, row: UnsafeRow): Unit = {
    if (counts(side)) keptHere += 1
    buffer(side, row)
  }

  /** Joins the rows of this batch with the other side in state. */
  private def pairs(side: Side): Iterator[InternalRow] = new RowIterator {
    private lazy val matches = state.matches(side, spec.sides(side).reach)
    private lazy val (left, right) =
      if (side == Side.Left) (matches.ownRow, matches.otherRow) else (matches.otherRow, matches.ownRow)

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && matches.next())
        if (satisfies == null || satisfies.eval(pair(left, right))) out = joined(side, matches, left, right)
      out
    }
  }

  /** The field with the observed time; none if a row has no such time. */
  private val observedField: Map[Side, Option[Int]] = spec.sides.transform { (_, side) =>
    Option.when(side.observedTime >= 0)(side.layout.times(side.observedBound))
  }
  private val (leftTime, rightTime) =
    (observedField(Side.Left).getOrElse(-1), observedField(Side.Right).getOrElse(-1))
  private val measures = observer != null && leftTime >= 0 && rightTime >= 0

  /** Handles a matching pair; returns the row to emit, or null. */
  private def joined(side: Side, matches: MatchIterator, left: UnsafeRow, right: UnsafeRow): InternalRow = {
    if (measures && observer.asksForMatch)
      observer.matched(left.getLong(leftTime), right.getLong(rightTime))
    if (joinType.leavesOnMatch(side)) {
      matches.removeOwn()
      leftAtOnce += 1
    } else if (joinType.pads(side)) matches.flagOwn()
    if (joinType.leavesOnMatch(side.other)) {
      matches.removeOther()
      removed += 1
    } else if (joinType.pads(side.other)) matches.flagOther()
    if (joinType.emitsPairs || joinType.emitsFirstMatch) {
      joinedRows += 1
      emit.joined(left, right)
    } else null
  }

  // Counted locally and added to the metric at the end, because a metric is an accumulator.
  private var joinedRows = 0L
  private var leftAtOnce = 0L
  private var keptHere = 0L

  private def evict(side: Side): Iterator[InternalRow] = new RowIterator {
    private val expired =
      state.expired(side, spec.sides(side).evictionLimits, unmatched = joinType.pads(side))

    override protected def advance(): InternalRow =
      if (expired.next()) {
        padded += 1
        emit.unmatched(side, expired.row)
      } else {
        if (counts(side)) {
          evicted += expired.evicted
          removed += expired.evicted
        }
        null
      }
  }

  /**
   * Rows that were in state before, but can match nothing in this query: Spark's own join keeps
   * rows with a null where the condition needs a value, and a changed query may have another
   * condition on one side. Those of a preserved side are padded here. An index has no place for
   * them.
   */
  private def leaving: Iterator[InternalRow] =
    if (!spec.leaving) Iterator.empty
    else
      Side.both.iterator.flatMap { side =>
        val row = new UnsafeRow(spec.sides(side).output.size)
        state.leaving.take(side).map { bytes =>
          row.pointTo(bytes, bytes.length)
          padded += 1
          emit.unmatched(side, row)
        }
      }

  /** Measures a phase from the first request for a row to its end. */
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

/** Builds output rows from stored ones; each row overwrites the previous one. */
sealed abstract private class Emit {
  def joined(left: UnsafeRow, right: UnsafeRow): InternalRow

  /** Emits an unmatched row, which may not be stored. */
  def unmatched(side: Side, row: InternalRow): InternalRow
}

/** Emits left rows only. */
final private class EmitLeft(spec: IntervalTaskSpec) extends Emit {
  private val left = spec.sides(Side.Left)
  private lazy val project = UnsafeProjection.create(spec.output, left.output)

  override def joined(row: UnsafeRow, right: UnsafeRow): InternalRow = unmatched(Side.Left, row)
  override def unmatched(side: Side, row: InternalRow): InternalRow =
    if (left.isPlain) row else project(row)
}

/** Concatenates the bytes of both rows. */
final private class EmitPlainPairs(spec: IntervalTaskSpec) extends Emit {
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

  override def joined(left: UnsafeRow, right: UnsafeRow): InternalRow = joiner.join(left, right)

  override def unmatched(side: Side, row: InternalRow): InternalRow = {
    val own = row.asInstanceOf[UnsafeRow]
    if (side == Side.Left) joiner.join(own, nulls(1)) else joiner.join(nulls.head, own)
  }
}

/** For stored rows that have more than the columns of their side. */
final private class EmitPairs(spec: IntervalTaskSpec) extends Emit {
  private val pair = new JoinedRow
  // The attributes of the output: unlike those of the input, they are nullable on a side that may
  // be null.
  private val (leftOut, rightOut) = spec.output.splitAt(spec.sides(Side.Left).output.size)
  private val leftStored = leftOut ++ spec.sides(Side.Left).stored.drop(leftOut.size)
  private val rightStored = rightOut ++ spec.sides(Side.Right).stored.drop(rightOut.size)
  private val both = UnsafeProjection.create(spec.output, leftStored ++ rightStored)
  private lazy val storedLeft = UnsafeProjection.create(spec.output, leftStored ++ rightOut)
  private lazy val plain = UnsafeProjection.create(spec.output, leftOut ++ rightOut)
  private val nulls: Seq[InternalRow] =
    Side.both.map(side => new GenericInternalRow(spec.sides(side).output.size))

  override def joined(left: UnsafeRow, right: UnsafeRow): InternalRow = both(pair(left, right))

  override def unmatched(side: Side, row: InternalRow): InternalRow =
    if (side == Side.Right) plain(pair(nulls.head, row))
    else if (row.numFields == leftOut.size) plain(pair(row, nulls(1)))
    else storedLeft(pair(row, nulls(1)))
}
