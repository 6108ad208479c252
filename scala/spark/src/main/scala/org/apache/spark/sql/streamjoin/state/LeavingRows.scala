package org.apache.spark.sql.streamjoin.state

import java.nio.ByteBuffer

import scala.collection.mutable

import streamjoin.core.Side

/**
 * Rows that can match nothing, taken over from another state that has kept them: the first batch
 * emits those that are due, and none is left after it. They are pages of rows, each with its
 * length.
 */
final private[streamjoin] class LeavingRows private[state] (store: SegmentStore) {
  import LeavingRows._

  private val pages = Side.both.map(side => side -> new Page(side)).toMap

  def add(side: Side, row: Array[Byte]): Unit = pages(side).add(row)

  /** Called before the state is committed. */
  private[state] def write(): Unit = pages.values.foreach(_.write())

  /** The rows of a side, which are removed. */
  def take(side: Side): Iterator[Array[Byte]] = Iterator
    .from(0)
    .map(number => store.takeLeaving(side.index, number.toLong))
    .takeWhile(_.isDefined)
    .flatten
    .flatMap { page =>
      val content = ByteBuffer.wrap(page)
      Iterator.continually(content).takeWhile(_.hasRemaining).map { rest =>
        val row = new Array[Byte](rest.getInt())
        rest.get(row)
        row
      }
    }

  final private class Page(side: Side) {
    private val rows = mutable.ArrayBuffer.empty[Array[Byte]]
    private var bytes = 0
    private var number = 0L

    def add(row: Array[Byte]): Unit = {
      if (bytes + row.length > PageBytes) write()
      rows += row
      bytes += 4 + row.length
    }

    def write(): Unit = if (rows.nonEmpty) {
      val content = ByteBuffer.allocate(bytes)
      rows.foreach(row => content.putInt(row.length).put(row))
      store.writeLeaving(side.index, number, content.array)
      number += 1
      rows.clear()
      bytes = 0
    }
  }
}

private object LeavingRows {
  private val PageBytes = 1 << 20
}
