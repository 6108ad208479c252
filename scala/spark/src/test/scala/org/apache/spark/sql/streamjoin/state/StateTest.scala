package org.apache.spark.sql.streamjoin.state

import java.nio.file.{Files, Path}
import java.util.UUID

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.logging.log4j.Level
import org.apache.logging.log4j.core.config.Configurator
import org.scalatest.exceptions.TestFailedException
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{BeforeAndAfterAll, BeforeAndAfterEach}

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.files.AtomicCheckpointFileManager
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import streamjoin.core.Side

/** State stores without a query, in a new folder for each test. */
abstract class StateTest extends AnyFunSuite with BeforeAndAfterAll with BeforeAndAfterEach {

  protected var folder: Path = _

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    // The stores log every step.
    Configurator.setRootLevel(Level.OFF)
  }

  override protected def beforeEach(): Unit = {
    super.beforeEach()
    folder = Files.createTempDirectory("streamjoin-state-")
  }

  override protected def afterEach(): Unit = {
    JavaUtils.deleteRecursively(folder.toFile)
    super.afterEach()
  }

  /** Runs random cases; a failure of any kind names its seed. */
  protected def seeds(default: Int)(body: Int => Unit): Unit =
    (1 to SparkTest.seeds(default)).foreach { seed =>
      try withClue(s"seed $seed: ")(body(seed))
      catch {
        case failed: TestFailedException => throw failed
        case NonFatal(other) => fail(s"seed $seed: $other", other)
      }
    }

  protected val defaultStore = "default store"
  protected val rocksDb = "RocksDB"

  protected def withProvider[T](
      store: String = defaultStore,
      operator: Long = 0L,
      partition: Int = 0
  )(body: StateStoreProvider => T): T = {
    val provider: StateStoreProvider =
      if (store == rocksDb) new RocksDBStateStoreProvider else new HDFSBackedStateStoreProvider
    val conf = new Configuration
    conf.set("sql.streaming.runId", UUID.randomUUID().toString)
    conf.set(AtomicCheckpointFileManager.Setting, classOf[AtomicCheckpointFileManager].getName)
    val settings = new SQLConf
    // Without this, the next open would wait for a store that a failed test left open.
    settings.setConfString("spark.sql.streaming.stateStore.rocksdb.lockAcquireTimeoutMs", "1000")
    provider.init(
      StateStoreId(folder.toString, operator, partition),
      SegmentStore.KeySchema,
      SegmentStore.ValueSchema,
      NoPrefixKeyStateEncoderSpec(SegmentStore.KeySchema),
      useColumnFamilies = false,
      new StateStoreConf(settings),
      conf
    )
    val result =
      try body(provider)
      catch {
        case failed: Throwable =>
          // The failure matters, not that a store is still open.
          Try(provider.close())
          throw failed
      }
    provider.close()
    result
  }

  /** The number of values in a store, by kind as in [[SegmentStore]]. */
  protected def kinds(store: ReadStateStore): Map[Int, Int] = {
    val all = store.iterator()
    try all.map(_.key.getInt(0)).toSeq.groupBy(identity).map { case (kind, of) => kind -> of.size }
    finally all.close()
  }

  /** What is left once all rows are gone. */
  protected val onlyHeader: Map[Int, Int] = Map(0 -> 1)

  /** A row of an index, as appended. */
  protected case class Found(side: Side, row: UnsafeRow, matched: Boolean)

  /** A segment of these rows, and their places in it. */
  protected def segmentOf(
      layout: RowLayout,
      memory: IndexMemory,
      rows: Seq[UnsafeRow]
  ): (Segment, Seq[Int]) = {
    val bytes = SegmentFormat.RowsAt + rows.map(row => Segment.sizeOf(row.getSizeInBytes)).sum
    val segment = new Segment(layout, 0, memory, bytes)
    (segment, rows.map(segment.append))
  }

  /** The rows of an index, in memory or not; no segment is loaded or unloaded by it. */
  protected def rowsOf(index: JoinIndex, store: ReadStateStore): Seq[Found] = {
    val segments = new SegmentStore(store)
    Side.both.flatMap { side =>
      val buffer = index.buffer(side)
      buffer.segments.toSeq.flatMap { segment =>
        val found = mutable.ArrayBuffer.empty[Found]
        val wasLoaded = segment.isLoaded
        buffer.load(segment, segments)
        segment.foreachLive { (_, place) =>
          val row = new UnsafeRow(segment.layout.fields)
          segment.point(row, place)
          found += Found(side, row.copy(), segment.isMatched(place))
        }
        if (!wasLoaded) segment.unload()
        found
      }
    }
  }

  /** Reads a committed version, and releases it at the end. */
  protected def reading[T](provider: StateStoreProvider, version: Long)(body: ReadStateStore => T): T = {
    val store = provider.getReadStore(version, None)
    try body(store)
    finally store.release()
  }

  /** The row numbers of the pairs that a probe finds, sorted. */
  protected def pairs(state: JoinState, side: Side, reach: ProbeTimeRange): Seq[(Long, Long)] = {
    val matches = state.matches(side, reach)
    Iterator
      .continually(matches)
      .takeWhile(_.next())
      .map(found => (TestRows.number(found.ownRow), TestRows.number(found.otherRow)))
      .toSeq
      .sorted
  }

  /** The numbers of the rows that eviction returns, sorted. */
  protected def evict(state: JoinState, side: Side, unmatched: Boolean, below: Long*): Seq[Long] = {
    val expired = state.expired(side, below.toArray, unmatched)
    Iterator.continually(expired).takeWhile(_.next()).map(gone => TestRows.number(gone.row)).toSeq.sorted
  }

  /** A state whose two sides have the same layout. */
  protected def on(
      store: StateStore,
      rows: TestRows,
      width: Long = 10L,
      budget: Long = Long.MaxValue,
      cached: Option[JoinIndex] = None
  ): JoinState = new JoinState(store, Seq(rows.layout, rows.layout), Seq(width, width), budget, cached)

  protected val anyTime: ProbeTimeRange = ProbeTimeRange(Nil, Nil)
}

/**
 * A row of a test: its unique number, its key, its two times, and the number of bytes it has
 * besides.
 */
final private[state] case class TestRow(number: Long, key: Seq[Any], times: Seq[Long], wide: Int = 0)

/**
 * The rows of one side.
 *
 * @param expiring
 *   indexes of the times that expire rows
 * @param timesFirst
 *   whether the times come before the key
 */
final private[state] class TestRows(
    keyTypes: Seq[DataType],
    val expiring: Seq[Int],
    timesFirst: Boolean = false
) {
  private val keys = keyTypes.zipWithIndex.map { case (of, i) => StructField(s"key$i", of) }
  private val times = Seq("t0", "t1").map(StructField(_, LongType))
  private val fields = StructField("number", LongType) +:
    ((if (timesFirst) times ++ keys else keys ++ times) :+ StructField("wide", BinaryType))
  private val keysAt = if (timesFirst) 3 else 1
  private val timesAt = if (timesFirst) 1 else 1 + keys.size

  val layout: RowLayout = new RowLayout(
    fields.map(_.dataType),
    keys.indices.map(_ + keysAt).toArray,
    Array(timesAt, timesAt + 1),
    expiring.toArray
  )
  private val projection = UnsafeProjection.create(StructType(fields))

  /** Overwritten by the next call, as rows are that reach an operator. */
  def apply(row: TestRow): UnsafeRow = {
    val key = row.key.map {
      case text: String => UTF8String.fromString(text)
      case other => other
    }
    val wide = Array.fill(row.wide)(row.number.toByte)
    projection(
      InternalRow.fromSeq(
        row.number +: ((if (timesFirst) row.times ++ key else key ++ row.times) :+ wide)
      )
    )
  }
}

private[state] object TestRows {
  def number(row: UnsafeRow): Long = row.getLong(0)

  /** With a number as the key; rows expire by their first time. */
  def simple: TestRows = new TestRows(Seq(LongType), Seq(0))
  def simple(number: Long, key: Long, time: Long, wide: Int = 0): TestRow =
    TestRow(number, Seq(key), Seq(time, time), wide)
}
