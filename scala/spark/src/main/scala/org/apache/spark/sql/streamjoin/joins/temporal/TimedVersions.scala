package org.apache.spark.sql.streamjoin.joins.temporal

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.state.JoinState

import streamjoin.core.{AsOf, Side, Watermark}

/**
 * Finds the versions for facts among the versions buffered by time: for each fact separately while
 * all of these versions are in memory, otherwise for many facts at once.
 *
 * @param facts
 *   by time; a fact is valid until the next one is read
 */
final private[temporal] class TimedVersions(
    spec: TemporalTaskSpec,
    state: JoinState,
    facts: Iterator[UnsafeRow]
) {
  import TimedVersions._

  private val (left, right) = (spec.inputs.head, spec.inputs(1))
  private val rows =
    state.closest(Side.Right, left.layout, SortedRows.byTime(right, spec.laterOfOneTime))
  private val kept = new UnsafeRow(right.output.size)

  /** Facts that were looked up together, with their versions. */
  private var together: Iterator[(UnsafeRow, UnsafeRow)] = Iterator.empty

  /**
   * The current fact and its version, which is the closest under the rule, or null. Valid until the
   * next call.
   */
  var fact: UnsafeRow = _
  var version: UnsafeRow = _

  /** Advances to the next fact, if there is one. */
  def next(): Boolean = {
    if (!together.hasNext && facts.hasNext && rows.isBeyondMemory) together = lookTogether()
    if (together.hasNext) {
      val (asked, found) = together.next()
      fact = asked
      version = found
      true
    } else if (facts.hasNext) {
      fact = facts.next()
      version = versionOf(fact)
      true
    } else false
  }

  private def versionOf(fact: UnsafeRow): UnsafeRow = {
    val at = time(fact)
    spec.rule.direction match {
      case AsOf.Backward => rows.last(fact, earliest(at), latestBefore(at))
      case AsOf.Forward => rows.first(fact, firstAfter(at, spec.rule.allowsExact), latest(at))
      case AsOf.Nearest =>
        val last = rows.last(fact, earliest(at), latestBefore(at))
        if (last == null) rows.first(fact, firstAfter(at, exact = false), latest(at))
        else {
          kept.pointTo(last.getBaseObject, last.getBaseOffset, last.getSizeInBytes)
          closer(at, kept, rows.first(fact, firstAfter(at, exact = false), latest(at)))
        }
    }
  }

  /** The next facts, as many as fit into memory. */
  private def lookTogether(): Iterator[(UnsafeRow, UnsafeRow)] = {
    val block = mutable.ArrayBuffer.empty[UnsafeRow]
    var room = rows.room
    while (facts.hasNext && (block.isEmpty || room > 0)) {
      val fact = facts.next().copy()
      block += fact
      room -= fact.getSizeInBytes + rows.rowBytes + FactBytes
    }
    def before() = {
      val asked = block.map(fact => new rows.Asked(fact, earliest(time(fact)), latestBefore(time(fact))))
      asked.toArray
    }
    def after(exact: Boolean) = {
      val asked = block.map(fact => new rows.Asked(fact, firstAfter(time(fact), exact), latest(time(fact))))
      asked.toArray
    }
    spec.rule.direction match {
      case AsOf.Backward =>
        val asked = before()
        rows.last(asked)
        asked.iterator.map(one => (one.row, one.found))
      case AsOf.Forward =>
        val asked = after(spec.rule.allowsExact)
        rows.first(asked)
        asked.iterator.map(one => (one.row, one.found))
      case AsOf.Nearest =>
        val (lasts, firsts) = (before(), after(exact = false))
        rows.last(lasts)
        rows.first(firsts)
        lasts.iterator.zip(firsts.iterator).map { case (last, first) =>
          (last.row, if (last.found == null) first.found else closer(time(last.row), last.found, first.found))
        }
    }
  }

  private def time(fact: UnsafeRow): Long = fact.getLong(left.field)

  private def closer(at: Long, last: UnsafeRow, next: UnsafeRow): UnsafeRow =
    if (next != null && AsOf.isNextCloser(at, last.getLong(right.field), next.getLong(right.field))) next
    else last

  private def earliest(at: Long): Long = Watermark.postponed(at, spec.rule.behind)

  private def latestBefore(at: Long): Long = if (spec.rule.allowsExact) at else Watermark.postponed(at, 1)

  private def firstAfter(at: Long, exact: Boolean): Long = if (exact) at else Watermark.postponed(at, -1)

  private def latest(at: Long): Long = Watermark.postponed(at, -spec.rule.ahead)
}

private object TimedVersions {

  /**
   * The approximate memory of a fact that is looked up with others, in addition to its row and its
   * version.
   */
  private val FactBytes = 200
}
