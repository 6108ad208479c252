package org.apache.spark.sql.streamjoin.state

import java.nio.file.{Files, Path}
import java.util.UUID

import scala.collection.mutable
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.logging.log4j.Level
import org.apache.logging.log4j.core.config.Configurator
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{BeforeAndAfterAll, BeforeAndAfterEach}

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streamjoin.{LocalFiles, SparkTest, StreamJoinRuntimeException}
import org.apache.spark.sql.types.{LongType, StructType}

import streamjoin.core.{Left, Right, Side}

/**
 * Random work on the state of a task, and the same on a plain map: what is found, what leaves and what is
 * there after a commit, an abort, a reload from the store have to agree.
 */
class RowJoinStateSuite extends AnyFunSuite with BeforeAndAfterAll with BeforeAndAfterEach {

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    // The stores say what they do at every step.
    Configurator.setRootLevel(Level.OFF)
  }

  /** A row: its number, which no other has, its key and its two times. */
  private case class Plain(side: Side, number: Long, key: Long, times: Seq[Long], matched: Boolean = false)

  private val rowOf = UnsafeProjection.create(
    new StructType().add("number", LongType).add("key", LongType).add("t0", LongType).add("t1", LongType)
  )
  private val keyOf = UnsafeProjection.create(new StructType().add("key", LongType))
  private def key(value: Long): UnsafeRow = keyOf(InternalRow(value)).copy()

  private def kept(side: Side, row: UnsafeRow): KeptRow =
    new KeptRow(side, key(row.getLong(1)), row, Array(row.getLong(2), row.getLong(3)))

  private def kept(plain: Plain): KeptRow =
    kept(plain.side, rowOf(InternalRow(plain.number, plain.key, plain.times.head, plain.times(1))).copy())

  private def plain(row: KeptRow): Plain =
    Plain(row.side, row.row.getLong(0), row.row.getLong(1), row.times.toSeq, row.matched)

  private var folder: Path = _

  override protected def beforeEach(): Unit = {
    super.beforeEach()
    folder = Files.createTempDirectory("streamjoin-state-")
  }

  override protected def afterEach(): Unit = {
    JavaUtils.deleteRecursively(folder.toFile)
    super.afterEach()
  }

  private val providers: Seq[(String, () => StateStoreProvider)] = Seq(
    "default store" -> (() => new HDFSBackedStateStoreProvider),
    "RocksDB" -> (() => new RocksDBStateStoreProvider)
  )

  private def open(provider: StateStoreProvider, operator: Long = 0L): StateStoreProvider = {
    val conf = new Configuration
    conf.set("sql.streaming.runId", UUID.randomUUID().toString)
    conf.set("fs.file.impl", classOf[LocalFiles].getName)
    conf.set(
      "spark.sql.streaming.checkpointFileManagerClass",
      classOf[FileSystemBasedCheckpointFileManager].getName
    )
    provider.init(
      StateStoreId(folder.toString, operator, 0),
      RowJoinState.KeySchema,
      RowJoinState.ValueSchema,
      NoPrefixKeyStateEncoderSpec(RowJoinState.KeySchema),
      useColumnFamilies = false,
      StateStoreConf.empty,
      conf
    )
    provider
  }

  private val two: Map[Side, Int] = Side.both.map(_ -> 2).toMap

  private def on(store: StateStore, cached: Option[RowIndex] = None): RowJoinState =
    new RowJoinState(store, two, cached, kept(_, _))

  private def rows(state: RowJoinState, keys: Seq[Long]): Set[Plain] = (for {
    side <- Side.both
    each <- keys
    row <- state.probe(side, key(each), 0, Long.MinValue, Long.MaxValue)
  } yield plain(row)).toSet

  for ((name, make) <- providers) test(s"random work agrees with a plain map, $name") {
    (1 to SparkTest.seeds(default = if (name == "RocksDB") 6 else 25)).foreach { seed =>
      val provider = open(make(), operator = seed)
      try withClue(s"seed $seed: ")(new RandomWork(seed, provider).run())
      finally provider.close()
    }
  }

  private class RandomWork(seed: Int, provider: StateStoreProvider) {
    private val random = new Random(seed)
    private val keys = (0L to random.nextLong(5)).toSeq
    private var committed = Map.empty[Long, Plain]
    private var cached: Option[RowIndex] = None
    private var version = 0L
    private var number = 0L

    def run(): Unit = (1 to 12).foreach(_ => batch())

    private def batch(): Unit = {
      val offered = if (random.nextInt(3) == 0) None else cached
      val state = on(provider.getStore(version, None), offered)
      assert(
        rows(state, keys) == committed.values.toSet,
        s"at version $version, index given: ${offered.isDefined}"
      )
      val now = mutable.Map.from(committed)
      (1 to random.nextInt(30)).foreach(_ => step(state, now))
      Side.both.foreach { side =>
        assert(state.rows(side) == now.values.count(_.side == side))
        Seq(0, 1).foreach { at =>
          assert(state.lowest(side, at) == now.values.filter(_.side == side).map(_.times(at)).minOption)
        }
      }
      if (random.nextInt(4) == 0) {
        state.abort()
        // The index has moved on, the store has not: it may be offered again, and must not be used.
        if (random.nextBoolean()) cached = None
      } else {
        state.commit()
        committed = now.toMap
        version += 1
        cached = Some(state.committedIndex)
      }
    }

    private def step(state: RowJoinState, now: mutable.Map[Long, Plain]): Unit = {
      val side = Side.both(random.nextInt(2))
      def some: Long = keys(random.nextInt(keys.size))
      def time: Long = random.between(-5L, 15L)
      random.nextInt(10) match {
        case 0 | 1 | 2 | 3 =>
          number += 1
          val row = Plain(side, number, some, Seq(time, time), matched = random.nextInt(4) == 0)
          val appended = kept(row)
          appended.matched = row.matched
          state.append(appended)
          now(number) = row
        case 4 | 5 =>
          val (at, one) = (some, random.nextInt(3))
          state.probe(side, key(at), 0, Long.MinValue, Long.MaxValue).foreach { found =>
            if (found.row.getLong(0) % 3 == one) {
              state.markMatched(found)
              now(found.row.getLong(0)) = now(found.row.getLong(0)).copy(matched = true)
            }
          }
        case 6 =>
          // Removed while they are walked through, each seen once.
          val (at, one) = (some, random.nextInt(3))
          val expected =
            now.values.filter(row => row.side == side && row.key == at).map(_.number).toSeq.sorted
          val seen = mutable.ArrayBuffer.empty[Long]
          state.probe(side, key(at), 0, Long.MinValue, Long.MaxValue).foreach { found =>
            val row = found.row.getLong(0)
            seen += row
            if (row % 3 == one) {
              state.remove(found)
              now -= row
            }
          }
          assert(seen.toSeq.sorted == expected)
        case 7 =>
          val (at, position, from) = (some, random.nextInt(2), time)
          val to = from + random.nextInt(6)
          val found = state.probe(side, key(at), position, from, to).map(_.row.getLong(0)).toSet
          val needed = now.values.filter { row =>
            row.side == side && row.key == at && row.times(position) >= from && row.times(position) <= to
          }
          assert(needed.map(_.number).toSet.subsetOf(found))
        case _ =>
          val (position, limit) = (random.nextInt(2), random.between(-6L, 6L))
          val expected = now.values.filter(row => row.side == side && row.times(position) < limit).toSeq
          val gone = state.evict(side, position, limit).map(plain).toSeq
          assert(gone.sortBy(_.number) == expected.sortBy(_.number))
          now --= expected.map(_.number)
      }
    }
  }

  test("a row evicted by one time is not evicted by the other once more") {
    val provider = open(new HDFSBackedStateStoreProvider)
    try {
      val state = on(provider.getStore(0, None))
      state.append(kept(Plain(Left, 1, 1, Seq(1, 1))))
      assert(state.evict(Left, 0, 5).size == 1)
      assert(state.evict(Left, 1, 5).isEmpty)
      assert(state.rows(Left) == 0)
      state.commit()
    } finally provider.close()
  }

  test("the limit is not below itself") {
    val provider = open(new HDFSBackedStateStoreProvider)
    try {
      val state = on(provider.getStore(0, None))
      state.append(kept(Plain(Right, 1, 1, Seq(5, 0))))
      assert(state.evict(Right, 0, 5).isEmpty)
      assert(state.evict(Right, 0, 6).map(_.row.getLong(0)).toSeq == Seq(1L))
      state.abort()
    } finally provider.close()
  }

  for ((name, make) <- providers) test(s"an index is used only where it equals the store, $name") {
    val provider = open(make())
    try {
      val first = on(provider.getStore(0, None))
      first.append(kept(Plain(Left, 1, 1, Seq(1, 1))))
      first.commit()
      val index = first.committedIndex

      val second = on(provider.getStore(1, None), Some(index))
      assert(second.reused)
      second.append(kept(Plain(Left, 2, 1, Seq(2, 2))))
      second.abort()

      // The index holds what was offered up.
      val third = on(provider.getStore(1, None), Some(index))
      assert(rows(third, Seq(1L)).map(_.number) == Set(1L))
      third.append(kept(Plain(Left, 3, 1, Seq(3, 3))))
      third.commit()

      // The batch is done again from the older version, as after a failure before the commit log.
      val again = on(provider.getStore(1, None), Some(third.committedIndex))
      assert(!again.reused)
      assert(rows(again, Seq(1L)).map(_.number) == Set(1L))
      again.abort()
    } finally provider.close()
  }

  test("a store of another format is refused by name") {
    val provider = open(new HDFSBackedStateStoreProvider)
    try {
      val state = on(provider.getStore(0, None))
      state.append(kept(Plain(Left, 1, 1, Seq(1, 1))))
      state.commit()
      val store = provider.getStore(1, None)
      val header =
        store.iterator().find(_.key.getInt(0) == 0).map(pair => (pair.key.copy(), pair.value.copy())).get
      val bytes = header._2.getBinary(0)
      bytes(7) = 9
      val value = UnsafeProjection.create(RowJoinState.ValueSchema)
      store.put(header._1, value(InternalRow(bytes)))
      store.commit()
      val error = intercept[StreamJoinRuntimeException](on(provider.getStore(2, None)))
      assert(error.getCondition == "STREAMJOIN_STATE_FORMAT")
      assert(error.getSqlState == "55000")
      assert(error.getMessage.contains("format 9"))
    } finally provider.close()
  }
}
