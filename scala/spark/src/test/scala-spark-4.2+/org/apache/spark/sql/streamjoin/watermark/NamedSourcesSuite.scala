package org.apache.spark.sql.streamjoin.watermark

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.{DataFrame, Row}

/**
 * `readStream.name(...)`: a source keeps its watermark wherever it stands in the next run's query.
 */
class NamedSourcesSuite extends AnyFunSuite with SparkTest with NamedSources {
  private val Evolution = "spark.sql.streaming.queryEvolution.enableSourceEvolution"

  private def joined(inputs: Inputs, branches: String*): DataFrame = {
    val orders = branches.map(inputs.stream).reduce(_ union _).as("o")
    val within = "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"
    orders.join(inputs.stream("deliveries").as("d"), expr(within)).selectExpr("o.v", "d.v")
  }

  test("named sources keep their watermarks if the branches of a union change places") {
    withConf(Evolution -> "true") {
      val (inputs, checkpoint) = (new Inputs, newFolder())
      inputs.write("shop", "a,2024-06-01T12:00:00Z,1")
      inputs.write("phone", "b,2024-06-01T10:00:00Z,2")
      inputs.write("deliveries", "x,2024-06-01T10:00:00Z,0")
      assert(run(joined(inputs, "shop", "phone"), checkpoint).isEmpty)

      // Late by the watermark of the shop (12:00), not by that of the phone (10:00).
      inputs.write("phone", "c,2024-06-01T10:30:00Z,3")
      inputs.write("deliveries", "c,2024-06-01T11:00:00Z,4")
      assert(run(joined(inputs, "phone", "shop"), checkpoint) == Seq(Row(3, 4)))
    }
  }

  test("columns find their watermark by the name of their source, unnamed ones by position") {
    def named(name: String) = WatermarkColumn("t", Some(name))
    val plain = WatermarkColumn("t", None)
    val kept = KeyedWatermarks(
      IndexedSeq(named("a"), plain, named("b"), plain),
      IndexedSeq(1L, 2L, 3L, 4L).map(Some(_)),
      inputs = Map(2 -> InputState(since = Some(7L)))
    )
    def of(columns: WatermarkColumn*) = kept.of(columns.toIndexedSeq).map(_.millis)
    assert(
      of(plain, named("b"), plain, named("a")).contains(IndexedSeq(2, 3, 4, 1).map(at => Some(at.toLong)))
    )
    assert(kept.of(IndexedSeq(plain, named("b"), plain)).map(_.inputs).contains(Map(1 -> kept.inputs(2))))
    assert(of(named("c"), plain, plain).contains(IndexedSeq(None, Some(2L), Some(4L))))
    assert(of(named("a"), plain, named("b")).isEmpty, "an unnamed column is missing")
    assert(of(named("a"), plain, WatermarkColumn("u", None)).isEmpty, "another unnamed column took its place")
  }

  test("without names, watermarks are kept by position") {
    val (one, two) = (newFolder("one"), newFolder("two"))
    def stream(folder: String, time: String) =
      spark.readStream.schema(s"id STRING, $time TIMESTAMP").csv(folder).withWatermark(time, "0 seconds")
    def joined(left: DataFrame, right: DataFrame) =
      left.join(right, expr("a = b AND lt = rt")).selectExpr("a")
    val checkpoint = newFolder()
    val (left, right) =
      (stream(one, "lt").selectExpr("id AS a", "lt"), stream(two, "rt").selectExpr("id AS b", "rt"))
    Files.writeString(Path.of(one, "1.csv"), "k,2024-06-01T10:00:00Z")
    Files.writeString(Path.of(two, "1.csv"), "k,2024-06-01T10:00:00Z")
    assert(run(joined(left, right), checkpoint) == Seq(Row("k")))
    val written = Files.readString(Path.of(checkpoint, "keyed-watermarks", "0"))
    assert(written.contains(""""column":"lt""""))
    assert(!written.contains("source"))
  }
}
