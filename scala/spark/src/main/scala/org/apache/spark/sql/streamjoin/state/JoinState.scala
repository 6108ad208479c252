package org.apache.spark.sql.streamjoin.state

import java.util.UUID

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, StateStore}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

import streamjoin.core.Side

/**
 * What one task of a join keeps, both inputs, durable in one state store.
 *
 * The header in the store carries a token, new with every commit, and so does the index: it is used
 * as it is only where its token is that of the version that the task was given. Where that version
 * is the one that the index' last batch began with, as for a second action in a `foreachBatch`, the
 * index goes back: what the batch changed is read again. Any other retry, restart or move, and the
 * whole index is read from the store. The version's number would not do: two attempts of one batch
 * have the same.
 *
 * Nothing is durable before [[commit]]; what is not committed is given up by [[abort]].
 *
 * @param layouts
 *   of the left and the right input
 * @param bucketWidths
 *   in microseconds, for the first version; it stays
 * @param budget
 *   bytes that the index may hold in memory
 * @param cached
 *   the index of an earlier commit, if there is one
 * @param guest
 *   a side that another task keeps
 * @param executor
 *   what all indexes of the executor may hold together
 */
final private[streamjoin] class JoinState(
    store: StateStore,
    layouts: Seq[RowLayout],
    bucketWidths: Seq[Long],
    budget: Long,
    cached: Option[JoinIndex],
    guest: Option[JoinState.Guest] = None,
    executor: ExecutorMemory.Limit = ExecutorMemory.unlimited
) {
  private val segments = new SegmentStore(store)
  private val header =
    try segments.readHeader()
    catch {
      case failed: Throwable =>
        cached.foreach(_.close())
        throw failed
    }

  /** The index was as the store, and did not have to be read. */
  val reused: Boolean = cached.exists(index => header.exists(_.token == index.token))

  /** The index was one batch ahead, and went back. */
  val rewound: Boolean = !reused && cached.exists(index => header.exists(_.token == index.base))

  private var held: JoinIndex =
    if (reused) cached.get
    else if (rewound) JoinState.rewind(cached.get, segments, header, guest)
    else {
      cached.foreach(_.close())
      JoinState.read(segments, header, layouts, bucketWidths, budget, guest, executor)
    }
  // From here on it equals no commit until the next one.
  index.begin(header.map(_.token))

  private def index: JoinIndex = {
    assert(held != null, "an index that has been handed over is no longer looked at")
    held
  }

  private def memory: IndexMemory = index.memory

  /** Keeps a copy of a row. */
  def append(side: Side, row: UnsafeRow): Unit = {
    val buffer = index.buffer(side)
    val before = buffer.memory.used
    buffer.append(row)
    if (buffer.memory.used != before) {
      JoinState.checkGuests(index, store)
      if (memory.exceeded) index.shrink(segments)
    }
  }

  /** The rows that were appended to a side can be found. */
  private def arrived(side: Side): Buffer = {
    val buffer = index.buffer(side)
    buffer.arrive()
    buffer
  }

  /**
   * What was appended and what has left is taken into account by [[lowest]]. A commit does so, too.
   */
  private[state] def settle(): Unit = index.all.foreach(_.settle())

  /**
   * The pairs of the rows that were appended to a side in this batch with those of the other side.
   */
  def matches(side: Side, reach: Reach): Matches =
    new Matches(arrived(side), arrived(side.other), reach, index, segments)

  /** Evicts rows of a side; shows those that never matched, if they are asked for. */
  def expired(side: Side, evictionLimits: Array[Long], unmatched: Boolean): Expired =
    new Expired(arrived(side), evictionLimits, unmatched, memory, segments)

  /**
   * The rows of a side that are closest in time to a row of its key.
   *
   * @param asking
   *   of the rows that are asked for
   * @param later
   *   which of two rows of one key and one time comes later
   */
  def closest(side: Side, asking: RowLayout, later: Ordering[InternalRow]): ClosestRows =
    new ClosestRows(arrived(side), asking, later, index, segments)

  private var table: Option[VersionTable] = None

  /** The rows that are known by their keys alone, beside those of the two sides. */
  def versionTable(keyFields: Int, fields: Int): VersionTable =
    versionTable(keyFields, fields, VersionTable.hash)

  private[state] def versionTable(keyFields: Int, fields: Int, hash: UnsafeRow => Long): VersionTable = {
    assert(table.isEmpty, "a state has one table")
    val made = new VersionTable(segments, keyFields, fields, hash)
    table = Some(made)
    made
  }

  /** How many keys have a row in the table. */
  def keys: Long = table.fold(0L)(_.size)

  /** How many keys the table knows to be gone. */
  def deletedKeys: Long = table.fold(0L)(_.deletedKeys)

  def rows(side: Side): Long = index.buffer(side).rows

  /** Another task keeps the rows of this side; here they are to be looked at. */
  def isGuest(side: Side): Boolean = !index.buffer(side).isDurable

  /** The lowest time among the rows of a side, by expiring time, once they are committed. */
  def lowest(side: Side, at: Int): Option[Long] = index.buffer(side).lowest(at)

  /** What is held, for the progress. */
  def size: JoinState.Size = {
    val all = index.all.flatMap(_.segments)
    JoinState.Size(
      index = index.used,
      payload = all.map(_.payload).sum,
      stored = all.map(_.size.toLong).sum,
      segments = all.size.toLong,
      unloaded = all.count(!_.isLoaded).toLong
    )
  }

  /** Makes all of it durable. */
  def commit(): Unit = {
    JoinState.checkGuests(index, store)
    table.foreach(_.writeSize())
    index.all.foreach(_.write(segments, () => index.shrink(segments)))
    table.foreach { keyed =>
      if (keyed.isEmpty) segments.removeCatalogue()
      else
        segments.writeCatalogue(
          index.all.filter(_.isDurable).flatMap(buffer => buffer.segments.map(buffer.side -> _))
        )
    }
    val token = UUID.randomUUID()
    segments.writeHeader(SegmentFormat.VersionHeader(token, index.all.map(JoinState.header)))
    index.endBatch()
    if (memory.exceeded) index.shrink(segments)
    store.commit()
    index.token = token
  }

  def abort(): Unit = {
    close()
    store.abort()
  }

  /**
   * The index, unless it has been handed over, of a batch that was left off: nobody wants more of
   * its rows. Another run of the batch can go on with it. For a task that failed there is
   * [[close]].
   */
  def leaveOff(): Option[JoinIndex] = Option(held).map(_ => handOver())

  /** The index is dropped, unless it has been handed over. */
  def close(): Unit = if (held != null) held.close()

  private[state] def committedIndex: JoinIndex = index

  /**
   * The index, for the next batch, once this one is committed. This is the last that can be asked
   * for: the index may be in the hands of another task by then, and even to count its rows would
   * change it.
   */
  def handOver(): JoinIndex = {
    val index = this.index
    held = null
    index
  }
}

private[streamjoin] object JoinState {

  /**
   * @param index
   *   bytes in memory
   * @param payload
   *   bytes of the rows themselves
   * @param stored
   *   bytes of the segments in the store
   * @param segments
   *   how many there are
   * @param unloaded
   *   how many of them are not in memory
   */
  final case class Size(index: Long, payload: Long, stored: Long, segments: Long, unloaded: Long)

  /**
   * A side whose rows come to every task and are kept by one. Each task has them in memory, at the
   * version of its own rows: one token is for both. They are in no store of this task's that they
   * could be left to, so they have a limit of their own, and leave the budget to the rows of the
   * other side.
   *
   * @param cap
   *   bytes, beyond which the task fails
   * @param open
   *   the store of the task that keeps them, at the version to be read
   */
  final case class Guest(side: Side, cap: Long, open: (ReadStateStore => Unit) => Unit)

  private def checkGuests(index: JoinIndex, store: ReadStateStore): Unit =
    index.all.foreach { buffer =>
      if (!buffer.isDurable && buffer.memory.used > buffer.memory.budget)
        throw StreamJoinErrors.runtime(
          "STREAMJOIN_BROADCAST_TOO_LARGE",
          "partition" -> store.id.partitionId.toString,
          "side" -> Side.both(buffer.side).name,
          "bytes" -> buffer.memory.used.toString,
          "cap" -> buffer.memory.budget.toString
        )
    }

  private def header(buffer: Buffer): SegmentFormat.SideHeader = {
    val all = contents(buffer)
    if (buffer.isDurable) all else all.copy(segments = 0, flagged = 0, rows = 0)
  }

  private def contents(buffer: Buffer): SegmentFormat.SideHeader =
    SegmentFormat.SideHeader(
      buffer.bucketWidth,
      segments = buffer.segments.size.toLong,
      flagged = buffer.segments.count(_.flagsInStore).toLong,
      rows = buffer.segments.map(_.rows.toLong).sum,
      buffer.evictedBelow.toSeq
    )

  private def read(
      segments: SegmentStore,
      header: Option[SegmentFormat.VersionHeader],
      layouts: Seq[RowLayout],
      bucketWidths: Seq[Long],
      budget: Long,
      guest: Option[Guest],
      executor: ExecutorMemory.Limit
  ): JoinIndex = {
    val memory = new IndexMemory(budget, executor)
    val guestMemory = guest.map(from => new IndexMemory(from.cap, executor))
    val buffers = Side.both.map { side =>
      val width = header.fold(bucketWidths(side.index))(_.sides(side.index).bucketWidth)
      val isGuest = guest.exists(_.side == side)
      val heldBy = if (isGuest) guestMemory.get else memory
      new Buffer(side.index, layouts(side.index), width, heldBy, isDurable = !isGuest)
    }
    val index = new JoinIndex(buffers, memory, guestMemory)
    fill(index, segments, header, guest, hasBase = false)
    index.token = header.map(_.token).orNull
    index
  }

  /**
   * Takes an index back to the version that its last batch began with. It costs as much as the
   * batch touched, whatever there is besides; of a side that another task keeps, all is read again.
   */
  private def rewind(
      index: JoinIndex,
      segments: SegmentStore,
      header: Option[SegmentFormat.VersionHeader],
      guest: Option[Guest]
  ): JoinIndex = {
    fill(index, segments, header, guest, hasBase = true)
    index
  }

  /**
   * Reads what a version has, and an index lacks.
   *
   * @param hasBase
   *   it has what the last batch has not changed; otherwise nothing
   */
  private def fill(
      index: JoinIndex,
      segments: SegmentStore,
      header: Option[SegmentFormat.VersionHeader],
      guest: Option[Guest],
      hasBase: Boolean
  ): Unit =
    try {
      fill(index, index.all.filter(_.isDurable), segments, header, hasBase)
      if (header.isDefined) guest.foreach { from =>
        val looked = index.buffer(from.side)
        from.open { store =>
          val kept = new SegmentStore(store)
          fill(index, Seq(looked), kept, kept.readHeader(), hasBase = false)
        }
        looked.segments.foreach(_.forgetStore())
      }
    } catch {
      case failed: Throwable =>
        index.close()
        throw failed
    }

  private def fill(
      index: JoinIndex,
      buffers: Seq[Buffer],
      segments: SegmentStore,
      header: Option[SegmentFormat.VersionHeader],
      hasBase: Boolean
  ): Unit = {
    val bySide = buffers.map(buffer => buffer.side -> buffer).toMap
    val lacking = for {
      version <- header.toSeq
      buffer <- buffers
      (bucket, number) <- buffer.rewind(version.sides(buffer.side).evictedBelow.toArray)
    } yield (buffer.side, bucket, number)
    val loaded = new JoinIndex.Loaded(index.memory, segments)
    def make(side: Int, bucket: Long): Option[Segment] = bySide.get(side).map(_.newSegment(bucket))
    def take(side: Int, segment: Segment, load: () => Unit): Unit = {
      bySide(side).add(segment)
      if (bySide(side).isDurable) loaded.offer(bySide(side), segment, load) else load()
      checkGuests(index, segments.store)
    }
    if (hasBase) segments.readSome(lacking)(make)(take) else segments.readAll(make)(take)
    loaded.shrink()
    buffers.foreach(buffer => complete(buffer, header.map(_.sides(buffer.side)), segments))
  }

  /** Checksums find damage within a value, the header a value that is missing, or too many. */
  private def complete(
      buffer: Buffer,
      header: Option[SegmentFormat.SideHeader],
      segments: SegmentStore
  ): Unit = {
    val found = contents(buffer)
    val expected = header.getOrElse(found.copy(segments = 0, flagged = 0, rows = 0))
    if (found.segments != expected.segments || found.rows != expected.rows)
      segments.fail(
        s"${found.segments} segments with ${found.rows} rows in place of ${expected.segments} with ${expected.rows}"
      )
    if (found.flagged != expected.flagged)
      segments.fail(s"flags of ${found.flagged} segments in place of ${expected.flagged}")
  }

  /**
   * A committed version, to be looked at: by another query, or another process. Nothing is written
   * to the store, which the caller releases.
   */
  def readOnly(store: ReadStateStore, layouts: Seq[RowLayout], budget: Long): JoinIndex = {
    val segments = new SegmentStore(store)
    read(segments, segments.readHeader(), layouts, Seq(1L, 1L), budget, None, ExecutorMemory.unlimited)
  }
}
