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

  private val probing: Array[Probing] = own.fresh.map { segment =>
    own.load(segment, store)
    val probing = new Probing(segment, reach)
    release(probing)
    probing
  }.toArray
  private val probed: Array[Segment] =
    if (probing.isEmpty) Array.empty else other.between(probing.map(_.from).min, probing.map(_.to).max)

  private var probedAt = -1
  private var probingAt = probing.length
  private var a: Probing = _
  private var b: Segment = _

  private var row = -1
  private var index: SegmentIndex = _
  private var candidate = 0
  private var lastCandidate = 0
  private var otherPlace = 0

  private def release(probing: Probing): Unit = if (memory.exceeded) {
    probing.forget()
    own.unload(probing.segment, store)
  }

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

  /** Moves on to the next row of this input that may meet some row of the segment that is probed. */
  private def nextRow(): Boolean = {
    var found = false
    var more = true
    while (!found && more)
      if (a != null && row + 1 < a.places.length) {
        // Anew for each row that had a match: where many rows are removed, it is made anew.
        index = b.index
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
    if (a != null) {
      release(a)
      a = null
    }
    var found = false
    while (!found && probedAt < probed.length) {
      probingAt += 1
      if (probingAt >= probing.length) {
        if (b != null && memory.exceeded) other.unload(b, store)
        b = null
        probedAt += 1
        probingAt = -1
      } else {
        val candidates = probed(probedAt)
        if (
          probing(probingAt).from <= candidates.highest(0) && probing(probingAt).to >= candidates.lowest(0)
        ) {
          if (b == null) {
            b = candidates
            other.load(b, store)
          }
          a = probing(probingAt)
          own.load(a.segment, store)
          a.read()
          row = -1
          found = true
        }
      }
    }
    found
  }

  def markOwn(): Unit = a.segment.markMatched(a.places(row))
  def markOther(): Unit = b.markMatched(otherPlace)

  /** The row of this batch leaves; it meets no further row. */
  def removeOwn(): Unit = {
    a.segment.remove(a.places(row))
    lastCandidate = candidate
  }
  def removeOther(): Unit = b.remove(otherPlace)
}

/** The rows of a segment as they probe: where each is, the hash of its key and the times that it can meet. */
final private class Probing(val segment: Segment, reach: Reach) {
  var places: Array[Int] = _
  var hashes: Array[Int] = _
  var froms: Array[Long] = _
  var tos: Array[Long] = _

  /** The first and the last time that any of them can meet. */
  var from: Long = Long.MaxValue
  var to: Long = Long.MinValue

  /** The times from the one to the other, if there are any, are those that all of them can meet. */
  var lastFrom: Long = Long.MinValue
  var firstTo: Long = Long.MaxValue
  read()

  def read(): Unit = if (places == null) {
    val live = segment.live
    places = new Array[Int](live)
    hashes = new Array[Int](live)
    froms = new Array[Long](live)
    tos = new Array[Long](live)
    val all = segment.hashes
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

  /** Leaves the memory to others; [[read]] finds it all again. */
  def forget(): Unit = {
    places = null
    hashes = null
    froms = null
    tos = null
  }
}
