package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.operators._
import org.apache.spark.sql.streamjoin.state.{JoinState, RowLayout, VersionTable}
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.collection.BitSet

import streamjoin.core.{AsOf, Side, Watermark}

/**
 * The work of one task in one batch, in phases: (1) the left rows come in, and those that are due,
 * with those that waited until now, are put in order; (2) the right rows come in, and those that a
 * due row may meet, or that no later one will, are put in order; (3) the two are merged, key by
 * key.
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
  private val table: Option[VersionTable] =
    Option.when(spec.rule.keepsNewest)(state.versionTable(right.keys.size, right.output.size))
  private val accumulated =
    new Accumulated(partition, Side.both.map(state.rows).sum + state.keys, spec.maxAccumulatedRecords)

  private val facts = new KeyedRows(left, KeyedRows.by(left, Nil))
  private val factKeys = new FactKeys(left, right)
  private val versions = new KeyedRows(right, laterOfOneTime)

  override def output: Iterator[InternalRow] = takeInFacts ++ merged

  override def finish(): Unit = ()

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
      facts.add(row)
      factKeys.add(row)
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
    val expired = state.expired(Side.Right, Array(spec.needed), unmatched = true)
    while (expired.next()) offer(expired.row)
    metrics.evicted += expired.evicted
    factKeys.reach(spec.rule).foreach { case (from, to) => state.between(Side.Right, from, to)(offerNeeded) }
  }

  private def isDelete(row: UnsafeRow): Boolean = operations.exists(_.of(row) == Operation.Delete)

  private def laterOfOneTime: Ordering[InternalRow] = {
    val (before, after) = spec.ties.span(column => !spec.operation.exists(_.exprId == column.exprId))
    val deletesFirst: Ordering[InternalRow] = Ordering.by(row => !isDelete(row.asInstanceOf[UnsafeRow]))
    KeyedRows.by(right, before).orElse(deletesFirst).orElse(KeyedRows.by(right, after.drop(1)))
  }

  private def takeInVersion(row: UnsafeRow): Unit =
    if (operations.exists(_.of(row) == Operation.Before)) ()
    else if (row.isNullAt(right.field)) metrics.ignored += 1
    else {
      val time = row.getLong(right.field)
      if (time < right.late) drop(Side.Right, row)
      else if (!hasKey(right, row)) metrics.ignored += 1
      else if (time < spec.needed) offer(row)
      else keep(Side.Right, row)
    }

  /** A version that leaves the rows that are kept by time. */
  private def offer(row: UnsafeRow): Unit = if (table.isDefined) versions.add(row) else offerNeeded(row)

  private def offerNeeded(row: UnsafeRow): Unit = if (factKeys.mayHave(row)) versions.add(row)

  // Both.

  private def merged: Iterator[InternalRow] = new Rows {
    private lazy val (sorted, known) = {
      takeInVersions()
      (facts.sorted, new VersionsOfKey(spec, versions.sorted, isDelete, table.orNull))
    }

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && sorted.hasNext) {
        val fact = sorted.next()
        out = resultOf(fact, known.met(fact))
      }
      if (out == null) known.finish()
      out
    }
  }

  private val joined = new JoinedRow
  private val toOutput =
    UnsafeProjection.create(spec.output, left.output ++ right.output.map(_.withNullability(true)))
  private val nothing = new GenericInternalRow(right.output.size)

  private def resultOf(fact: UnsafeRow, version: UnsafeRow): InternalRow =
    if (version != null && condition.forall(_.eval(joined(fact, version)))) {
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

/** What the rows of the right input are. */
final private class Operations(column: Attribute, input: InputSpec) {
  private val field = input.output.indexWhere(_.exprId == column.exprId)

  def of(row: UnsafeRow): Operation = {
    def unknown(seen: String) = StreamJoinErrors.runtime(
      "STREAMJOIN_OPERATION",
      "arrangement" -> s"the versions in ${column.name}",
      "operation" -> seen,
      "known" -> Operation.spellings.flatMap(_._2).mkString(", ")
    )
    if (row.isNullAt(field)) throw unknown("null")
    val name = row.getUTF8String(field)
    var operation = seen.get(name)
    if (operation == null) {
      operation = Operation.of(name.toString).getOrElse(throw unknown(s"\"$name\""))
      seen.put(name.copy(), operation)
    }
    operation
  }

  /** By how it is spelled. */
  private val seen = new java.util.HashMap[UTF8String, Operation]
}

/** The keys and times of the facts that are due, as far as they tell which versions matter. */
final private class FactKeys(facts: InputSpec, versions: InputSpec) {
  import FactKeys.Bits

  private val (ofFacts, ofVersions) = (facts.layout, versions.layout)
  private val hashes = new BitSet(Bits)
  private var (first, last) = (Long.MaxValue, Long.MinValue)

  def add(row: UnsafeRow): Unit = {
    hashes.set(bit(ofFacts, row))
    val time = row.getLong(facts.field)
    first = math.min(first, time)
    last = math.max(last, time)
  }

  /** A version may have the key of a fact. */
  def mayHave(version: UnsafeRow): Boolean = hashes.get(bit(ofVersions, version))

  private def bit(layout: RowLayout, row: UnsafeRow): Int =
    layout.hash(row.getBaseObject, row.getBaseOffset) & (Bits - 1)

  /** Between which times versions may be met. */
  def reach(rule: AsOf): Option[(Long, Long)] = Option.when(first <= last) {
    (Watermark.postponed(first, rule.behind), Watermark.postponed(last, -rule.ahead))
  }
}

private object FactKeys {
  private val Bits = 1 << 20
}
