package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Which times of the other input a row can meet: `from` is the latest of `time - constant` over
 * `lower`, `to` the earliest of `time + constant` over `upper`, both included; times are the row's
 * own, by position, and the times that they bound are those by which the other input's rows are
 * bucketed.
 */
final private[streamjoin] case class Reach(lower: Seq[(Int, Long)], upper: Seq[(Int, Long)]) {
  private val lowerAt = lower.map(_._1).toArray
  private val lowerBy = lower.map(_._2).toArray
  private val upperAt = upper.map(_._1).toArray
  private val upperBy = upper.map(_._2).toArray

  def from(segment: Segment, place: Int): Long = {
    var from = Long.MinValue
    var i = 0
    while (i < lowerAt.length) {
      from = math.max(from, Reach.minus(segment.time(place, lowerAt(i)), lowerBy(i)))
      i += 1
    }
    from
  }

  def to(segment: Segment, place: Int): Long = {
    var to = Long.MaxValue
    var i = 0
    while (i < upperAt.length) {
      to = math.min(to, Reach.plus(segment.time(place, upperAt(i)), upperBy(i)))
      i += 1
    }
    to
  }
}

private[streamjoin] object Reach {

  /** The ends of the range hold. */
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
 * The pairs of a row that came in this batch with a row of the other input, that have the same key
 * and times within reach. Each pair comes once.
 *
 * The fresh segments go by blocks that fit into half of the budget, in the order of their times;
 * for each block, segment by segment of the other input that it reaches, and for each of these all
 * of the block that can meet it, which two searches find, for a block is in the order of the times
 * that its segments can meet. So a fresh segment is read back at most once, a segment of the other
 * input at most once for each block, its index stays in the processor's caches while it is probed,
 * and a long history costs as much as its rows: not as its segments of one input times those of the
 * other.
 */
final private[streamjoin] class Matches(
    own: Buffer,
    other: Buffer,
    reach: Reach,
    joinIndex: JoinIndex,
    store: SegmentStore
) {
  private val memory = joinIndex.memory

  /** The pair; both are overwritten by [[next]]. */
  val ownRow: UnsafeRow = new UnsafeRow(own.layout.fields)
  val otherRow: UnsafeRow = new UnsafeRow(other.layout.fields)

  private val fresh: Array[Segment] = own.fresh.iterator.filter(_.live > 0).toArray.sortBy(_.lowest(0))
  private var freshAt = 0

  /** In the order of the first times that they can meet. */
  private var probing: Array[Probing] = Array.empty

  /** The last time that it or any before it can meet, by their order; it never falls. */
  private var lastTimes: Array[Long] = Array.empty
  private var probed: Array[Segment] = Array.empty
  private var probedAt = -1
  private var probingAt = 0
  private var probingEnd = 0
  private var a: Probing = _
  private var b: Segment = _

  private var row = -1
  private var index: SegmentIndex = _
  private var candidate = 0
  private var lastCandidate = 0
  private var otherPlace = 0

  /** Moves on to the next pair, if there is one. */
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

  /**
   * Moves on to the next row of this input that may meet some row of the segment that is probed.
   */
  private def nextRow(): Boolean = {
    var found = false
    var more = true
    while (!found && more)
      if (a != null && row + 1 < a.places.length) {
        // Anew for each row that had a match: where many rows are removed, it is made anew.
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

  /** The next row that may have a partner; what is asked most often, and mostly in vain. */
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

  /** Moves on to the next two segments that may have pairs. */
  private def nextSegments(): Boolean = {
    a = null
    var more = true
    while (a == null && more) {
      probingAt += 1
      if (probingAt < probingEnd) {
        val candidates = probed(probedAt)
        val next = probing(probingAt)
        if (next.to >= candidates.lowest(0) && (candidates.isLoaded || mayMeet(next, candidates))) {
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

  /** Some row may have a partner, as far as is known of rows that are in the store only. */
  private def mayMeet(probing: Probing, candidates: Segment): Boolean = {
    val (lowest, highest) = (candidates.lowest(0), candidates.highest(0))
    probing.hashes.indices.exists { at =>
      probing.froms(at) <= highest && probing.tos(at) >= lowest && candidates.keys.mayHave(probing.hashes(at))
    }
  }

  /** Moves on to the next segment that is probed, by the same block or the next one. */
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

  /** The first of the block from which on something holds, or its end. */
  private def firstProbing(holds: Int => Boolean): Int = {
    var (from, to) = (0, probing.length)
    while (from < to) {
      val middle = (from + to) >>> 1
      if (holds(middle)) to = middle else from = middle + 1
    }
    from
  }

  /** Moves on to the next block of fresh segments. */
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

  /** The row of this batch leaves; it has no further match. */
  def removeOwn(): Unit = {
    a.segment.remove(a.places(row))
    lastCandidate = candidate
  }
  def removeOther(): Unit = b.remove(otherPlace)
}

/**
 * The rows of a segment as they probe: where each is, the hash of its key and the times that it can
 * meet.
 */
final private class Probing(val segment: Segment, reach: Reach) {
  private val live = segment.live
  val places = new Array[Int](live)
  val hashes = new Array[Int](live)
  val froms = new Array[Long](live)
  val tos = new Array[Long](live)

  /** The first and the last time that any of them can meet. */
  var from: Long = Long.MaxValue
  var to: Long = Long.MinValue

  /** The times from the one to the other, if there are any, are those that all of them can meet. */
  var lastFrom: Long = Long.MinValue
  var firstTo: Long = Long.MaxValue

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
      row += 1
    }
  }
}

private object Probing {

  /** What a segment takes while it probes, with its hashes. */
  def bytes(segment: Segment): Long = segment.size + 28L * segment.live
}
