package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The times of the other input that a row can match: from the latest `time - constant` of `lower`
 * to the earliest `time + constant` of `upper`, inclusive. Here `time` is one of the row's own
 * times, by position; the range applies to the times by which the other input's rows are bucketed.
 *
 * @param others
 *   ranges of its other expiring times, in order, which rule out segments but no rows. So a range
 *   with an open end, as of rows that carry the time at which they leave, does not lead to all
 *   later segments.
 */
final private[streamjoin] case class ProbeTimeRange(
    lower: Seq[(Int, Long)],
    upper: Seq[(Int, Long)],
    others: Seq[ProbeTimeRange] = Nil
) {
  private val lowerAt = lower.map(_._1).toArray
  private val lowerBy = lower.map(_._2).toArray
  private val upperAt = upper.map(_._1).toArray
  private val upperBy = upper.map(_._2).toArray

  def from(segment: Segment, place: Int): Long = {
    var from = Long.MinValue
    var i = 0
    while (i < lowerAt.length) {
      from = math.max(from, ProbeTimeRange.minus(segment.time(place, lowerAt(i)), lowerBy(i)))
      i += 1
    }
    from
  }

  def to(segment: Segment, place: Int): Long = {
    var to = Long.MaxValue
    var i = 0
    while (i < upperAt.length) {
      to = math.min(to, ProbeTimeRange.plus(segment.time(place, upperAt(i)), upperBy(i)))
      i += 1
    }
    to
  }
}

private[streamjoin] object ProbeTimeRange {

  /** Capped at the ends of a long's range. */
  private def minus(time: Long, constant: Long): Long = {
    val result = time - constant
    if (((time ^ constant) & (time ^ result)) >= 0) result
    else if (constant > 0) Long.MinValue
    else Long.MaxValue
  }

  private def plus(time: Long, constant: Long): Long = {
    val result = time + constant
    if (((time ^ result) & (constant ^ result)) >= 0) result
    else if (constant > 0) Long.MaxValue
    else Long.MinValue
  }
}

/**
 * Pairs each row of this batch with the rows of the other input that have the same key and a time
 * within reach. Each pair is found once.
 *
 * Fresh segments are processed in blocks that fit into half of the budget, in the order of their
 * times. For each block, each segment of the other input within reach is probed by all segments of
 * the block that may match it. A block is sorted by the times that its segments can match, so two
 * binary searches find these. So a fresh segment is read back at most once, a segment of the other
 * input at most once per block, and its index stays in the CPU cache while it is probed. The cost
 * of a long history depends on its rows, not on the product of the numbers of segments of both
 * inputs.
 */
final private[streamjoin] class MatchIterator(
    own: Buffer,
    other: Buffer,
    reach: ProbeTimeRange,
    joinIndex: JoinIndex,
    store: SegmentStore
) {
  private val memory = joinIndex.memory

  /** The current pair; [[next]] overwrites both rows. */
  val ownRow: UnsafeRow = new UnsafeRow(own.layout.fields)
  val otherRow: UnsafeRow = new UnsafeRow(other.layout.fields)

  private val fresh: Array[Segment] = own.fresh.iterator.filter(_.live > 0).toArray.sortBy(_.lowest(0))
  private var freshAt = 0

  /** The current block, sorted by the first time that each segment can match. */
  private var probing: Array[Probing] = Array.empty

  /** For each segment of the block, the last time that it or one before it can match; ascending. */
  private var lastTimes: Array[Long] = Array.empty
  private var probed: Array[Segment] = Array.empty
  private var probedAt = -1
  private var probingAt = 0
  private var probingEnd = 0
  private var a: Probing = _
  private var b: Segment = _

  /** The number of times that a segment was probed by another one. */
  private[state] def probes: Int = pairsOfSegments
  private var pairsOfSegments = 0

  private var row = -1
  private var index: SegmentIndex = _
  private var candidate = 0
  private var lastCandidate = 0
  private var otherPlace = 0

  /** Advances to the next pair, if there is one. */
  def next(): Boolean = {
    var found = false
    var more = true
    while (!found && more)
      if (candidate < lastCandidate) {
        if (index.mayBe(candidate, a.hashes(row))) {
          otherPlace = index.place(candidate)
          val time = b.expiryTime(otherPlace, 0)
          if (
            time >= a.froms(row) && time <= a.tos(row) && !b.isGone(otherPlace) &&
            a.segment.sameKey(a.places(row), b, otherPlace)
          ) {
            b.point(otherRow, otherPlace)
            found = true
          }
        }
        candidate += 1
      } else more = nextRow()
    found
  }

  /** Advances to the next row of this input that may match a row of the probed segment. */
  private def nextRow(): Boolean = {
    var found = false
    var more = true
    while (!found && more)
      if (a != null && row + 1 < a.places.length) {
        // Fetched for each row, because the index is rebuilt once many rows have been removed.
        index = b.keys.index
        row = nextProbe()
        if (row < a.places.length && !a.segment.isGone(a.places(row))) {
          val slot = index.slot(a.hashes(row))
          candidate = index.from(b, slot, a.froms(row))
          lastCandidate = index.until(b, slot, a.tos(row))
          a.segment.point(ownRow, a.places(row))
          found = true
        }
      } else more = nextSegments()
    found
  }

  /** The next row that may have a match. This is the hot loop, and it usually finds none. */
  private def nextProbe(): Int = {
    val (hashes, froms, tos) = (a.hashes, a.froms, a.tos)
    val (lowest, highest) = (b.lowest(0), b.highest(0))
    var at = row + 1
    if (a.lastFrom <= highest && a.firstTo >= lowest)
      while (at < hashes.length && !index.mayHave(hashes(at))) at += 1
    else
      while (at < hashes.length && !(froms(at) <= highest && tos(at) >= lowest && index.mayHave(hashes(at))))
        at += 1
    at
  }

  /** Advances to the next two segments that may have matches. */
  private def nextSegments(): Boolean = {
    a = null
    var more = true
    while (a == null && more) {
      probingAt += 1
      if (probingAt < probingEnd) {
        val candidates = probed(probedAt)
        val next = probing(probingAt)
        if (
          next.to >= candidates.lowest(0) && next.reaches(candidates) &&
          (candidates.isLoaded || mayMeet(next, candidates))
        ) {
          pairsOfSegments += 1
          if (b == null) {
            b = candidates
            other.load(b, store)
          }
          a = next
          row = -1
        }
      } else more = nextProbed()
    }
    more
  }

  /** Whether any row may have a match, decided without the rows of an unloaded segment. */
  private def mayMeet(probing: Probing, candidates: Segment): Boolean = {
    val (lowest, highest) = (candidates.lowest(0), candidates.highest(0))
    probing.hashes.indices.exists { at =>
      probing.froms(at) <= highest && probing.tos(at) >= lowest && candidates.keys.mayHave(probing.hashes(at))
    }
  }

  /** Advances to the next segment to probe, by the same block or the next one. */
  private def nextProbed(): Boolean = {
    if (b != null && memory.exceeded) other.unload(b, store)
    b = null
    probedAt += 1
    while (probedAt >= probed.length && nextBlock()) probedAt = 0
    val more = probedAt < probed.length
    if (more) {
      val candidates = probed(probedAt)
      probingAt = firstProbing(lastTimes(_) >= candidates.lowest(0)) - 1
      probingEnd = firstProbing(probing(_).from > candidates.highest(0))
    } else {
      probingAt = -1
      probingEnd = 0
    }
    more
  }

  /** The first position in the block from which `holds` is true, or its end. */
  private def firstProbing(holds: Int => Boolean): Int = {
    var (from, to) = (0, probing.length)
    while (from < to) {
      val middle = (from + to) >>> 1
      if (holds(middle)) to = middle else from = middle + 1
    }
    from
  }

  /** Advances to the next block of fresh segments. */
  private def nextBlock(): Boolean = {
    if (memory.exceeded) probing.foreach(done => own.unload(done.segment, store))
    val block = mutable.LinkedHashMap.empty[Segment, Probing]
    var bytes = 0L
    while (
      freshAt < fresh.length && (block.isEmpty || bytes + Probing.bytes(
        fresh(freshAt)
      ) <= memory.allowance / 2)
    ) {
      val segment = fresh(freshAt)
      own.load(segment, store)
      block(segment) = new Probing(segment, reach)
      bytes += Probing.bytes(segment)
      freshAt += 1
      if (memory.exceeded) joinIndex.shrink(store, block.contains)
    }
    probing = block.values.toArray.sortBy(_.from)
    lastTimes = probing.scanLeft(Long.MinValue)((last, next) => math.max(last, next.to)).tail
    probed =
      if (probing.isEmpty) Array.empty else other.between(probing.map(_.from).min, probing.map(_.to).max)
    probing.nonEmpty
  }

  def flagOwn(): Unit = a.segment.flagMatched(a.places(row))
  def flagOther(): Unit = b.flagMatched(otherPlace)

  /** Removes the row of this batch, which then gets no further match. */
  def removeOwn(): Unit = {
    a.segment.remove(a.places(row))
    lastCandidate = candidate
  }
  def removeOther(): Unit = b.remove(otherPlace)
}

/** The rows of a probing segment: the place, key hash and matching times of each. */
final private class Probing(val segment: Segment, reach: ProbeTimeRange) {
  private val live = segment.live
  val places = new Array[Int](live)
  val hashes = new Array[Int](live)
  val froms = new Array[Long](live)
  val tos = new Array[Long](live)

  /** The first and the last time that any row can match. */
  var from: Long = Long.MaxValue
  var to: Long = Long.MinValue

  /** Every row can match the times from `lastFrom` to `firstTo`, if this range is not empty. */
  var lastFrom: Long = Long.MinValue
  var firstTo: Long = Long.MaxValue

  /** The first and the last of the other expiring times that any row can match. */
  private val others = reach.others.toArray
  private val otherFrom = Array.fill(others.length)(Long.MaxValue)
  private val otherTo = Array.fill(others.length)(Long.MinValue)

  /** Whether a segment may have matches, by the other expiring times of its rows. */
  def reaches(candidates: Segment): Boolean = {
    var at = 0
    while (
      at < others.length && otherFrom(at) <= candidates.highest(at + 1) &&
      otherTo(at) >= candidates.lowest(at + 1)
    ) at += 1
    at == others.length
  }

  locally {
    val all = segment.keys.hashes
    var row = 0
    segment.foreachLive { (i, place) =>
      places(row) = place
      hashes(row) = all(i)
      froms(row) = reach.from(segment, place)
      tos(row) = reach.to(segment, place)
      from = math.min(from, froms(row))
      lastFrom = math.max(lastFrom, froms(row))
      firstTo = math.min(firstTo, tos(row))
      to = math.max(to, tos(row))
      var at = 0
      while (at < others.length) {
        otherFrom(at) = math.min(otherFrom(at), others(at).from(segment, place))
        otherTo(at) = math.max(otherTo(at), others(at).to(segment, place))
        at += 1
      }
      row += 1
    }
  }
}

private object Probing {

  /** Bytes that a probing segment uses, including its hashes. */
  def bytes(segment: Segment): Long = segment.size + 28L * segment.live
}
