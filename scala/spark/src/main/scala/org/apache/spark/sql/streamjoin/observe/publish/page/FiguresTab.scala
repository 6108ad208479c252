package org.apache.spark.sql.streamjoin.observe.publish.page

import java.nio.charset.StandardCharsets.UTF_8

import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.ui.{SparkUI, SparkUITab, WebUIPage}

/**
 * The tab "Stream joins" of Spark's web page.
 *
 * @param live
 *   whether there may be more batches: the page then looks for them
 */
final private[streamjoin] class FiguresTab(ui: SparkUI, val batches: RecentBatches, val live: Boolean)
    extends SparkUITab(ui, FiguresTab.Prefix) {
  override val name: String = "Stream joins"
  attachPage(new FiguresPage(this))
}

private[streamjoin] object FiguresTab {
  val Prefix = "streamjoin"
  private val Folder = "/org/apache/spark/sql/streamjoin/observe/publish/page/static"

  /** In their order; the report and notebooks have all but the last one. */
  private[page] val Scripts =
    Seq("draw", "style", "holds", "waits", "series", "histograms", "view", "streamjoin", "page").map(
      _ + ".js"
    )

  /** A second call for the same page does nothing. */
  def attach(ui: SparkUI, batches: RecentBatches, live: Boolean): Unit = synchronized {
    if (!ui.getTabs.exists(_.isInstanceOf[FiguresTab])) {
      checkServlets(classOf[WebUIPage])
      ui.attachTab(new FiguresTab(ui, batches, live))
      Handlers.attach(ui, s"/$Prefix/figures", "application/json", json(batches, _))
      // Spark's own handler of static files looks for them in Spark's class loader alone.
      Handlers.attach(ui, s"/$Prefix/static", "text/javascript", request => script(request.getRequestURI))
    }
  }

  /**
   * A page's class has to name the class of a request, so it is compiled for one: `jakarta`, which
   * Spark has. On a platform that has put Spark on another one there is no tab.
   */
  private[page] def checkServlets(page: Class[_]): Unit = {
    val request = classOf[HttpServletRequest]
    val known = page.getMethods.exists(method =>
      method.getName == "render" && method.getParameterTypes.toSeq == Seq(request)
    )
    if (!known)
      throw new UnsupportedOperationException(s"Spark's web page here does not use ${request.getName}")
  }

  /**
   * The last `last` batches of a query, or with `series` the points of all; without a query, the
   * last batch of each.
   */
  private def json(batches: RecentBatches, request: HttpServletRequest): String = {
    val lines = Option(request.getParameter("query")) match {
      case Some(query) if request.getParameter("series") != null => batches.series(query)
      case Some(query) =>
        val all = batches.of(query).getOrElse(Nil)
        Option(request.getParameter("last")).flatMap(_.toIntOption).fold(all)(all.takeRight)
      case None => batches.last
    }
    lines.mkString("[", ",\n", "]")
  }

  private def script(address: String): String = {
    val name = address.split('/').last
    val found =
      Option.when(Scripts.contains(name))(getClass.getResourceAsStream(s"$Folder/$name")).flatMap(Option(_))
    // Spark answers with the status 400.
    val in = found.getOrElse(throw new IllegalArgumentException("no such script"))
    try new String(in.readAllBytes(), UTF_8)
    finally in.close()
  }
}
