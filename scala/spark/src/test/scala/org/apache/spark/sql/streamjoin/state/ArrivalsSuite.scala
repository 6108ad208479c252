package org.apache.spark.sql.streamjoin.state

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Two attempts at a task, to which the rows come in two orders, write the same segments. */
class ArrivalsSuite extends StateTest {
  import TestRows.simple

  private val shape = simple

  /** The rows of each segment, by their bytes, place by place. */
  private def drained(rows: Seq[UnsafeRow], buckets: UnsafeRow => Long): Seq[(Long, Seq[Seq[Byte]])] = {
    val arrivals = new Arrivals(shape.layout, new IndexMemory(Long.MaxValue))
    rows.foreach(row => arrivals.append(row, buckets(row)))
    arrivals.drain().map { segment =>
      val at = new UnsafeRow(shape.layout.fields)
      val places = Iterator.iterate(segment.first)(segment.after).takeWhile(segment.hasPlace)
      segment.bucket -> places.map { place =>
        segment.point(at, place)
        at.getBytes.toSeq
      }.toSeq
    }
  }

  test("the order of the rows makes no difference") {
    seeds(default = 50) { seed =>
      val random = new Random(seed)
      val rows = Seq.fill(random.between(1, 400)) {
        shape(simple(random.nextInt(300), random.nextInt(9), random.nextLong(100))).copy()
      }
      def bucket(row: UnsafeRow): Long = row.hashCode % 3L
      val one = drained(rows, bucket)
      assert(one.map(_._2.size).sum == rows.size)
      assert(
        one.flatMap(_._2).groupBy(identity).transform((_, same) => same.size) ==
          rows.map(_.getBytes.toSeq).groupBy(identity).transform((_, same) => same.size)
      )
      assert(drained(random.shuffle(rows), bucket) == one)
    }
  }

  test("nor where a bucket takes several segments") {
    val random = new Random(1)
    val rows = Seq.tabulate(150000)(i => shape(simple(i, i % 100, i % 7L)).copy())
    val one = drained(rows, _ => 0L)
    assert(one.size >= 2)
    assert(drained(random.shuffle(rows), _ => 0L) == one)
  }
}
