package org.apache.spark.sql.streamjoin.state

import java.lang.reflect.Proxy
import java.nio.ByteBuffer

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}
import org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import streamjoin.core.Side

/** One row per key, durable next to the rows of a [[JoinState]]. */
class VersionTableSuite extends StateTest {
  private val toKey = UnsafeProjection.create(new StructType().add("a", StringType).add("b", LongType))
  private val toRow = UnsafeProjection.create(new StructType().add("v", LongType).add("text", BinaryType))

  private def key(number: Int): UnsafeRow =
    toKey(InternalRow(UTF8String.fromString("k" * (number % 5)), number.toLong)).copy()
  private def row(value: Long, wide: Int): UnsafeRow =
    toRow(InternalRow(value, Array.fill(wide)(value.toByte))).copy()

  private def opened(
      store: StateStore,
      budget: Long = Long.MaxValue,
      cached: Option[JoinIndex] = None,
      hash: UnsafeRow => Long = VersionTable.hash
  ) = {
    val state = on(store, TestRows.simple, budget = budget, cached = cached)
    (state, state.versionTable(keyFields = 2, fields = 2, hash))
  }

  /** Everything in a version except the token of the commit. */
  private def content(provider: StateStoreProvider, version: Long): Set[(Seq[Byte], Seq[Byte])] =
    reading(provider, version) { store =>
      val all = store.iterator()
      try
        all
          .filter(_.key.getInt(0) != 0)
          .map(pair => (pair.key.getBytes.toSeq, pair.value.getBytes.toSeq))
          .toSet
      finally all.close()
    }

  for (store <- Seq(defaultStore, rocksDb))
    test(s"$store: random changes agree with a map, and every attempt leaves the same") {
      seeds(default = if (store == rocksDb) 2 else 10) { seed =>
        withProvider(store, partition = seed) { provider =>
          val random = new Random(seed)
          val model = mutable.Map.empty[Int, UnsafeRow]
          val keys = 1 + random.nextInt(60)
          // For every other seed, several keys share a hash.
          val hash: UnsafeRow => Long =
            if (seed % 2 == 0) VersionTable.hash else key => VersionTable.hash(key) % 7
          for (version <- 0 until 6) {
            val changes = Seq.fill(random.nextInt(2 * keys)) {
              random.nextInt(keys) -> Option.unless(random.nextInt(3) == 0)(
                row(random.nextLong(), random.nextInt(300))
              )
            }
            val room = 4L * keys * (300 + random.nextInt(300))
            // The last change of a key counts; the order of the keys does not.
            val last = changes.toMap
            val contents = Seq(changes, random.shuffle(last.toSeq), random.shuffle(last.toSeq)).zip(
              Seq(Long.MaxValue, 1L, 2000L)
            ) map { case (some, budget) =>
              val (state, table) = opened(provider.getStore(version.toLong, None), budget, hash = hash)
              (0 until keys).foreach(k => assert(Option(table.get(key(k))) == model.get(k)))
              table.expect(keys.toLong, room)
              some.foreach { case (k, value) =>
                value.fold(table.remove(key(k)))(table.put(key(k), _))
                assert(Option(table.get(key(k))) == value)
              }
              val there = (0 until keys).count(k => last.getOrElse(k, model.get(k)).isDefined)
              state.commit()
              assert(table.size == there)
              assert(state.keys == there)
              assert(state.size.index <= math.max(budget, 0))
              content(provider, version + 1L)
            }
            assert(contents.distinct.size == 1, s"version ${version + 1}")
            last.foreach { case (k, value) => value.fold(model -= k)(v => model += k -> v) }
          }
        }
      }
    }

  for (store <- Seq(defaultStore, rocksDb))
    test(s"$store: pages grow with their keys, in any order, and none is lost") {
      withProvider(store) { provider =>
        def hash(key: UnsafeRow) = VersionTable.hash(key)
        // Loaded at once in the order of their hashes, then some at a time in any order.
        val all = (0 until 3000).toVector
        val (loaded, later) = all.splitAt(1000)
        val batches = loaded.sortBy(k => hash(key(k))) +: new Random(1).shuffle(later).grouped(150).toSeq
        batches.zipWithIndex.foreach { case (some, version) =>
          val (state, table) = opened(provider.getStore(version.toLong, None))
          table.expect(some.size.toLong, some.size * 60L)
          some.foreach(k => table.put(key(k), row(k.toLong, 20)))
          assert(table.size == batches.take(version + 1).map(_.size).sum)
          assert(
            all.forall(k => (table.get(key(k)) != null) == batches.take(version + 1).exists(_.contains(k)))
          )
          state.commit()
        }
        reading(provider, batches.size.toLong) { store =>
          val pages = store.iterator().filter(_.key.getInt(0) == 9).map(_.value.getSizeInBytes).toSeq
          assert(pages.size > 100 && pages.size < all.size / 4, "several keys a page")
          assert(pages.max < 6000)
          val kept = new KeptRows(store, Nil).newestByKey(fields = 2).map(_.row.getLong(0)).toSeq
          assert(kept.sorted == all)
        }
        val (state, table) = opened(provider.getStore(batches.size.toLong, None))
        all.foreach(k => assert(table.get(key(k)) == row(k.toLong, 20)))
        all.foreach(k => table.remove(key(k)))
        state.commit()
        reading(provider, batches.size + 1L)(store => assert(kinds(store) == onlyHeader))
      }
    }

  test("a table of an older version, with a value for each hash, moves into pages") {
    withProvider() { provider =>
      val (state, _) = opened(provider.getStore(0, None))
      state.commit()
      val store = provider.getStore(1, None)
      val toStoreKey = UnsafeProjection.create(SegmentStore.KeySchema)
      def put(kind: Int, bucket: Long, content: Array[Byte]): Unit = {
        val page = SegmentFormat.writePage(content)
        val value = new UnsafeRow(1)
        value.pointTo(page, page.length)
        store.put(toStoreKey(InternalRow(kind, 0, bucket, 0L)), value)
      }
      // Several keys share a hash, and one key is deleted.
      val hash: UnsafeRow => Long = key => VersionTable.hash(key) % 50
      val entries = (1 to 200).map(k => VersionTable.entryOf(key(k), row(k.toLong, k), None)) :+
        VersionTable.entryOf(key(201), row(-201, 3), until = Some(20L))
      entries.zipWithIndex.groupBy { case (_, at) => hash(key(at + 1)) }.foreach { case (hash, of) =>
        put(4, hash, of.map(_._1).reduce(_ ++ _))
      }
      put(5, 0, ByteBuffer.allocate(16).putLong(200).putLong(1).array)
      store.commit()
      val (moved, table) = opened(provider.getStore(2, None), hash = hash)
      assert((table.size, table.deletedKeys) == ((200, 1)))
      def isWhole(table: VersionTable) =
        (1 to 200).forall(k => table.get(key(k)) == row(k.toLong, k)) &&
          table.get(key(201), from = 20) == row(-201, 3)
      assert(isWhole(table))
      moved.commit()
      val (again, same) = opened(withoutScan(provider.getStore(3, None)), hash = hash)
      assert((same.size, same.deletedKeys) == ((200, 1)) && isWhole(same))
      again.abort()
      reading(provider, 3)(store => assert(!kinds(store).contains(4)))
    }
  }

  test("an abort undoes all changes, and removed keys leave nothing") {
    withProvider() { provider =>
      val (state, table) = opened(provider.getStore(0, None))
      (1 to 20).foreach(k => table.put(key(k), row(k.toLong, 10)))
      state.commit()
      val (given, up) = opened(provider.getStore(1, None), budget = 1)
      (1 to 20).foreach(k => up.remove(key(k)))
      given.abort()
      val (again, all) = opened(provider.getStore(1, None))
      (1 to 20).foreach { k =>
        assert(all.get(key(k)) == row(k.toLong, 10))
        all.remove(key(k))
      }
      assert(all.get(key(3)) == null)
      again.commit()
      reading(provider, 2)(store => assert(kinds(store) == onlyHeader))
    }
  }

  test("a restart reads the rows of the state, and does not scan all keys of the table") {
    withProvider() { provider =>
      val rows = TestRows.simple
      val (first, table) = opened(provider.getStore(0, None))
      (1 to 20).foreach(k => table.put(key(k), row(k.toLong, 10)))
      (1L to 50L).foreach(n => first.append(Side.Right, rows(TestRows.simple(n, key = n % 3, time = n))))
      first.commit()
      val (second, again) = opened(withoutScan(provider.getStore(1, None)))
      assert(second.rows(Side.Right) == 50)
      assert(again.get(key(3)) == row(3, 10))
      assert(evict(second, Side.Right, unmatched = true, 30) == (1L to 29L))
      second.commit()
      val (third, _) = opened(withoutScan(provider.getStore(2, None)))
      assert(third.rows(Side.Right) == 21)
      third.abort()
      damaged(provider, version = 2)
    }
  }

  private def withoutScan(store: StateStore): StateStore = Proxy
    .newProxyInstance(
      getClass.getClassLoader,
      Array(classOf[StateStore]),
      (_, method, arguments) => {
        assert(method.getName != "iterator", "all keys are scanned")
        method.invoke(store, arguments: _*)
      }
    )
    .asInstanceOf[StateStore]

  /** A segment that the catalogue has but the store does not. */
  private def damaged(provider: StateStoreProvider, version: Long): Unit = {
    val store = provider.getStore(version, None)
    val segment = store.iterator().map(_.key.copy()).find(_.getInt(0) == 1).get
    store.remove(segment)
    store.commit()
    val error = intercept[StreamJoinRuntimeException](opened(provider.getStore(version + 1, None)))
    assert(error.getCondition == "STREAMJOIN_STATE_FORMAT")
    assert(error.getMessage.contains("no segment"))
  }

  test("a deletion is kept for as long as it is remembered, and then leaves nothing") {
    withProvider() { provider =>
      // Several keys share a hash; deleting one must leave the others.
      val hash: UnsafeRow => Long = key => VersionTable.hash(key) % 3
      def next(version: Int)(use: VersionTable => Unit) = {
        val (state, table) = opened(withoutScan(provider.getStore(version.toLong, None)), hash = hash)
        use(table)
        state.commit()
        (table.size, table.deletedKeys, state.deletedKeys)
      }
      val (first, table) = opened(provider.getStore(0, None), hash = hash)
      (1 to 10).foreach(k => table.put(key(k), row(k.toLong, 10)))
      (1 to 6).foreach(k => table.delete(key(k), row(-k.toLong, 3), until = 20, span = 5))
      assert(table.get(key(1), from = 20) == row(-1, 3))
      assert(table.get(key(1), from = 21) == null)
      assert(table.get(key(1)) == null)
      assert(table.get(key(7)) == row(7, 10))
      first.commit()
      val counts = next(1) { table =>
        assert(table.size == 4)
        assert(table.deletedKeys == 6)
        assert(table.get(key(6), from = 3) == row(-6, 3))
        // One comes back, one is deleted again, others go in a chunk of their own.
        table.put(key(1), row(100, 1))
        table.delete(key(2), row(-200, 1), until = 40, span = 5)
        table.delete(key(9), row(-9, 1), until = 24, span = 5)
        table.forget(20)
      }
      assert(counts == ((4, 6, 6)))
      val later = next(2) { table =>
        table.forget(25)
        assert(table.get(key(2), from = 25) == row(-200, 1))
        assert(table.get(key(1)) == row(100, 1))
        assert((3 to 6).forall(k => table.get(key(k), from = 0) == null))
      }
      assert(later == ((4, 1, 1)))
      val (last, all) = opened(withoutScan(provider.getStore(3, None)), hash = hash)
      all.forget(41)
      Seq(1, 7, 8, 10).foreach(k => all.remove(key(k)))
      last.commit()
      reading(provider, 4)(store => assert(kinds(store) == onlyHeader))
    }
  }

  test("entries move into another table as they are, also if their keys share a hash") {
    withProvider() { provider =>
      val hash: UnsafeRow => Long = _ => 7L
      val (first, table) = opened(provider.getStore(0, None), hash = hash)
      (1 to 4).foreach(k => table.put(key(k), row(k.toLong, 10)))
      table.delete(key(2), row(-2, 3), until = 20, span = 5)
      first.commit()
      val entries = reading(provider, 1)(new KeptRows(_, Nil).entries(keyFields = 2).map(_._2).toSeq)
      val (second, moved) = opened(provider.getStore(0, None), hash = hash)
      entries.foreach(moved.add(_, span = 5))
      assert((moved.size, moved.deletedKeys) == ((3, 1)))
      Seq(1, 3, 4).foreach(k => assert(moved.get(key(k)) == row(k.toLong, 10)))
      assert(moved.get(key(2), from = 20) == row(-2, 3))
      second.commit()
    }
  }

  test("many deletions at once are in values that a store can take") {
    withProvider() { provider =>
      val (first, table) = opened(provider.getStore(0, None))
      val deleted = 70000
      (1 to deleted).foreach(k => table.delete(key(k), row(0, 0), until = 20, span = 5))
      first.commit()
      reading(provider, 1) { store =>
        val all = store.iterator()
        val largest =
          try all.filter(_.key.getInt(0) == 7).map(_.value.getSizeInBytes).max
          finally all.close()
        assert(largest < (1 << 20))
      }
      val (second, again) = opened(provider.getStore(1, None))
      assert(again.deletedKeys == deleted)
      again.forget(21)
      second.commit()
      reading(provider, 2)(store => assert(kinds(store) == onlyHeader))
    }
  }
}
