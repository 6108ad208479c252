package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.operator.{BufferingTask, RowIterator, StoredColumns, TaskInputs}

import streamjoin.core.{Operation, Side}

/**
 * Runs one task of a batch, in phases: (1) read the left rows, and sort those that are due together
 * with those that waited until now; (2) read the right rows; (3) look up each due row among the
 * versions buffered by time, if these may have its match ([[TimedVersions]]); (4) if a version is
 * valid until the next, sort the versions that leave the buffer, and merge them, key by key, with
 * the rows that are still unmatched ([[KeyedVersions]]).
 *
 * The match of a row depends only on the rows of its key, not on when they arrived: a row is due
 * once all rows that it may join have arrived, and none of them is evicted earlier.
 */
final private[temporal] class TemporalTask(
    spec: TemporalTaskSpec,
    inputs: TaskInputs
) extends BufferingTask(spec, inputs) {
  private val leftRows = counted(Side.Left, inputs.rows.head)
  private val rightRows = counted(Side.Right, inputs.rows(1))
  private val joinedRows = metrics("joinedRows")
  private val paddedRows = metrics("paddedRows")
  private val evicted = metrics("numRemovedStateRows")
  private val ignored = metrics("ignoredVersions")
  private val past = metrics("pastVersions")
  private val unknownValues = metrics("unavailableValues")
  private val (left, right) = (spec.inputs.head, spec.inputs(1))
  private val pair = StoredColumns.of(left.output ++ right.output)
  private val condition = spec.condition.map(Predicate.create(_, pair))
  private val operations = spec.operation.map(new OperationColumn(_, right))

  private val values =
    for (known <- operations; text <- spec.unavailable) yield new VersionValues(text, spec, known.of)

  private val keyed = Option.when(spec.rule.keepsNewest)(new KeyedVersions(spec, state, isDelete, values))

  /** Whether due facts may join versions that stay buffered after the batch. */
  private val looksUp = keyed.isEmpty || spec.rule.history > 0

  /** Due facts, until the versions have been read. */
  private val facts = SortedRows.byTime(left)

  override def output: Iterator[InternalRow] = takeInFacts ++ lookedUp ++ merged

  override def finish(): Unit = keyed match {
    case Some(versions) => versions.finish()
    case None => evict(_ => ())
  }

  // Facts.

  private def takeInFacts: Iterator[InternalRow] = {
    lazy val waited = state.expired(Side.Left, Array(spec.due), unmatched = true)
    new RowIterator {
      override protected def advance(): InternalRow = {
        var out: InternalRow = null
        while (out == null && leftRows.hasNext) out = takeIn(leftRows.next().asInstanceOf[UnsafeRow])
        while (out == null && waited.next()) out = due(waited.row)
        if (out == null) evicted += waited.evicted
        out
      }
    }
  }

  /** The row to emit immediately, or null. */
  private def takeIn(row: UnsafeRow): InternalRow =
    if (row.isNullAt(left.field)) padded(row)
    else {
      val time = row.getLong(left.field)
      if (observer != null) observer.came(Side.Left, time)
      if (time < left.late) {
        dropLate(Side.Left, row, 0, spec.inputs(Side.Left.index).late)
        null
      } else if (time < spec.due) due(row)
      else {
        // Without a key it has no match, but it is still emitted in the order of time.
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
    kept += 1
    buffer(side, row)
  }

  // Versions.

  private def takeInVersions(): Unit = {
    rightRows.foreach(row => takeInVersion(row.asInstanceOf[UnsafeRow]))
    keyed.foreach(versions => evict(versions.add))
  }

  /** Evicts versions from the buffer. */
  private def evict(use: UnsafeRow => Unit): Unit = {
    val expired = state.expired(Side.Right, Array(spec.needed), unmatched = keyed.isDefined)
    while (expired.next()) use(expired.row)
    evicted += expired.evicted
  }

  private def isDelete(row: UnsafeRow): Boolean = operations.exists(_.of(row).ends)

  private def takeInVersion(row: UnsafeRow): Unit =
    if (operations.exists(_.isTombstone(row))) ignored += 1
    else {
      // First, because a truncation of the table has no key.
      val operation = operations.map(_.of(row))
      if (spec.primaryKey.exists(row.isNullAt)) {
        // Such a change concerns no row of the table.
        ignored += 1
        inputs.lateRows.foreach(_.addUnknown(row, Side.Right))
      } else if (!hasKey(right, row)) ignored += 1
      else if (row.isNullAt(right.field)) {
        if (operation.contains(Operation.Delete)) throw operations.get.withoutTime(right)
        ignored += 1
      } else {
        // A row before an update usually ends nothing: it adds nothing to the update itself.
        val counts = !operation.contains(Operation.Before)
        val time = row.getLong(right.field)
        if (observer != null) observer.came(Side.Right, time)
        val isTaken =
          if (time < right.late) takeInPast(row, counts)
          else {
            takeInTimed(row, time)
            true
          }
        if (counts && isTaken && time < spec.looked) past += 1
      }
    }

  private def takeInTimed(row: UnsafeRow, time: Long): Unit = keyed match {
    case Some(versions) if time < spec.needed => versions.add(row)
    // Evicted at the end of the batch.
    case None if time < spec.needed => state.append(Side.Right, row)
    case _ => keep(Side.Right, row)
  }

  /** Future rows need such a version only if it is the newest of its key. */
  private def takeInPast(row: UnsafeRow, counts: Boolean): Boolean = {
    val among = keyed.fold[KeyedVersions.Place](KeyedVersions.Past)(_.place(row))
    among match {
      case KeyedVersions.Newest => keyed.foreach(_.add(row))
      case KeyedVersions.Past => if (counts) dropLate(Side.Right, row, 0, spec.inputs(Side.Right.index).late)
      case KeyedVersions.Replaced =>
    }
    among == KeyedVersions.Newest
  }

  // Join.

  /** Fills in values of buffered versions, if due facts may join them. */
  private lazy val previous = values.filter(_ => looksUp).map(new PreviousVersions(spec, state, _))

  /**
   * Finds matches in the buffer of versions. The other facts may still find a version by key, or
   * values for their version.
   */
  private def lookedUp: Iterator[InternalRow] = new RowIterator {
    private lazy val timed = {
      takeInVersions()
      new TimedVersions(spec, state, facts.sorted)
    }

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && timed.next()) {
        val version = previous.fold(timed.version)(_.withValues(timed.fact, timed.version))
        if (version == null && keyed.isDefined) keyed.get.addFact(timed.fact)
        else out = resultOf(timed.fact, version)
      }
      out
    }
  }

  private def merged: Iterator[InternalRow] =
    keyed.fold[Iterator[InternalRow]](Iterator.empty)(_.merged { (fact, version) =>
      resultOf(fact, previous.fold(version)(_.withOldest(fact, version)))
    })

  private val joined = new JoinedRow
  private val toOutput = UnsafeProjection.create(spec.output, pair)
  private val nothing = new GenericInternalRow(right.output.size)

  /** @param version version that is valid for the fact, or null */
  private def resultOf(fact: UnsafeRow, found: UnsafeRow): InternalRow = {
    val version =
      if (found == null || isDelete(found)) found
      else values.fold(found)(_.known(found, () => unknownValues += 1))
    if (version != null && !isDelete(version) && condition.forall(_.eval(joined(fact, version)))) {
      joinedRows += 1
      if (observer != null && observer.asksForMatch)
        observer.matched(fact.getLong(left.field), version.getLong(right.field))
      toOutput(joined(fact, version))
    } else padded(fact)
  }

  /** An unmatched row padded with nulls; null if the join is inner. */
  private def padded(row: InternalRow): InternalRow =
    if (!spec.isLeftOuter) null
    else {
      paddedRows += 1
      toOutput(joined(row, nothing))
    }
}
