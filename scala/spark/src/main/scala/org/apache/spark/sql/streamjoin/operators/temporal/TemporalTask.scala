package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.operators._
import org.apache.spark.sql.streamjoin.state.JoinState

import streamjoin.core.Side

/**
 * The work of one task in one batch, in phases: (1) the left rows come in, and those that are due,
 * with those that waited until now, are put in order; (2) the right rows come in; (3) each due row
 * is looked up among the versions that are kept by time, where some of these may be for it
 * ([[TimedVersions]]); (4) where a version is valid until the next, those that leave are put in
 * order and merged with the rows that have found nothing yet, key by key ([[KeyedVersions]]).
 *
 * What a row meets follows from the rows of its key alone, whenever they came: a row is due once
 * all rows that it may meet are there, and none of these leaves before.
 */
final private[temporal] class TemporalTask(
    spec: TemporalSpec,
    partition: Int,
    leftRows: Iterator[InternalRow],
    rightRows: Iterator[InternalRow],
    state: JoinState,
    metrics: TaskMetrics,
    lateRows: Option[LateRowsWriter]
) extends StateTask {
  private val (left, right) = (spec.inputs.head, spec.inputs(1))
  private val condition = spec.condition.map(Predicate.create(_, left.output ++ right.output))
  private val operations = spec.operation.map(new Operations(_, right))
  private val accumulated =
    new Accumulated(partition, Side.both.map(state.rows).sum, spec.maxAccumulatedRecords)

  private val keyed = Option.when(spec.rule.keepsNewest)(new KeyedVersions(spec, state, isDelete))

  /** Versions that are kept by time after the batch may be for facts that are due in it. */
  private val looksUp = keyed.isEmpty || spec.rule.history > 0

  /** Due facts, until the versions are there. */
  private val facts = SortedRows.byTime(left)

  override def output: Iterator[InternalRow] = takeInFacts ++ lookedUp ++ merged

  override def finish(): Unit = keyed match {
    case Some(versions) => versions.finish()
    case None => evict(_ => ())
  }

  // Facts.

  private def takeInFacts: Iterator[InternalRow] = {
    lazy val waited = state.expired(Side.Left, Array(spec.due), unmatched = true)
    new Rows {
      override protected def advance(): InternalRow = {
        var out: InternalRow = null
        while (out == null && leftRows.hasNext) out = takeIn(leftRows.next().asInstanceOf[UnsafeRow])
        while (out == null && waited.next()) out = due(waited.row)
        if (out == null) metrics.evicted += waited.evicted
        out
      }
    }
  }

  /** What comes out at once, or null. */
  private def takeIn(row: UnsafeRow): InternalRow =
    if (row.isNullAt(left.field)) padded(row)
    else {
      val time = row.getLong(left.field)
      if (time < left.late) {
        drop(Side.Left, row)
        null
      } else if (time < spec.due) due(row)
      else {
        // Without a key it has no match, but it is emitted in its place in the order of time.
        if (spec.isLeftOuter || hasKey(left, row)) keep(Side.Left, row)
        null
      }
    }

  private def due(row: UnsafeRow): InternalRow =
    if (!hasKey(left, row)) padded(row)
    else {
      if (looksUp) facts.add(row) else keyed.get.addFact(row)
      null
    }

  private def hasKey(input: InputSpec, row: UnsafeRow): Boolean = !input.keyFields.exists(row.isNullAt)

  private def keep(side: Side, row: UnsafeRow): Unit = {
    accumulated.add()
    metrics.kept += 1
    state.append(side, row)
  }

  private def drop(side: Side, row: UnsafeRow): Unit = {
    metrics.late += 1
    metrics.lateBySide(side) += 1
    lateRows.foreach(_.add(side, row, 0, spec.inputs(side.index).late))
  }

  // Versions.

  private def takeInVersions(): Unit = {
    rightRows.foreach(row => takeInVersion(row.asInstanceOf[UnsafeRow]))
    keyed.foreach(versions => evict(versions.add))
  }

  /** Versions leave the rows that are kept by time. */
  private def evict(use: UnsafeRow => Unit): Unit = {
    val expired = state.expired(Side.Right, Array(spec.needed), unmatched = keyed.isDefined)
    while (expired.next()) use(expired.row)
    metrics.evicted += expired.evicted
  }

  private def isDelete(row: UnsafeRow): Boolean = operations.exists(_.of(row) == Operation.Delete)

  private def takeInVersion(row: UnsafeRow): Unit =
    if (operations.exists(_.of(row) == Operation.Before)) ()
    else if (row.isNullAt(right.field) || !hasKey(right, row)) metrics.ignored += 1
    else {
      val time = row.getLong(right.field)
      val isTaken = if (time < right.late) takeInPast(row) else { takeInTimed(row, time); true }
      if (isTaken && time < spec.looked) metrics.past += 1
    }

  private def takeInTimed(row: UnsafeRow, time: Long): Unit = keyed match {
    case Some(versions) if time < spec.needed => versions.add(row)
    // It leaves when the batch ends.
    case None if time < spec.needed => state.append(Side.Right, row)
    case _ => keep(Side.Right, row)
  }

  /** No row to come needs it, if it is not the newest of its key. */
  private def takeInPast(row: UnsafeRow): Boolean = {
    val among = keyed.fold[KeyedVersions.Place](KeyedVersions.Past)(_.place(row))
    among match {
      case KeyedVersions.Newest => keyed.foreach(_.add(row))
      case KeyedVersions.Past => drop(Side.Right, row)
      case KeyedVersions.Replaced =>
    }
    among == KeyedVersions.Newest
  }

  // Both.

  /** What is found among the versions that are kept by time; what is not may be found by key. */
  private def lookedUp: Iterator[InternalRow] = new Rows {
    private lazy val sorted = {
      takeInVersions()
      facts.sorted
    }
    private lazy val timed = new TimedVersions(spec, state)

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && sorted.hasNext) {
        val fact = sorted.next()
        val found = timed.met(fact)
        if (found == null && keyed.isDefined) keyed.get.addFact(fact) else out = resultOf(fact, found)
      }
      out
    }
  }

  private def merged: Iterator[InternalRow] =
    keyed.fold[Iterator[InternalRow]](Iterator.empty)(_.merged(resultOf))

  private val joined = new JoinedRow
  private val toOutput =
    UnsafeProjection.create(spec.output, left.output ++ right.output.map(_.withNullability(true)))
  private val nothing = new GenericInternalRow(right.output.size)

  /** @param version the one that is valid for the fact, or null */
  private def resultOf(fact: UnsafeRow, version: UnsafeRow): InternalRow =
    if (version != null && !isDelete(version) && condition.forall(_.eval(joined(fact, version)))) {
      metrics.joined += 1
      toOutput(joined(fact, version))
    } else padded(fact)

  /** A row without a match, or null. */
  private def padded(row: InternalRow): InternalRow =
    if (!spec.isLeftOuter) null
    else {
      metrics.padded += 1
      toOutput(joined(row, nothing))
    }
}
