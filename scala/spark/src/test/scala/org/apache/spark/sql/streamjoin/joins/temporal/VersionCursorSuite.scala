package org.apache.spark.sql.streamjoin.joins.temporal

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.streamjoin.operator.BufferLimits
import org.apache.spark.sql.types.{LongType, TimestampType}

import streamjoin.core.{AsOf, Side}

/** Merges facts and versions by key, on plain rows: it distinguishes keys with the same hash. */
class VersionCursorSuite extends AnyFunSuite {
  private val columns =
    Seq(AttributeReference("key", LongType)(), AttributeReference("time", TimestampType)())
  private val input = InputSpec(columns, columns.take(1), columns(1), Long.MinValue, 1)
  private val toRow = UnsafeProjection.create(columns.map(_.dataType).toArray)
  private def row(key: Long, time: Long): UnsafeRow = toRow(InternalRow(key, time)).copy()

  private val order = new KeyOrder(input, input)

  /** Pairs of keys with the same hash, which are rare. */
  private lazy val colliding: Seq[Seq[Long]] = {
    val seen = mutable.Map.empty[Int, Long]
    val found = mutable.ArrayBuffer.empty[Seq[Long]]
    var key = 0L
    while (found.size < 3) {
      seen.put(order.hash(row(key, 0), 0), key).foreach(other => found += Seq(other, key))
      key += 1
    }
    found.toSeq
  }

  private def spec(rule: AsOf) =
    TemporalTaskSpec(
      Seq(input, input),
      None,
      Nil,
      None,
      columns,
      isLeftOuter = false,
      rule,
      due = Long.MaxValue,
      needed = Long.MinValue,
      looked = Long.MinValue,
      remembers = 0,
      BufferLimits(Long.MaxValue, Long.MaxValue, None),
      lateRows = None,
      observed = None
    )

  private def sorted(rows: Seq[UnsafeRow]): Seq[UnsafeRow] = rows.sortWith { (a, b) =>
    val byKey = order.compare(a, 0, b, 0)
    if (byKey != 0) byKey < 0 else a.getLong(1) < b.getLong(1)
  }

  test("keys with the same hash have an order, the same from both sides") {
    for (Seq(a, b) <- colliding) {
      val (one, other) = (row(a, 5), row(b, 3))
      assert(order.hash(one, 0) == order.hash(other, 1))
      assert(!order.isSame(one, 0, other, 1))
      assert(order.compare(one, Side.Left.index, other, Side.Right.index).sign == a.compare(b).sign)
      assert(order.compare(other, Side.Right.index, one, Side.Left.index).sign == b.compare(a).sign)
      assert(order.compare(one, 0, row(a, 9), 1) == 0)
    }
  }

  test("each fact matches the version of its key that is valid at its time; the last ones stay") {
    val random = new Random(5)
    val keys = colliding.flatten ++ Seq(-1L, -2L)
    for (exact <- Seq(true, false)) {
      val rule = AsOf(allowsExact = exact)
      def rows(count: Int) = Seq.fill(count)(row(keys(random.nextInt(keys.size)), random.nextInt(60).toLong))
      val (facts, versions) = (sorted(rows(80)), sorted(rows(60)))
      val before = keys.take(3).map(key => key -> row(key, -5)).toMap
      val kept = mutable.ArrayBuffer.empty[(Long, Long)]
      val merged = new VersionCursor(
        spec(rule),
        versions.iterator,
        fact => before.get(fact.getLong(0)).orNull,
        last => kept += last.getLong(0) -> last.getLong(1)
      )
      facts.foreach { fact =>
        val (key, at) = (fact.getLong(0), fact.getLong(1))
        val times = (versions ++ before.values).filter(_.getLong(0) == key).map(_.getLong(1))
        val versionOf = Option(merged.versionOf(fact))
        assert(
          versionOf.map(_.getLong(1)) == times.filter(rule.allows(at, _)).maxOption,
          s"$rule: $key at $at"
        )
        assert(versionOf.forall(_.getLong(0) == key))
      }
      merged.finish()
      assert(kept.toSet == versions.groupMapReduce(_.getLong(0))(_.getLong(1))(math.max).toSet)
      assert(kept.map(_._1).distinct.size == kept.size)
    }
  }
}
