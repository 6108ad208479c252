package org.apache.spark.sql.streamjoin.state

import java.util.UUID

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, StateStore}

import streamjoin.core.Side

/**
 * The rows that one task keeps: one or two buffers, one for each input whose rows wait, and
 * optionally a table. They are in a state store, which is durable, and in an in-memory index, which
 * is a cache of one version of the store. Correctness depends on these properties:
 *
 *   - Nothing is durable before [[commit]]. Segments that are spilled to the store earlier belong
 *     to a version that is dropped unless it is committed.
 *   - So a retry opens the version that the first attempt opened, sees none of that attempt's
 *     changes, even if it committed, and writes the same segments.
 *   - Every commit writes a header with a new token, and the index adopts the token only
 *     afterwards. A cached index is used unchanged only if its token is that of the version that
 *     the task was given. The version's number is not sufficient: two attempts at one batch have
 *     the same number.
 *
 * {{{
 *   store   version N, token t  ---------- batch N ---------->  commit: version N + 1, token u
 *   index   token = t                base = t, no token                 base = t, token = u
 *
 *   A task opens a version with token v. Its cached index
 *     has token v     is reused             nothing is read
 *     has base v      goes back             what its last batch changed is read again
 *     has neither     is dropped            all segments are read into a new index
 * }}}
 *
 * An index goes back, for example, for a second action in a `foreachBatch`. A task that fails drops
 * its index, so its retry reads all segments. A restart or a move to another executor also reads
 * all segments.
 *
 * @param layouts
 *   layout of the rows of each buffer
 * @param bucketWidths
 *   width of the level-0 buckets of each buffer, in microseconds; the first version fixes them
 * @param budget
 *   bytes that the index may hold in memory
 * @param cached
 *   the index left by an earlier task, if any
 * @param replicated
 *   a side that another task stores, if any
 * @param executor
 *   limit for all indexes of the executor together
 * @param firstBatch
 *   the batch whose state is version 0 of the store
 * @param byLifetimes
 *   for each buffer, how its first rows decide the width of its buckets, if they do
 */
final private[streamjoin] class JoinState(
    store: StateStore,
    layouts: Seq[RowLayout],
    bucketWidths: Seq[Long],
    budget: Long,
    cached: Option[JoinIndex],
    replicated: Option[JoinState.ReplicatedSide] = None,
    executor: ExecutorMemory.Limit = ExecutorMemory.unlimited,
    firstBatch: Long = 0,
    byLifetimes: Seq[Option[LifetimeWidth]] = Nil
) {
  private val segments = new SegmentStore(store, firstBatch)
  private val header =
    try segments.readHeader()
    catch {
      case failed: Throwable =>
        cached.foreach(_.close())
        throw failed
    }

  /** The cached index matched the store, so nothing was read. */
  val reused: Boolean = cached.exists(index => header.exists(_.token == index.token))

  /** The cached index was one batch ahead, finished or not, and was reset. */
  val rewound: Boolean = !reused && cached.exists(index => header.exists(_.token == index.base))

  private var held: JoinIndex =
    if (reused) cached.get
    else if (rewound) IndexReading.rewind(cached.get, segments, header, replicated)
    else {
      cached.foreach(_.close())
      IndexReading.read(segments, header, layouts, bucketWidths, budget, replicated, executor, byLifetimes)
    }
  // No version equals the index until the next commit.
  index.begin(header.map(_.token))

  private def index: JoinIndex = {
    assert(held != null, "an index that has been handed over is no longer looked at")
    held
  }

  private def memory: IndexMemory = index.memory

  /** Buffers a copy of the row. */
  def append(side: Side, row: UnsafeRow): Unit = append(side, row, isMatched = false)

  /** Buffers a copy of a row that may have matched in another state. */
  def append(side: Side, row: UnsafeRow, isMatched: Boolean): Unit = {
    val buffer = index.buffer(side)
    val before = buffer.memory.used
    buffer.append(row, isMatched)
    if (buffer.memory.used != before) {
      IndexReading.checkReplicated(index, store)
      if (memory.exceeded) index.shrink(segments)
    }
  }

  /** The buffer of a side, with all appended rows in segments. */
  private def arrived(side: Side): Buffer = {
    val buffer = index.buffer(side)
    buffer.arrive()
    buffer
  }

  /** Makes [[lowest]] reflect appended and evicted rows, as a commit also does. */
  private[state] def settle(): Unit = index.all.foreach(_.settle())

  /**
   * The matches of the rows that were appended to a side in this batch with rows of the other side.
   */
  def matches(side: Side, reach: ProbeTimeRange): MatchIterator =
    new MatchIterator(arrived(side), arrived(side.other), reach, index, segments)

  /**
   * Finds matches of rows that are not kept among the rows of a side.
   *
   * @param layout
   *   layout of the rows; they have a time, as all rows in a buffer do
   */
  def passing(layout: RowLayout, side: Side): PassingRows = {
    assert(passing.isEmpty, "the rows before must have passed")
    val made = new PassingRows(layout, arrived(side), index, segments)
    passing = Some(made)
    made
  }

  private var passing: Option[PassingRows] = None

  /** Evicts rows of a side; returns those that never matched, if `unmatched` is set. */
  def expired(side: Side, evictionLimits: Array[Long], unmatched: Boolean): Expired =
    new Expired(arrived(side), evictionLimits, unmatched, memory, segments)

  /**
   * Finds the rows of a side that are closest in time to a given row of the same key.
   *
   * @param asking
   *   layout of the given rows
   * @param later
   *   order of two rows with the same key and time; the later one is found
   */
  def closest(side: Side, asking: RowLayout, later: Ordering[InternalRow]): ClosestRows =
    new ClosestRows(arrived(side), asking, later, index, segments)

  /** Takes over what another state has evicted, before any row is appended. */
  def evicted(side: Side, below: Seq[Long]): Unit = index.buffer(side).evicted(below.toArray)

  /** Makes all rows of a side count as matched, before any row is appended. */
  def flagAll(side: Side): Unit = each(side)(_.flagMatched(_))

  /** Removes the matched rows of a side, before any row is appended; returns their number. */
  def removeMatched(side: Side): Long = {
    var removed = 0L
    each(side) { (segment, place) =>
      if (segment.isMatched(place)) {
        segment.remove(place)
        removed += 1
      }
    }
    removed
  }

  private def each(side: Side)(use: (Segment, Int) => Unit): Unit = {
    val buffer = index.buffer(side)
    buffer.segments.filter(_.live > 0).toArray.foreach { segment =>
      buffer.load(segment, segments)
      segment.foreachLive((_, place) => use(segment, place))
      if (memory.exceeded) index.shrink(segments)
    }
  }

  /** Rows that can match nothing. */
  lazy val leaving: LeavingRows = new LeavingRows(segments)

  private var table: Option[VersionTable] = None

  /** A table with one row per key, next to the buffers. */
  def versionTable(keyFields: Int, fields: Int): VersionTable =
    versionTable(keyFields, fields, VersionTable.hash)

  private[state] def versionTable(keyFields: Int, fields: Int, hash: UnsafeRow => Long): VersionTable = {
    assert(table.isEmpty, "a state has one table")
    val made = new VersionTable(segments, keyFields, fields, hash)
    table = Some(made)
    made
  }

  /** Number of keys that have a row in the table. */
  def keys: Long = table.fold(0L)(_.size)

  /** Number of keys that the table remembers as deleted. */
  def deletedKeys: Long = table.fold(0L)(_.deletedKeys)

  def rows(side: Side): Long = index.buffer(side).rows

  /** Bytes of the rows of a side in Spark's format. */
  def payload(side: Side): Long = index.buffer(side).segments.map(_.payload).sum

  /** Rows in all buffers. */
  def rows: Long = index.all.map(_.rows).sum

  /** Another task stores the rows of this side; this task has only a copy in memory. */
  def isReplicated(side: Side): Boolean = !index.buffer(side).isDurable

  /** The lowest time among the rows of a side, by expiring time, once they are committed. */
  def lowest(side: Side, at: Int): Option[Long] = index.buffer(side).lowest(at)

  /** Sizes for the query's progress. */
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

  /** Makes all changes durable. */
  def commit(): Unit = {
    IndexReading.checkReplicated(index, store)
    table.foreach(_.writeSize())
    leaving.write()
    index.all.foreach(_.write(segments, () => index.shrink(segments)))
    table.foreach { keyed =>
      if (keyed.isEmpty) segments.removeCatalogue()
      else
        segments.writeCatalogue(
          index.all.filter(_.isDurable).flatMap(buffer => buffer.segments.map(buffer.side -> _))
        )
    }
    val token = UUID.randomUUID()
    segments.writeHeader(SegmentFormat.VersionHeader(token, IndexReading.headers(index.all)))
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
   * Hands over the index of a batch that was abandoned because its remaining output is not needed;
   * another run of the batch can continue with it. None if it has already been handed over. A
   * failed task calls [[close]] instead.
   */
  def leaveOff(): Option[JoinIndex] = Option(held).map { _ =>
    passing.foreach(_.drop())
    handOver()
  }

  /** Drops the index, unless it has been handed over. */
  def close(): Unit = if (held != null) held.close()

  private[state] def committedIndex: JoinIndex = index

  /**
   * Hands over the committed index for the next batch. This is the last call: another task may own
   * the index from then on, so not even its rows may be counted here.
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
   *   bytes of the index in memory
   * @param payload
   *   bytes of the rows alone
   * @param stored
   *   bytes of the segments in the store
   * @param segments
   *   number of segments
   * @param unloaded
   *   number of segments that are not in memory
   */
  final case class Size(index: Long, payload: Long, stored: Long, segments: Long, unloaded: Long)

  /**
   * A broadcast side: every task receives its rows, and one task stores them. The others hold them
   * in memory, at the version of their own rows, so one token covers both. They cannot spill these
   * rows, because their stores do not contain them. So these rows have their own cap and leave the
   * budget to the other side.
   *
   * @param cap
   *   bytes in memory beyond which the task fails
   * @param open
   *   opens the store of the task that stores the side, at the version to be read
   */
  final case class ReplicatedSide(side: Side, cap: Long, open: (ReadStateStore => Unit) => Unit)
}
