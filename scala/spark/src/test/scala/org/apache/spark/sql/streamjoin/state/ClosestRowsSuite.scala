package org.apache.spark.sql.streamjoin.state

import java.lang.reflect.Proxy

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types.{LongType, StringType}

import streamjoin.core.Side

/** The closest rows of a key, compared with a search over all rows. */
class ClosestRowsSuite extends StateTest {

  /** Of two rows with the same time, the one with the higher number is later. */
  private val byNumber: Ordering[InternalRow] = Ordering.by(_.getLong(0))

  private def lookUp(found: => UnsafeRow): Option[Long] = Option(found).map(TestRows.number)

  test("random look-ups find the closest row, over batches and evictions, in memory or not") {
    seeds(default = 12) { seed =>
      withProvider(partition = seed) { provider =>
        val random = new Random(seed)
        val text = seed % 3 == 0
        val rows = new TestRows(Seq(if (text) StringType else LongType), Seq(0))
        val asking = new TestRows(Seq(if (text) StringType else LongType), Seq(0), timesFirst = true)
        val keys = if (seed % 2 == 0) 2 else 40
        // Some spans cover many buckets, some have many rows of one time.
        val span = Seq(30, 2000, 10000000)(random.nextInt(3))
        // Some segments span more than half a long can distinguish.
        val unit = Seq(1L, (1L << 30) + 1)(random.nextInt(2))
        val budget = if (random.nextBoolean()) 1L else Long.MaxValue
        def key = if (text) s"key ${random.nextInt(keys)}" else random.nextInt(keys).toLong
        var all = Seq.empty[TestRow]
        var number = 0L
        var evicted = Long.MinValue
        (0 until 4).foreach { version =>
          val state = on(provider.getStore(version.toLong, None), rows, width = 7 * unit, budget = budget)
          val added = Seq.fill(random.nextInt(400)) {
            number += 1
            val time = math.max(evicted, 0) + random.nextInt(span) * unit + random.nextInt(2)
            TestRow(number, Seq(key), Seq(time, time), random.nextInt(60))
          }
          added.foreach(row => state.append(Side.Right, rows(row)))
          all ++= added
          def check(): Unit = {
            val closest = state.closest(Side.Right, asking.layout, byNumber)
            val together = Seq.newBuilder[(closest.Asked, Option[Long], closest.Asked, Option[Long])]
            (0 until 80).foreach { _ =>
              val wanted = key
              val ends = Seq.fill(2)(random.nextInt(span) * unit + math.max(evicted, 0)).sorted
              val (from, to) =
                (
                  if (random.nextInt(4) == 0) Long.MinValue else ends.head,
                  if (random.nextInt(4) == 0) Long.MaxValue else ends(1)
                )
              val between =
                all.filter(r => r.key.head == wanted && r.times.head >= from && r.times.head <= to)
              val (last, first) = (between.map(_.times.head).maxOption, between.map(_.times.head).minOption)
              def latest(time: Option[Long]) =
                between.filter(r => time.contains(r.times.head)).map(_.number).maxOption
              val ask = asking(TestRow(-1, Seq(wanted), Seq(0L, 0L)))
              assert(lookUp(closest.last(ask, from, to)) == latest(last), s"last of $wanted in $from to $to")
              assert(
                lookUp(closest.first(ask, from, to)) == latest(first),
                s"first of $wanted in $from to $to"
              )
              val copy = ask.copy()
              together += ((
                new closest.Asked(copy, from, to),
                latest(last),
                new closest.Asked(copy, from, to),
                latest(first)
              ))
            }
            val asked = together.result()
            closest.last(asked.map(_._1).toArray)
            closest.first(asked.map(_._3).toArray)
            asked.foreach { case (last, wanted, first, wantedFirst) =>
              assert(lookUp(last.found) == wanted)
              assert(lookUp(first.found) == wantedFirst)
            }
          }
          check()
          if (random.nextBoolean()) {
            evicted = math.max(evicted, random.nextInt(span) * unit)
            evict(state, Side.Right, unmatched = random.nextBoolean(), evicted)
            all = all.filter(_.times.head >= evicted)
            check()
          }
          state.commit()
        }
      }
    }
  }

  test("the latest of many rows with one time is determined once for all look-ups") {
    for (unit <- Seq(1L, 1L << 31)) withProvider(partition = unit.toInt & 1) { provider =>
      val rows = TestRows.simple
      val (times, ties) = (4, 3000)
      val state = on(provider.getStore(0, None), rows, width = 100 * unit)
      val all = new Random(unit).shuffle((0 until times * ties).toIndexedSeq)
      all.foreach(i =>
        state.append(Side.Right, rows(TestRows.simple(i, key = i % 2, time = unit * (i % times))))
      )
      var compared = 0
      val counting: Ordering[InternalRow] = (a, b) => {
        compared += 1
        byNumber.compare(a, b)
      }
      val closest = state.closest(Side.Right, rows.layout, counting)
      (0 until times * ties).foreach { i =>
        val (key, time) = (i % 2, unit * (i % times))
        val ask = rows(TestRows.simple(-1, key, time))
        // Times of the key are even or odd, like the key.
        val newest = Some(times * (ties - 1L) + i % times)
        assert(lookUp(closest.last(ask, Long.MinValue, time + unit / 2)) == newest, s"last of $key at $time")
        assert(
          lookUp(closest.first(ask, time - unit / 2, Long.MaxValue)) == newest,
          s"first of $key at $time"
        )
      }
      assert(compared <= times * ties, "each row is compared once")
      state.abort()
    }
  }

  test("a look-up reads only what is near its time, however much is kept") {
    withProvider() { provider =>
      val rows = TestRows.simple
      val first = on(provider.getStore(0, None), rows, budget = 1)
      first.commit()
      // One key, with a segment for every ten units of time.
      (0 until 60).foreach { at =>
        val state = on(provider.getStore(at + 1L, None), rows, budget = 1)
        (0 until 20).foreach(n =>
          state.append(Side.Right, rows(TestRows.simple(20L * at + n, key = 1, time = 10L * at + n / 2)))
        )
        state.commit()
      }
      var reads = 0
      val store = provider.getStore(61, None)
      val counting = Proxy
        .newProxyInstance(
          getClass.getClassLoader,
          Array(classOf[StateStore]),
          (_, method, arguments) => {
            if (method.getName == "get" && arguments(0).asInstanceOf[UnsafeRow].getInt(0) == 1) reads += 1
            method.invoke(store, arguments: _*)
          }
        )
        .asInstanceOf[StateStore]
      val state = on(counting, rows, budget = 1)
      val closest = state.closest(Side.Right, rows.layout, byNumber)
      reads = 0
      val ask = rows(TestRows.simple(-1, key = 1, time = 0)).copy()
      assert(lookUp(closest.last(ask, Long.MinValue, 305)).contains(611L))
      assert(lookUp(closest.first(ask, 305, Long.MaxValue)).contains(611L))
      assert(reads <= 6, s"$reads segments read, and one has the row")
      // Many rows at all times: each segment once.
      reads = 0
      val asked = Array.tabulate(3000)(at => new closest.Asked(ask, Long.MinValue, at % 600L))
      closest.last(asked)
      asked.zipWithIndex.foreach { case (one, at) => assert(lookUp(one.found).contains(2 * (at % 600) + 1L)) }
      assert(reads <= 60, s"$reads segments read, of 60")
      reads = 0
      val stranger = rows(TestRows.simple(-1, key = 2, time = 0)).copy()
      val none = Array.tabulate(3000)(at => new closest.Asked(stranger, Long.MinValue, at % 600L))
      closest.last(none)
      assert(none.forall(_.found == null))
      assert(reads <= 60, s"$reads segments read for a key without rows, of 60")
      state.abort()
    }
  }
}
