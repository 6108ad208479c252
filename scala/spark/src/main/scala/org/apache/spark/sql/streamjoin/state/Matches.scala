package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Which times of the other input a row can meet: `from` is the latest of `time - constant` over `lower`, `to` the earliest
 * of `time + constant` over `upper`, both included; times are the row's own, by position, and the times that they
 * bound are those by which the other input's rows are bucketed.
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
 * The pairs of a row that came in this batch with a row of the other input, that have the same key and times within
 * reach. Each pair comes once.
 *
 * Segment by segment of the other input, and for each the fresh segments that reach it: a segment is read back at most
 * once where it is not in memory, and its index stays in the processor's caches while it is probed.
 */
final private[streamjoin] class Matches(
    own: Buffer,
    other: Buffer,
    reach: Reach,
    memory: IndexMemory,
    store: SegmentStore
) {

  /** The pair; both are overwritten by [[next]]. */
  val ownRow: UnsafeRow = new UnsafeRow(own.layout.fields)
  val otherRow: UnsafeRow = new UnsafeRow(other.layout.fields)

  private val probing: Array[Segment] = own.fresh.filter(_.rows > 0).toArray
  private val reachedFrom = new Array[Long](probing.length)
  private val reachedTo = new Array[Long](probing.length)
  probing.indices.foreach { i =>
    val (from, to) = reached(probing(i))
    reachedFrom(i) = from
    reachedTo(i) = to
  }
  private val probed: Array[Segment] =
    if (probing.isEmpty) Array.empty else other.between(reachedFrom.min, reachedTo.max)

  private var probedAt = -1
  private var probingAt = probing.length
  private var a: Segment = _
  private var b: Segment = _

  private var nextPlace = 0
  private var row = -1
  private var place = 0
  private var from = 0L
  private var to = 0L

  private var index: SegmentIndex = _
  private var hash = 0
  private var slot = 0
  private var candidate = 0
  private var lastCandidate = 0
  private var otherPlace = 0

  /** Where the rows of a segment reach to, first and last. */
  private def reached(segment: Segment): (Long, Long) = {
    own.load(segment, store)
    var (from, to) = (Long.MaxValue, Long.MinValue)
    segment.foreachLive { (_, place) =>
      from = math.min(from, reach.from(segment, place))
      to = math.max(to, reach.to(segment, place))
    }
    release(own, segment)
    (from, to)
  }

  private def release(buffer: Buffer, segment: Segment): Unit =
    if (memory.exceeded) buffer.unload(segment, store)

  /** Moves on to the next pair, if there is one. */
  def next(): Boolean = {
    var found = false
    var more = true
    while (!found && more) {
      if (candidate < lastCandidate) {
        if (index.mayBe(candidate, hash)) {
          otherPlace = index.place(candidate)
          val time = b.expiryTime(otherPlace, 0)
          if (time >= from && time <= to) {
            if (!b.isGone(otherPlace) && a.sameKey(place, b, otherPlace)) {
              b.point(otherRow, otherPlace)
              found = true
            }
          } else if (index.isPast(slot, time, to)) candidate = lastCandidate
        }
        candidate += 1
      } else more = nextRow()
    }
    found
  }

  /** Moves on to the next row of this input that may meet some row of the segment that is probed. */
  private def nextRow(): Boolean = {
    var found = false
    var more = true
    while (!found && more) {
      if (a != null && a.hasPlace(nextPlace)) {
        place = nextPlace
        nextPlace = a.after(place)
        row += 1
        if (!a.isGone(place)) {
          from = reach.from(a, place)
          to = reach.to(a, place)
          if (from <= b.highest(0) && to >= b.lowest(0)) {
            index = b.index
            hash = a.hashes(row)
            slot = index.slot(hash)
            candidate = index.from(b, slot, from)
            lastCandidate = index.starts(slot + 1)
            if (candidate < lastCandidate) {
              a.point(ownRow, place)
              found = true
            }
          }
        }
      } else more = nextSegments()
    }
    found
  }

  /** Moves on to the next two segments that may have pairs. */
  private def nextSegments(): Boolean = {
    if (a != null) {
      release(own, a)
      a = null
    }
    var found = false
    while (!found && probedAt < probed.length) {
      probingAt += 1
      if (probingAt >= probing.length) {
        if (b != null) release(other, b)
        b = null
        probedAt += 1
        probingAt = -1
      } else {
        val candidate = probed(probedAt)
        if (reachedFrom(probingAt) <= candidate.highest(0) && reachedTo(probingAt) >= candidate.lowest(0)) {
          if (b == null) {
            b = candidate
            other.load(b, store)
          }
          a = probing(probingAt)
          own.load(a, store)
          nextPlace = a.first
          row = -1
          found = true
        }
      }
    }
    found
  }

  def markOwn(): Unit = a.markMatched(place)
  def markOther(): Unit = b.markMatched(otherPlace)

  /** The row of this batch leaves; it meets no further row. */
  def removeOwn(): Unit = {
    a.remove(place)
    lastCandidate = candidate
  }
  def removeOther(): Unit = b.remove(otherPlace)
}
