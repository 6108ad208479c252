package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.execution.streaming.state.ReadStateStore
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

import streamjoin.core.Side

/**
 * Reads the index of a [[JoinState]] from a version of its store: all of it, or the missing part.
 */
private[streamjoin] object IndexReading {

  def checkReplicated(index: JoinIndex, store: ReadStateStore): Unit =
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

  /** Always two, independent of the number of buffers: the format has two sides. */
  def headers(buffers: Seq[Buffer]): Seq[SegmentFormat.SideHeader] = {
    val all = buffers.map(header)
    all.padTo(2, all.last.copy(segments = 0, flagged = 0, rows = 0))
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

  def read(
      segments: SegmentStore,
      header: Option[SegmentFormat.VersionHeader],
      layouts: Seq[RowLayout],
      bucketWidths: Seq[Long],
      budget: Long,
      replicated: Option[JoinState.ReplicatedSide],
      executor: ExecutorMemory.Limit,
      byLifetimes: Seq[Option[LifetimeWidth]] = Nil
  ): JoinIndex = {
    val memory = new IndexMemory(budget, executor)
    val replicatedMemory = replicated.map(from => new IndexMemory(from.cap, executor))
    val buffers = layouts.indices.map { number =>
      val width = header.fold(bucketWidths(number))(_.sides(number).bucketWidth)
      val isReplicated = replicated.exists(_.side.index == number)
      val heldBy = if (isReplicated) replicatedMemory.get else memory
      new Buffer(
        number,
        layouts(number),
        width,
        heldBy,
        isDurable = !isReplicated,
        byLifetimes.lift(number).flatten
      )
    }
    val index = new JoinIndex(buffers, memory, replicatedMemory)
    fill(index, segments, header, replicated, hasBase = false)
    index
  }

  /**
   * Resets an index to the version with which its last batch started. The cost depends on the
   * segments that the batch changed, not on the size of the state; a broadcast side is reread
   * completely.
   */
  def rewind(
      index: JoinIndex,
      segments: SegmentStore,
      header: Option[SegmentFormat.VersionHeader],
      replicated: Option[JoinState.ReplicatedSide]
  ): JoinIndex = {
    fill(index, segments, header, replicated, hasBase = true)
    index
  }

  /**
   * Reads the segments that a version has and an index lacks.
   *
   * @param hasBase
   *   whether the index still has the segments that its last batch did not change; otherwise it is
   *   empty
   */
  private def fill(
      index: JoinIndex,
      segments: SegmentStore,
      header: Option[SegmentFormat.VersionHeader],
      replicated: Option[JoinState.ReplicatedSide],
      hasBase: Boolean
  ): Unit =
    try {
      // The second side of an operator with one input is empty.
      if (header.exists(_.sides.drop(index.all.size).exists(_.segments > 0)))
        segments.fail(s"rows of ${header.get.sides.size} sides in place of ${index.all.size}")
      fill(index, index.all.filter(_.isDurable), segments, header, hasBase)
      if (header.isDefined) replicated.foreach { from =>
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
      (bucket, number) <- buffer.rewind(version.sides(buffer.side))
    } yield (buffer.side, bucket, number)
    val loaded = new JoinIndex.Loaded(index.memory, segments)
    def make(side: Int, bucket: Long): Option[Segment] = bySide.get(side).map(_.newSegment(bucket))
    def take(side: Int, segment: Segment, load: () => Unit): Unit = {
      bySide(side).add(segment)
      if (bySide(side).isDurable) loaded.offer(bySide(side), segment, load) else load()
      checkReplicated(index, segments.store)
    }
    if (hasBase) segments.readSome(lacking)(make)(take) else segments.readAll(make)(take)
    loaded.shrink()
    buffers.foreach(buffer => complete(buffer, header.map(_.sides(buffer.side)), segments))
  }

  /** A checksum cannot reveal a missing or an extra value, so the header counts them. */
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
   * The index of a committed version, for another query or process to read. Nothing is written to
   * the store, and no other index counts its memory. The caller must release the store.
   */
  def readOnly(store: ReadStateStore, layouts: Seq[RowLayout], budget: Long): JoinIndex = {
    val segments = new SegmentStore(store)
    read(segments, segments.readHeader(), layouts, Seq(1L, 1L), budget, None, ExecutorMemory.unlimited)
  }
}
