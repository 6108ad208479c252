package org.apache.spark.sql.streamjoin.observe.publish

import java.nio.file.{Files, Path}
import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.streamjoin.JoinTest.{at, row}
import org.apache.spark.sql.streamjoin.base.Figures

/** The metrics as Prometheus gets them from a driver, and the files for Prometheus and Grafana. */
class FiguresSourceSuite extends AnyFunSuite with PageTest with ArrangementTest {

  override protected def settings: Map[String, String] = super.settings ++ Map(
    "spark.metrics.namespace" -> "shop",
    "spark.metrics.conf.*.sink.prometheusServlet.class" -> "org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path" -> "/metrics/prometheus",
    "spark.sql.streaming.metricsEnabled" -> "true"
  )

  private val Sample = """(\S+)\{[^}]*\} (\S+)""".r
  private val Start = "metrics_shop_driver_streamjoin_"

  /** Our samples, by name. */
  private def scraped(): Map[String, String] =
    get(s"$page/metrics/prometheus/").body.linesIterator
      .collect { case Sample(name, value) => name -> value }
      .filter(_._1.startsWith(Start))
      .toMap

  private def values(query: String): Map[String, Long] = scraped().collect {
    case (name, value) if name.startsWith(s"$Start${query}__") && name.endsWith("_Value") =>
      name.stripPrefix(s"$Start${query}__").stripSuffix("_Value") -> value.toLong
  }

  test("figures of a query, until it ends; Prometheus can read the names") {
    named("orders & <deliveries>") { _ =>
      val found = eventually(timeout(20.seconds)) {
        val all = values("orders_deliveries")
        assert(all.get("1__rowsKept").contains(3L))
        all
      }
      assert(found("1__left_o__rowsInTotal") == 2)
      assert(found("1__right_d__rowsInTotal") == 1)
      assert(found("1__rowsOutTotal") == 1)
      assert(found("1__left_o__lateTotal") == 0)
      assert(found("1__memoryBudgetBytes") == 2 * (512L << 20))
      assert(found("1__left_o__bytesKept") > 0)
      val watermark = found("1__left_o__o_t__watermarkMs")
      assert(watermark == at("10:20").getTime)
      assert(
        math.abs(System.currentTimeMillis() - watermark - found("1__left_o__o_t__behindClockMs")) < 600000
      )
      assert(found.contains("batchMs"))
      assert(found("running") == 1 && found("batchesTotal") >= 1)
      assert(found("1__left_o__o_t__hasWatermark") == 1)
      assert(scraped().keys.forall(_.matches("[a-zA-Z_:][a-zA-Z0-9_:]*")))
    }
    eventually(timeout(20.seconds))(assert(scraped().isEmpty))
  }

  test("counts add up over the batches") {
    val streams = newStreams()
    val query = hourly()(streams).writeStream.format("noop").queryName("twice").start()
    try {
      Seq("10:00", "10:01", "10:02").foreach { time =>
        streams.stream("o").addData(row("a", time))
        query.processAllAvailable()
      }
      eventually(timeout(20.seconds))(assert(values("twice").get("1__left_o__rowsInTotal").contains(3L)))
    } finally query.stop()
  }

  test("a query without a batch, and an input without a row") {
    val streams = newStreams()
    withConf("spark.sql.streaming.noDataProgressEventInterval" -> "100") {
      val query = hourly()(streams).writeStream.format("noop").queryName("silent").start()
      try {
        eventually(timeout(20.seconds))(
          assert(values("silent") == Map("running" -> 1L, "batchesTotal" -> 0L))
        )
        streams.stream("o").addData(row("a", "10:00"))
        query.processAllAvailable()
        eventually(timeout(20.seconds)) {
          val found = values("silent")
          assert(found("batchesTotal") >= 1)
          assert(found("1__left_o__o_t__hasWatermark") == 1)
          assert(found("1__right_d__d_t__hasWatermark") == 0)
        }
      } finally query.stop()
      val plain = streams.stream("o").toDF().writeStream.format("noop").queryName("plain").start()
      try {
        plain.processAllAvailable()
        Thread.sleep(300)
        assert(values("plain").isEmpty)
      } finally plain.stop()
    }
  }

  test("a run that ends by itself is not missed") {
    val streams = newStreams()
    streams.stream("o").addData(row("a", "10:00"))
    val seen = new java.util.concurrent.ConcurrentLinkedQueue[Map[String, Long]]
    val query = hourly()(streams).writeStream
      .format("noop")
      .queryName("now_and_then")
      .trigger(Trigger.AvailableNow)
      .start()
    while (query.isActive) seen.add(values("now_and_then"))
    assert(!seen.asScala.exists(_.contains("running")))
  }

  test("without Spark's own switch there are none") {
    named("unmeasured", "spark.sql.streaming.metricsEnabled" -> "false") { query =>
      eventually(timeout(20.seconds)) {
        assert(spark.sql(s"SELECT * FROM sj_figures('${query.id}')").count() > 0)
      }
      assert(values("unmeasured").isEmpty)
    }
  }

  test("two queries of one name, and names that become one, are kept apart") {
    val source = new FiguresSource
    val (first, second, third) = (UUID.randomUUID, UUID.randomUUID, UUID.randomUUID)
    val id = UUID.fromString("22222222-0000-0000-0000-000000000000")
    source.update(first, UUID.randomUUID, "a b", Map("x" -> 1, "y" -> 2))
    source.update(second, id, "a-b", Map("x" -> 3))
    source.update(third, id, "a-b", Map("x" -> 4))
    def names = source.metricRegistry.getNames.asScala.toSet
    // Of nothing that changes at each start.
    val other = s"a_b_${MetricNames.unique("a-b")}__x"
    assert(names == Set("a_b__x", "a_b__y", other, "a_b_22222222__x"))
    source.update(first, UUID.randomUUID, "a b", Map("y" -> 5))
    assert(names == Set("a_b__y", other, "a_b_22222222__x"))
    assert(source.metricRegistry.getGauges.get("a_b__y").getValue == 5L)
    source.remove(first)
    source.remove(third)
    assert(names == Set(other))
    source.remove(first)
    assert(
      MetricNames.distinct(Seq(Seq("o", "x") -> 1L, Seq("o", "x") -> 2L)) == Map("o__x" -> 1, "o__2_x" -> 2)
    )
  }

  test("names in any script are readable, legal, and the same in each run") {
    assert(MetricNames.part("orders & <deliveries>") == "orders_deliveries")
    val expected = Map(
      "заказы" -> "zakazy_[0-9a-f]{8}",
      "заказы!" -> "zakazy_[0-9a-f]{8}",
      "配達" -> "pei_da_[0-9a-f]{8}",
      "παραγγελίες" -> "parangelies_[0-9a-f]{8}",
      "left Größe.t" -> "left_Grosse_t_[0-9a-f]{8}",
      "🚚" -> "[0-9a-f]{8}",
      "<<>>" -> "[0-9a-f]{8}"
    )
    val found = expected.keys.map(name => name -> MetricNames.part(name)).toMap
    found.foreach { case (name, part) => assert(part.matches(expected(name)), s"$name: $part") }
    assert(found.values.toSet.size == expected.size)
    // It is in the boards and rules of users.
    assert(MetricNames.part("заказы") == "zakazy_" + MetricNames.unique("заказы"))
    assert(MetricNames.unique("заказы") == "c359203e")
  }

  private val Matcher = """__name__=~"([^"]+)"""".r
  private val Named = """"__name__", "([^"]+)"""".r

  /** Each expression of Grafana's board and of the rules. */
  private lazy val expressions: Seq[String] = {
    val board = new ObjectMapper().readTree(Path.of("docs/monitoring/grafana.json").toFile)
    board.findValuesAsText("expr").asScala.toSeq :+ Files.readString(Path.of("docs/monitoring/alerts.yml"))
  }

  test("a driver gives the metrics that are defined, and those of the board and the rules are among them") {
    val fields = Seq("operators", "inputs").flatMap(Figures.fields).map(_.metric)
    val defined = (fields ++ Figures.of("metrics").map(_.name)).toSet
    val prices = maintainer("code STRING, price INT", Seq(Seq("code")))
    val all = during(prices) {
      prices.feed(Row("a", 1))
      val rows = spark.readStream.format("streamjoin").load(prices.root)
      val reader = rows.writeStream.format("noop").queryName("reads").start()
      try
        named("measured") { _ =>
          reader.processAllAvailable()
          eventually(timeout(20.seconds)) {
            assert(values("measured").contains("1__rowsKept"))
            val behind = values("reads").filter(_._1.endsWith("__versionsBehind"))
            assert(behind.values.toSeq == Seq(0))
            assert(behind.keys.head.startsWith("arrangement_"))
            assert(scraped().keySet.map(_.replaceAll("_(Value|Number)$", "").split("__").last) == defined)
          }
          scraped().keySet
        }
      finally reader.stop()
    }
    val used =
      expressions.flatMap(text => Matcher.findAllMatchIn(text) ++ Named.findAllMatchIn(text)).map(_.group(1))
    assert(used.size > 20)
    val unknown = used.distinct.filterNot(regex => all.exists(_.matches(regex)))
    assert(unknown.isEmpty)
  }
}
