package org.apache.spark.sql.streamjoin.observe.publish

import java.net.URI
import java.net.http.HttpClient.Redirect
import java.net.http.HttpResponse.BodyHandlers
import java.net.http.{HttpClient, HttpRequest, HttpResponse}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.streamjoin.JoinTest.row

/** A driver with Spark's web page, on a free port. */
private[publish] trait PageTest extends JoinTest { this: AnyFunSuite =>

  override protected def settings: Map[String, String] =
    Map("spark.ui.enabled" -> "true", "spark.ui.port" -> "0")

  private val client = HttpClient.newBuilder.followRedirects(Redirect.NORMAL).build()

  protected def page: String = spark.sparkContext.ui.get.webUrl

  protected def get(address: String): HttpResponse[String] =
    client.send(HttpRequest.newBuilder(URI.create(address)).build(), BodyHandlers.ofString)

  /** A query of that name with a batch. */
  protected def named[T](name: String, settings: (String, String)*)(body: StreamingQuery => T): T =
    withConf(settings: _*) {
      val streams = newStreams()
      val joined = hourly("left_outer")(streams)
      // Before the start, so that one batch has the rows of both.
      streams.stream("o").addData(row("a", "10:00"), row("b", "10:20"))
      streams.stream("d").addData(row("a", "10:30"))
      val query = joined.writeStream.format("noop").queryName(name).start()
      try {
        query.processAllAvailable()
        body(query)
      } finally query.stop()
    }
}
