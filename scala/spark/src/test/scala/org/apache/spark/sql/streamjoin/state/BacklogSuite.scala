package org.apache.spark.sql.streamjoin.state

import java.lang.reflect.{InvocationTargetException, Proxy}

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}
import org.apache.spark.sql.streamjoin.SparkTest

import streamjoin.core.Side

/**
 * A batch many times larger than the budget: its matches and what it leaves are right, it never
 * holds all its rows in memory, and its reads stay bounded.
 */
class BacklogSuite extends StateTest {
  import TestRows.{number, simple}

  private val rows = simple
  private val MiB = 1L << 20

  /** A store that reports each call. */
  private def watched(store: StateStore)(each: (String, UnsafeRow) => Unit): StateStore =
    Proxy
      .newProxyInstance(
        getClass.getClassLoader,
        Array[Class[_]](classOf[StateStore]),
        (_, method, arguments) => {
          each(method.getName, Option(arguments).map(_.head).collect { case key: UnsafeRow => key }.orNull)
          try method.invoke(store, Option(arguments).getOrElse(Array.empty[AnyRef]): _*)
          catch { case failed: InvocationTargetException => throw failed.getCause }
        }
      )
      .asInstanceOf[StateStore]

  private val Span = 100000L

  /** `count` rows of a side, in any order; each key has four of them. */
  private def backlog(random: Random, side: Side, count: Int, wide: Int): Seq[TestRow] =
    random.shuffle((0 until count).toIndexedSeq).map { i =>
      simple(2 * i + side.index, i % (count / 4), i * Span / count, wide)
    }

  private val near = ProbeTimeRange(Seq(0 -> Span / 2), Seq(0 -> Span / 2))

  private val Budget = 8 * MiB

  /**
   * What may exceed the budget: the waiting rows of both sides, what is built from them, and the
   * segments in use with their indexes.
   */
  private val OverBudget = 44 * MiB

  private val cases = Seq(
    (defaultStore, "one bucket", 2 * Span),
    (rocksDb, "one bucket", 2 * Span),
    (rocksDb, "a few buckets", Span / 3)
  )

  for ((store, name, width) <- SparkTest.part(cases, every = 3, from = 2))
    test(s"60 MiB per side are joined within a budget of 8 MiB, $name, $store") {
      withProvider(store)(work(_, width))
    }

  private def work(provider: StateStoreProvider, width: Long): Unit = {
    val random = new Random(5)
    val all = Side.both.map(side => side -> backlog(random, side, count = 600, wide = 100 << 10)).toMap
    val reads = mutable.Map.empty[UnsafeRow, Int].withDefaultValue(0)
    var peak = 0L
    var index: JoinIndex = null
    def look(): Unit = if (index != null) peak = math.max(peak, index.used)
    val state = {
      val inner = watched(provider.getStore(0, None)) { (call, key) =>
        if (call == "get") reads(key.copy()) += 1
        look()
      }
      on(inner, rows, width, Budget)
    }
    index = state.committedIndex
    val pairs = for {
      (_, same) <- (all(Side.Left) ++ all(Side.Right)).groupBy(_.key).toSeq
      left <- same if left.number % 2 == 0
      right <- same if right.number % 2 == 1 && math.abs(left.times.head - right.times.head) <= Span / 2
    } yield left.number -> right.number

    val found = mutable.ArrayBuffer.empty[(Long, Long)]
    Side.both.foreach { side =>
      all(side).foreach { row =>
        state.append(side, rows(row))
        look()
      }
      val matches = state.matches(side, near)
      while (matches.next()) {
        found += number(matches.otherRow) -> number(matches.ownRow)
        if (number(matches.ownRow) % 3 == 0) matches.flagOwn()
        if (number(matches.otherRow) % 5 == 0) matches.flagOther()
        look()
      }
    }
    assert(found.sorted == pairs.sorted)
    assert(found.size > 700)
    // Each segment of the left side is read once per block of the right side.
    val blocks = 1 + all(Side.Right).size * (100L << 10) / (Budget / 4)
    assert(reads.values.max <= blocks, "reads of a value while rows are matched")
    reads.clear()

    Side.both.foreach(evict(state, _, unmatched = false, Span / 10))
    state.commit()
    assert(reads.values.max <= 4, "reads of a value while rows are evicted and the rest is sorted")
    assert(reads.keys.exists(_.getInt(0) == 3), "parts were left to the store")
    assert(state.size.index <= Budget)
    assert(peak > Budget, s"${peak / MiB} MiB")
    assert(peak <= Budget + OverBudget, s"${peak / MiB} MiB")

    val matched = (pairs.map(_._2).filter(_ % 3 == 0) ++ pairs.map(_._1).filter(_ % 5 == 0)).toSet
    reading(provider, 1) { committed =>
      assert(kinds(committed).keySet == Set(0, 1), "no separate flags, and no parts")
      val kept = rowsOf(IndexReading.readOnly(committed, Seq(rows.layout, rows.layout), Budget), committed)
      val expected = all.values.flatten.filter(_.times.head >= Span / 10)
      assert(kept.map(row => number(row.row)).sorted == expected.map(_.number).toSeq.sorted)
      assert(
        kept.filter(_.matched).map(row => number(row.row)).toSet == matched.intersect(
          expected.map(_.number).toSet
        )
      )
    }
  }
}
