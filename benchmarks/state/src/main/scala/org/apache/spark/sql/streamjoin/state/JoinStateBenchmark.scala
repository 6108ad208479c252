package org.apache.spark.sql.streamjoin.state

import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import streamjoin.core.Side

/**
 * The state engine alone, in microseconds for 10,000 rows, with 100,000 or 1,000,000 rows in state:
 * orders with eight-byte keys, five milliseconds apart, and their deliveries within the following
 * hour. The store is an in-memory map, so that only our code is measured.
 */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 2)
class JoinStateBenchmark {
  import JoinStateBenchmark._

  @Param(Array("100000", "1000000"))
  var rowsInState: Int = _

  private var orders: Array[UnsafeRow] = _
  private var deliveries: Array[UnsafeRow] = _
  private var store: MapStore = _
  private var state: JoinState = _

  @Setup(Level.Trial)
  def makeRows(): Unit = {
    orders = Array.tabulate(Batch)(i => row(rowsInState + i, time(rowsInState + i)))
    deliveries = Array.tabulate(Batch) { i =>
      val order = (i.toLong * 7919) % rowsInState
      row(order, time(rowsInState.toLong))
    }
  }

  /** As after some batches, with nothing left to be written. */
  @Setup(Level.Iteration)
  def fill(): Unit = {
    store = new MapStore
    state = open(None)
    (0 until rowsInState).foreach(i => state.append(Side.Left, row(i, time(i))))
    state.commit()
    state = open(Some(state.committedIndex))
  }

  private def open(cached: Option[JoinIndex]): JoinState =
    new JoinState(store, Seq(Layout, Layout), Seq(Width, Width), Long.MaxValue, cached)

  private def row(id: Long, time: Long): UnsafeRow =
    Rows(InternalRow(id, time, UTF8String.fromString("customer-" + id % 10007), id * 7919 % 20000)).copy()

  /** The rows of a batch are appended and written. */
  @Benchmark
  def insert(): Long = {
    orders.foreach(state.append(Side.Left, _))
    state.commit()
    state = open(Some(state.committedIndex))
    state.rows(Side.Left)
  }

  /** Each row of a batch finds its one partner among the rows in state, an hour of them. */
  @Benchmark
  def probe(): Long = {
    deliveries.foreach(state.append(Side.Right, _))
    val matches = state.matches(Side.Right, ProbeTimeRange(Seq(0 -> Hour), Seq(0 -> 0L)))
    var found = 0L
    while (matches.next()) found += matches.otherRow.getLong(3)
    // Out again, so that the next call finds the same state.
    state.expired(Side.Right, Array(Long.MaxValue), unmatched = false).next()
    found
  }

  /** A batch that evicts nothing. */
  @Benchmark
  def evictNothing(): Long = {
    val expired = state.expired(Side.Left, Array(time(0)), unmatched = true)
    expired.next()
    expired.evicted
  }

  /** The rows of the store are read again, and their index is made. */
  @Benchmark
  def rebuild(): Long = {
    val again = open(None)
    again.committedIndex.buffer(Side.Left).segments.map(_.keys.index.refs.length.toLong).sum
  }
}

/** What can be done once only: each call has a state of its own. */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.SingleShotTime))
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 10)
@Measurement(iterations = 20)
class EvictBenchmark {
  import JoinStateBenchmark._

  @Param(Array("100000", "1000000"))
  var rowsInState: Int = _

  private var state: JoinState = _

  @Setup(Level.Invocation)
  def fill(): Unit = {
    state = new JoinState(new MapStore, Seq(Layout, Layout), Seq(Width, Width), Long.MaxValue, None)
    (0 until rowsInState).foreach { i =>
      state.append(Side.Left, Rows(InternalRow(i.toLong, time(i), UTF8String.fromString("customer"), 0L)))
    }
    state.commit()
  }

  /** All rows leave, and none of them is requested. */
  @Benchmark
  def evictAll(): Long = evict(unmatched = false)

  /** All rows leave and are emitted, as in an outer join. */
  @Benchmark
  def evictAndShowAll(): Long = evict(unmatched = true)

  private def evict(unmatched: Boolean): Long = {
    val expired = state.expired(Side.Left, Array(Long.MaxValue), unmatched)
    while (expired.next()) {}
    expired.evicted
  }
}

private object JoinStateBenchmark {
  val Batch = 10000
  val Hour: Long = 3600L * 1000000
  val Width: Long = Hour / 8

  private val types: Seq[DataType] = Seq(LongType, TimestampType, StringType, LongType)
  val Rows: UnsafeProjection = UnsafeProjection.create(types.toArray)
  val Layout = new RowLayout(types, Array(0), Array(1), Array(0))

  def time(order: Long): Long = 1000000L * 1000000 + order * 5000
}
