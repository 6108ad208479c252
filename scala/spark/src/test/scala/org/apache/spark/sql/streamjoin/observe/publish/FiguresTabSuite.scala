package org.apache.spark.sql.streamjoin.observe.publish

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import org.apache.spark.deploy.history.TestHistoryServer
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.streamjoin.monitor.SparkListenerStreamJoinFigures
import org.apache.spark.util.JsonProtocol

/** The tab in the page of a driver and of a history server, read over HTTP; the event log. */
class FiguresTabSuite extends AnyFunSuite with PageTest {

  private lazy val logs = newFolder("event-log")

  override protected def settings: Map[String, String] = super.settings ++ Map(
    "spark.eventLog.enabled" -> "true",
    "spark.eventLog.dir" -> s"file:$logs",
    "spark.eventLog.rolling.enabled" -> "false"
  )

  private val mapper = new ObjectMapper
  private val Script = "<script>alert(1)</script>"

  private def figures(query: String): Seq[JsonNode] =
    mapper.readTree(get(s"$page/streamjoin/figures/?query=$query").body).asScala.toSeq

  test("a driver's page has a tab once a query has had a batch; its name is text") {
    assert(!get(page).body.contains("Stream joins"))
    named(Script) { query =>
      val id = query.id.toString
      val last = eventually(timeout(20.seconds)) {
        val found = figures(id)
        assert(found.nonEmpty)
        found.last
      }
      assert(last.path("name").asText == Script)
      assert(last.path("operators").get(0).path("title").asText == "left outer interval join")
      val all = mapper.readTree(get(s"$page/streamjoin/figures/").body).asScala.toSeq
      assert(all.exists(_.path("id").asText == id))
      assert(mapper.readTree(get(s"$page/streamjoin/figures/?query=$id&last=1").body).size == 1)
      assert(figures("nothing").isEmpty)
      val series = mapper.readTree(get(s"$page/streamjoin/figures/?query=$id&series=1").body)
      assert(
        series.get(0).findPath("rowsIn").asInt > 0 && !series.get(0).path("operators").get(0).has("tasks")
      )

      val tab = get(s"$page/streamjoin/?query=$id")
      assert(tab.statusCode == 200)
      assert(!tab.body.contains(Script))
      assert(tab.body.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
      assert(tab.body.contains("1. left outer interval join"))
      assert(tab.body.contains("o.t: 2024-06-01T10:20:00Z, held by o"))
      assert(tab.body.contains("""data-live="true""""))
      assert(get(s"$page/jobs/").body.contains("Stream joins"))

      val script = get(s"$page/streamjoin/static/page.js")
      assert(script.body.contains("StreamJoin.show"))
      assert(script.headers.firstValue("Content-Type").get.startsWith("text/javascript"))
      assert(get(s"$page/streamjoin/static/version.properties").statusCode == 400)
      // An error, or Spark's own page where its server resolves the path; not one of our files.
      assert(!get(s"$page/streamjoin/static/..%2F..%2Fpage.js").body.contains("StreamJoin.show"))
      // All that the page asks for is there, in the order in which the files build on one another.
      val scripts = "streamjoin/static/([a-z]+\\.js)".r.findAllMatchIn(tab.body).map(_.group(1)).toSeq
      assert(scripts.head == "draw.js" && scripts.takeRight(2) == Seq("streamjoin.js", "page.js"))
      scripts.foreach(name => assert(get(s"$page/streamjoin/static/$name").statusCode == 200, name))
    }
  }

  test("without a query the tab shows the same one, whichever had the last batch") {
    def chosen: String = {
      val plan = "<div[^>]*sj-plan[^>]*>".r.findFirstIn(get(s"$page/streamjoin/").body).get
      "data-query=\"([^\"]+)".r.findFirstMatchIn(plan).get.group(1)
    }
    // Of a name before all others.
    val first = add("!first", batch = 1, rowsIn = 5)
    assert(chosen == first)
    add("other", batch = 1, rowsIn = 5)
    assert(chosen == first)
  }

  test("the table is of the last batch that had rows") {
    val id = add("with rows", batch = 7, rowsIn = 5)
    add("with rows", batch = 8, rowsIn = 0, id)
    assert(get(s"$page/streamjoin/?query=$id").body.contains("The figures of batch 7 as a table"))
    assert(get(s"$page/streamjoin/?query=with%20rows").body.contains("The figures of batch 7 as a table"))
    val empty = add("without", batch = 3, rowsIn = 0)
    assert(get(s"$page/streamjoin/?query=$empty").body.contains("The figures of batch 3 as a table"))
  }

  /** A batch of a query as the page knows it; the query's id. */
  private def add(
      name: String,
      batch: Long,
      rowsIn: Long,
      id: String = java.util.UUID.randomUUID.toString
  ): String = {
    val input = s"""{"name":"o","rowsIn":$rowsIn,"rowsKept":0,"bytesKept":0,"columns":[]}"""
    val operator = s"""{"operator":1,"title":"join","inputs":[$input]}"""
    val line = s"""{"version":1,"id":"$id","name":"$name","batch":$batch,"operators":[$operator]}"""
    new ShownFigures(spark.sparkContext).add(java.util.UUID.fromString(id), Some(name), line)
    id
  }

  test("a query that may not be shown is neither in the page nor in the event log") {
    val events = new java.util.concurrent.ConcurrentLinkedQueue[String]
    val listener = new SparkListener {
      override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
        case SparkListenerStreamJoinFigures(line) => events.add(line): Unit
        case _ =>
      }
    }
    spark.sparkContext.addSparkListener(listener)
    try {
      val hidden = named(
        "hidden",
        "spark.streamjoin.ui.enabled" -> "false",
        "spark.streamjoin.history" -> java.nio.file.Files.createTempDirectory("streamjoin-history").toString
      )(_.id.toString)
      val shown = named("shown")(_.id.toString)
      eventually(timeout(20.seconds))(assert(events.asScala.exists(_.contains(shown))))
      assert(!events.asScala.exists(_.contains(hidden)))
      assert(figures(hidden).isEmpty)
      assert(figures(shown).nonEmpty)
      // Who may ask the driver for it has the figures all the same.
      assert(spark.sql(s"SELECT * FROM sj_figures('$hidden')").count() > 0)
    } finally spark.sparkContext.removeSparkListener(listener)
  }

  test("the event log has the figures in Spark's form, and gives them back") {
    val event = SparkListenerStreamJoinFigures("""{"version":1,"name":"a \"b\""}""")
    val written = JsonProtocol.sparkEventToJsonString(event)
    val json = mapper.readTree(written)
    assert(
      json.fieldNames.asScala.toSet == Set("Event", "figures") &&
        json.path("Event").asText == "org.apache.spark.sql.streamjoin.monitor.SparkListenerStreamJoinFigures"
    )
    assert(json.path("figures").asText == event.figures)
    assert(JsonProtocol.sparkEventFromJson(written) == event)
  }

  test("what fails beside a query is logged once, also where a class is missing") {
    val logged = scala.collection.mutable.Buffer.empty[(String, String)]
    val guard = new Guard((what, failure) => logged += what -> failure.getMessage: Unit)
    (1 to 3).foreach { _ =>
      guard("page")(throw new NoClassDefFoundError("jakarta/servlet/http/HttpServletRequest"))
      guard("history")(throw new java.io.IOException("full"))
    }
    assert(logged == Seq("page" -> "jakarta/servlet/http/HttpServletRequest", "history" -> "full"))
    assertThrows[OutOfMemoryError](guard("page")(throw new OutOfMemoryError))
  }

  test("a history server has the tab, of the last batches only") {
    val id = named("remembered") { query =>
      eventually(timeout(20.seconds))(assert(figures(query.id.toString).nonEmpty))
      query.id.toString
    }
    val many = java.util.UUID.randomUUID.toString
    (0 until 130).foreach { batch =>
      val line = s"""{"version":1,"id":"$many","runId":"$many","batch":$batch,"operators":[]}"""
      spark.sparkContext.listenerBus.post(SparkListenerStreamJoinFigures(line))
    }
    // One that no version of streamjoin has written leaves the others.
    spark.sparkContext.listenerBus.post(SparkListenerStreamJoinFigures("no figures"))
    val server = new TestHistoryServer(logs)
    try {
      val address = server.address(spark.sparkContext.applicationId)
      eventually(timeout(60.seconds), interval(1.second)) {
        val all = mapper.readTree(get(s"$address/streamjoin/figures/?query=$many").body).asScala.toSeq
        assert(all.map(_.path("batch").asInt) == (30 until 130))
        val series =
          mapper.readTree(get(s"$address/streamjoin/figures/?query=$many&series=1").body).asScala.toSeq
        assert(series.map(_.path("batch").asInt) == (0 until 130))
      }
      val tab = get(s"$address/streamjoin/?query=$id").body
      assert(tab.contains("1. left outer interval join"))
      assert(tab.contains("""data-live="false""""))
      assert(tab.contains(s"/history/${spark.sparkContext.applicationId}/streamjoin/static/page.js"))
      assert(get(s"$address/streamjoin/static/page.js").statusCode == 200)
      assert(get(s"$address/jobs/").body.contains("Stream joins"))
    } finally server.close()
  }
}
