package org.apache.spark.sql.streamjoin.state

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Two attempts at a task write the same segments, even if the rows come in another order. */
class ArrivalsSuite extends StateTest {
  import TestRows.simple

  private val shape = simple

  /** The segments of each bucket, as the bytes of their rows in place order. */
  private def drained(rows: Seq[UnsafeRow], bucketWidth: Long): Map[Long, Seq[Seq[Seq[Byte]]]] = {
    val arrivals = new Arrivals(shape.layout, bucketWidth, new IndexMemory(Long.MaxValue))
    rows.foreach(arrivals.append(_))
    val segments = arrivals.drain(level = 0).map { segment =>
      val at = new UnsafeRow(shape.layout.fields)
      val places = Iterator.iterate(segment.first)(segment.after).takeWhile(segment.hasPlace)
      segment.bucket -> places.map { place =>
        segment.point(at, place)
        at.getBytes.toSeq
      }.toSeq
    }
    segments.groupMap(_._1)(_._2)
  }

  test("the order of the rows makes no difference") {
    seeds(default = 50) { seed =>
      val random = new Random(seed)
      val wide = random.nextBoolean()
      val rows = Seq.fill(random.between(1, 400)) {
        val time = if (wide) random.nextLong() else random.nextLong(100)
        shape(simple(random.nextInt(300), random.nextInt(9), time)).copy()
      }
      val width = Seq(1L, 40L, 1000000L, Long.MaxValue)(random.nextInt(4))
      val one = drained(rows, width)
      def counted(rows: Iterable[Seq[Byte]]) = rows.groupBy(identity).transform((_, same) => same.size)
      assert(counted(one.values.flatten.flatten) == counted(rows.map(_.getBytes.toSeq)))
      assert(drained(random.shuffle(rows), width) == one)
    }
  }

  test("the order of the rows makes no difference to a bucket of several segments") {
    val random = new Random(1)
    val rows = Seq.tabulate(150000)(i => shape(simple(i, i % 100, i % 7L)).copy())
    val one = drained(rows, 10L)
    assert(one.size == 1 && one.head._2.size >= 2)
    assert(drained(random.shuffle(rows), 10L) == one)
  }
}
