package org.apache.spark.sql.streamjoin.state

import java.lang.management.ManagementFactory
import java.nio.file.Files
import java.util.UUID
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import com.sun.management.GarbageCollectionNotificationInfo
import javax.management.openmbean.CompositeData
import javax.management.{NotificationEmitter, NotificationListener}
import org.apache.hadoop.conf.Configuration

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

import streamjoin.core.Side

/**
 * Not a test, but a measurement: a backlog of a gigabyte, both sides together, in one batch of one
 * task, with RocksDB and little memory. Prints the peak of the index, the peak of the heap in use
 * after a collection, and the time of each step. It runs by one command, with a heap that would not
 * hold the rows:
 * {{{
 *   sbt 'set spark / Test / javaOptions += "-Xmx700m"' \
 *     "spark/Test/runMain org.apache.spark.sql.streamjoin.state.BacklogHeap 64 1024"
 * }}}
 * The arguments are the budget of the index and the size of the backlog, in MiB.
 */
object BacklogHeap {
  private val types = Array[DataType](LongType, TimestampType, BinaryType)
  private val projection = UnsafeProjection.create(types)
  private val layout = new RowLayout(types.toSeq, Array(0), Array(1), Array(0))
  private val Wide = Array.fill[Byte](64)(7)
  private val RowBytes = 112L

  private val Hour = 3600L * 1000000
  private val Width = Hour / 8

  def main(arguments: Array[String]): Unit = {
    val (budget, backlog) = (arguments(0).toLong << 20, arguments(1).toLong << 20)
    val folder = Files.createTempDirectory("streamjoin-backlog-")
    val provider = new RocksDBStateStoreProvider
    provider.init(
      StateStoreId(folder.toString, 0, 0),
      SegmentStore.KeySchema,
      SegmentStore.ValueSchema,
      NoPrefixKeyStateEncoderSpec(SegmentStore.KeySchema),
      useColumnFamilies = false,
      new StateStoreConf(new SQLConf),
      new Configuration(false) { set("sql.streaming.runId", UUID.randomUUID().toString) }
    )
    try work(provider, budget, (backlog / 2 / RowBytes).toInt)
    finally {
      provider.close()
      JavaUtils.deleteRecursively(folder.toFile)
    }
    sys.exit(0)
  }

  /** The most bytes in use after a collection so far. */
  private def watchHeap(): AtomicLong = {
    val most = new AtomicLong
    val listener: NotificationListener = (event, _) => {
      val info = GarbageCollectionNotificationInfo.from(event.getUserData.asInstanceOf[CompositeData])
      val used = info.getGcInfo.getMemoryUsageAfterGc.values.asScala.map(_.getUsed).sum
      most.accumulateAndGet(used, (one, other) => math.max(one, other)): Unit
    }
    ManagementFactory.getGarbageCollectorMXBeans.asScala.foreach { collector =>
      collector.asInstanceOf[NotificationEmitter].addNotificationListener(listener, null, null)
    }
    most
  }

  /**
   * Two hours of rows; every row has a partner minutes away, and arrives up to a quarter of an hour
   * out of order.
   */
  private def work(provider: StateStoreProvider, budget: Long, count: Int): Unit = {
    val heap = watchHeap()
    val state =
      new JoinState(provider.getStore(0, None), Seq(layout, layout), Seq(Width, Width), budget, None)
    var peak = 0L
    def look(): Unit = peak = math.max(peak, state.committedIndex.used)
    def timed[T](what: String)(step: => T): T = {
      val begun = System.nanoTime()
      val result = step
      look()
      println(f"$what%-14s ${(System.nanoTime() - begun) / 1e9}%6.1f s, index at most ${peak >> 20}%4d MiB")
      result
    }
    println(s"$count rows a side, budget ${budget >> 20} MiB, heap ${Runtime.getRuntime.maxMemory >> 20} MiB")
    val pairs = Side.both.map { side =>
      timed(s"${side.name} append") {
        (0 until count).foreach { i =>
          val late = (i * 7919L % 900 - 450) * 1000000
          val time = i * 2 * Hour / count + late + side.index * 60000000L
          state.append(side, projection(InternalRow(i.toLong, time, Wide)))
          if (i % 1000 == 0) look()
        }
      }
      timed(s"${side.name} meets") {
        val matches =
          state.matches(
            side,
            if (side == Side.Left) ProbeTimeRange(Nil, Seq(0 -> Hour))
            else ProbeTimeRange(Seq(0 -> Hour), Nil)
          )
        var found = 0L
        while (matches.next()) {
          found += 1
          if (found % 1000 == 0) look()
        }
        found
      }
    }.sum
    assert(pairs == count, s"$pairs pairs of $count")
    timed("evict")(Side.both.foreach(state.expired(_, Array(Hour / 10), unmatched = false).next()))
    timed("commit")(state.commit())
    val size = state.size
    println(
      s"${size.segments} segments, ${size.stored >> 20} MiB, ${size.unloaded} unloaded; index ${size.index >> 20} MiB"
    )
    println(s"heap after a collection at most ${heap.get >> 20} MiB")
  }
}
