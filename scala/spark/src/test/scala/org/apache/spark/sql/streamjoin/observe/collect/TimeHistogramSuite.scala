package org.apache.spark.sql.streamjoin.observe.collect

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.util.Utils

class TimeHistogramSuite extends AnyFunSuite {
  private def of(millis: Long*): TimeHistogram = {
    val histogram = new TimeHistogram
    millis.foreach(each => histogram.add(each * 1000, 1))
    histogram
  }

  test("each span is in a bucket that is at most a quarter of it wide") {
    val random = new Random(1)
    val spans = Seq(0L, 1, -1, 3, 4, 7, 8, -8, 3600000, Long.MaxValue / 1000, Long.MinValue / 1000) ++
      Seq.fill(1000)(random.nextLong() >> (10 + random.nextInt(50))).map(_ / 1000)
    spans.foreach { span =>
      val bucket = of(span).buckets.head
      assert(bucket.from <= span && span < bucket.to, s"$span in $bucket")
      assert(BigInt(bucket.to) - bucket.from - 1 <= BigInt(span).abs / 4, s"$span in $bucket")
    }
  }

  test("buckets do not overlap, and are added up") {
    val spans = (-300L to 300L).flatMap(each => Seq.fill(2)(each * each * each))
    val buckets = of(spans: _*).buckets
    assert(buckets.zip(buckets.tail).forall { case (one, next) => one.to <= next.from })
    assert(buckets.map(_.count).sum == spans.size)
    val both = of(1, 100, -5)
    both.add(of(100, 100000))
    assert(both.buckets.map(_.count) == Seq(1, 1, 2, 1))
    assert(both.total == 5)
  }

  test("it is sent as it is, without its empty buckets") {
    val many = of((0L to 10L).flatMap(each => Seq(each * 86400000, -each)): _*)
    val sent = Utils.serialize(many)
    assert(sent.length < 600)
    assert(Utils.deserialize[TimeHistogram](sent).buckets == many.buckets)
    assert(Utils.deserialize[TimeHistogram](Utils.serialize(of())).buckets.isEmpty)
  }

  test("a part of a millisecond before zero is before zero") {
    val histogram = new TimeHistogram
    histogram.add(-1, 7)
    assert(histogram.buckets == Seq(TimeHistogram.Bucket(-1, 0, 7)))
  }

  test("quantiles") {
    assert(of().quantile(0.5).isEmpty)
    val histogram = of((1L to 1000L): _*)
    assert(histogram.quantile(0.5).exists(found => found >= 500 && found <= 640))
    assert(histogram.quantile(1).contains(1024L))
    assert(of(-1000, -10, 5).quantile(0.1).exists(_ < -700))
  }
}
