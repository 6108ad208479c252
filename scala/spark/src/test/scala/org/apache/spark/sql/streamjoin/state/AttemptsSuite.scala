package org.apache.spark.sql.streamjoin.state

import java.nio.ByteBuffer

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider
import org.apache.spark.sql.streamjoin.SparkTest

import streamjoin.core.Side

/**
 * Two attempts at a task leave the same in the store, whatever differs between them: the order of
 * the rows, the amount of memory, whether the index is in memory or is taken back to where the
 * batch began. So it does not matter whose files are read later, or whose index the next batch
 * uses.
 */
class AttemptsSuite extends StateTest {

  /** The contents of the store that are read again: rows in their places, with their flags. */
  private case class Stored(side: Int, bucket: Long, number: Long, flagsApart: Boolean, rows: Seq[StoredRow])
  private case class StoredRow(bytes: ByteBuffer, matched: Boolean, gone: Boolean)

  private def stored(provider: StateStoreProvider, version: Long, layouts: Seq[RowLayout]): Seq[Stored] = {
    val store = provider.getReadStore(version, None)
    try
      IndexReading.readOnly(store, layouts, Long.MaxValue).all.flatMap { buffer =>
        buffer.segments.map { segment =>
          val row = new UnsafeRow(segment.layout.fields)
          val rows = Seq.newBuilder[StoredRow]
          segment.foreachPlace { (_, place) =>
            segment.point(row, place)
            rows += StoredRow(ByteBuffer.wrap(row.getBytes), segment.isMatched(place), segment.isGone(place))
          }
          Stored(buffer.side, segment.bucket, segment.number, segment.flagsInStore, rows.result())
        }
      }
    finally store.abort()
  }

  /** The batches of one seed, each run by several attempts. */
  final private class Batches(
      seed: Int,
      provider: StateStoreProvider,
      rowsOfMany: Option[Int],
      width: Option[Long] = None
  ) {
    private val random = new Random(seed)
    private val traits = new JoinStateTraits(random)
    import traits._

    private val widths = width.fold(bucketWidths)(Seq.fill(2)(_))

    private val shapes = Side.both.map(side => side -> new TestRows(keyTypes, expiring(side))).toMap
    private val layouts = Side.both.map(shapes(_).layout)
    private val limits =
      mutable.Map.from(Side.both.map(side => side -> expiring(side).map(_ => Long.MinValue)))
    private var version = 0L
    private var number = 0L
    private var cached: Option[JoinIndex] = None

    private val leaving = one(0, 2, 5)
    private def leaves(number: Long): Boolean = leaving > 0 && number % leaving == 0

    private case class Batch(rows: Map[Side, Seq[TestRow]], below: Map[Side, Array[Long]])

    def run(batches: Int): Unit = (1 to batches).foreach { at =>
      withClue(s"batch $at: ") {
        if (!isAnywhere) now += random.nextInt(15) * scale
        val batch = Batch(
          Side.both.map(side => side -> newRows()).toMap,
          Side.both.map(side => side -> limits(side).map(limit).toArray).toMap
        )
        val first = attempt(batch, Long.MaxValue, cached)
        val firstIndex = cached
        // More attempts from the same version; chance decides whose index the next batch gets.
        for (_ <- 1 to (if (rowsOfMany.isEmpty || SparkTest.isLong) 2 else 1)) {
          val shuffled = batch.copy(rows = batch.rows.transform((_, rows) => random.shuffle(rows)))
          val again =
            attempt(shuffled, budget(), if (version > 0 && oneIn(2)) cached else None, isFirst = false)
          assert(again.map(_.copy(rows = Nil)) == first.map(_.copy(rows = Nil)))
          assert(again == first)
        }
        version += 1
        batch.below.foreach { case (side, below) =>
          limits(side) = limits(side).zip(below).map { case (before, next) => math.max(before, next) }
        }
        // The first attempt's index continues with the last attempt's files, as if both had stayed
        // alive.
        if (oneIn(2)) cached = firstIndex.map(sameAs(_, cached.get))
      }
    }

    /** Makes an index pass for that of another attempt. */
    private def sameAs(index: JoinIndex, other: JoinIndex): JoinIndex = {
      index.token = other.token
      index
    }

    private def newRows(): Seq[TestRow] = Seq.fill(rowsOfMany.getOrElse(rowCount())) {
      number += 1
      TestRow(number, key(), Seq(time(), time()), rowsOfMany.fold(wide())(_ => 250000))
    }

    private def attempt(
        batch: Batch,
        budget: Long,
        from: Option[JoinIndex],
        isFirst: Boolean = true
    ): Seq[Stored] = {
      val store = provider.getStore(version, None)
      val by = if (width.isDefined) Nil else byLifetimes
      val state = new JoinState(store, layouts, widths, budget, from, byLifetimes = by)
      assert(state.reused == (isFirst && from.isDefined))
      assert(state.rewound == (!isFirst && from.isDefined))
      Side.both.foreach { side =>
        batch.rows(side).foreach(row => state.append(side, shapes(side)(row)))
        // Which pairs are found beyond the other times may differ.
        val matches = state.matches(side, reaches(side).copy(others = Nil))
        while (matches.next()) {
          val (own, other) = (TestRows.number(matches.ownRow), TestRows.number(matches.otherRow))
          // As in a semi join: some left rows leave with their first match, which flags no row.
          if (side == Side.Left && leaves(own)) matches.removeOwn()
          else if (side == Side.Right && leaves(other)) matches.removeOther()
          else {
            val what = fate(side, own, other)
            if (what.flagOwn) matches.flagOwn()
            if (what.flagOther) matches.flagOther()
          }
        }
      }
      Side.both.foreach { side =>
        val expired = state.expired(side, batch.below(side), unmatched = number % 2 == 0)
        while (expired.next()) {}
      }
      state.commit()
      cached = Some(state.committedIndex)
      stored(provider, version + 1, layouts)
    }
  }

  test("a segment that one attempt drops whole and another row by row is stored alike") {
    val rows = TestRows.simple
    withProvider() { provider =>
      var cached: Option[JoinIndex] = None
      // Three segments of one bucket, alike; the first loses its later row, and in the last batch
      // its earlier one.
      def batch(
          at: Long,
          times: Seq[Long],
          below: Long,
          index: Option[JoinIndex],
          meets: Boolean = false
      ): Seq[Stored] = {
        val state = on(provider.getStore(at, None), rows, width = 100L, cached = index)
        times.foreach { time =>
          state.append(Side.Left, rows(TestRows.simple(time, key = time, time)))
        }
        if (meets) state.append(Side.Right, rows(TestRows.simple(99, key = 50, time = 50)))
        val matches = state.matches(Side.Right, anyTime)
        while (matches.next()) matches.removeOther()
        val expired = state.expired(Side.Left, Array(below), unmatched = true)
        while (expired.next()) {}
        state.commit()
        cached = Some(state.committedIndex)
        stored(provider, at + 1, Seq(rows.layout, rows.layout))
      }
      batch(0, Seq(50, 10), 0, None)
      batch(1, Seq(60, 61), 0, cached)
      batch(2, Seq(62, 63), 0, cached, meets = true)
      val first = batch(3, Seq(64, 65), 20, cached)
      assert(batch(3, Seq(65, 64), 20, cached) == first, "with the index taken back")
      assert(batch(3, Seq(65, 64), 20, None) == first, "with the index read again")
    }
  }

  for (store <- SparkTest.part(Seq(defaultStore, rocksDb), every = 2, from = 1))
    test(s"$store: attempts at small batches store the same") {
      seeds(default = if (store == rocksDb) 1 else 6) { seed =>
        withProvider(store, partition = seed)(new Batches(seed, _, None).run(8))
      }
    }

  if (SparkTest.isLong) test("attempts at batches too large to buffer store the same") {
    seeds(default = 1)(seed => withProvider(partition = seed)(new Batches(seed, _, Some(90)).run(2)))
  }

  if (SparkTest.isLong) test("attempts at batches with a bucket too large to sort at once store the same") {
    seeds(default = 1)(seed =>
      withProvider(partition = seed)(new Batches(seed, _, Some(110), Some(Long.MaxValue)).run(2))
    )
  }
}
