package org.apache.spark.sql.streamjoin.monitor

import java.nio.file.{Files, Path}
import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.streamjoin.JoinTest.{at, row}

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

  /** The samples by name, as far as they are ours. */
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
    val first = UUID.fromString("11111111-0000-0000-0000-000000000000")
    val second = UUID.fromString("22222222-0000-0000-0000-000000000000")
    source.update(first, "a b", Map("x" -> 1, "y" -> 2))
    source.update(second, "a-b", Map("x" -> 3))
    def names = source.metricRegistry.getNames.asScala.toSet
    assert(names == Set("a_b__x", "a_b__y", "a_b_22222222__x"))
    source.update(first, "a b", Map("y" -> 5))
    assert(names == Set("a_b__y", "a_b_22222222__x"))
    assert(source.metricRegistry.getGauges.get("a_b__y").getValue == 5L)
    source.remove(first)
    assert(names == Set("a_b_22222222__x"))
    source.remove(first)
    assert(
      MetricNames.distinct(Seq(Seq("o", "x") -> 1L, Seq("o", "x") -> 2L)) == Map("o__x" -> 1, "o__2_x" -> 2)
    )
    assert(MetricNames.part("<<>>") == "_")
  }

  private val Matcher = """__name__=~"([^"]+)"""".r
  private val Named = """"__name__", "([^"]+)"""".r

  /** Each expression of Grafana's board and of the rules. */
  private lazy val expressions: Seq[String] = {
    val board = new ObjectMapper().readTree(Path.of("docs/monitoring/grafana.json").toFile)
    board.findValuesAsText("expr").asScala.toSeq :+ Files.readString(Path.of("docs/monitoring/alerts.yml"))
  }

  test("each metric of the board and the rules is one that a driver gives") {
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
