package org.apache.spark.sql.streamjoin.observe.publish.page

import java.nio.charset.StandardCharsets.UTF_8

import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.ui.{SparkUI, SparkUITab, WebUIPage}

/**
 * The tab "Stream joins" on Spark's web page.
 *
 * @param live
 *   whether there may be more batches: the page then polls for them
 */
final private[streamjoin] class FiguresTab(ui: SparkUI, val batches: RecentBatches, val live: Boolean)
    extends SparkUITab(ui, FiguresTab.Prefix) {
  override val name: String = "Stream joins"
  attachPage(new FiguresPage(this))
}

private[streamjoin] object FiguresTab {
  val Prefix = "streamjoin"
  private val Folder = "/org/apache/spark/sql/streamjoin/observe/publish/page/static"

  /** The scripts in their order; the report and notebooks use all except the last one. */
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
      // Spark's own handler of static files searches only Spark's class loader.
      Handlers.attach(ui, s"/$Prefix/static", "text/javascript", request => script(request.getRequestURI))
    }
  }

  /**
   * A page's class refers to the class of a request, so it is compiled for one servlet API:
   * `jakarta`, as in Spark. A platform that has moved Spark to another API has no tab.
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
   * The last `last` batches of a query or, with `series`, the points of all batches; without a
   * query, the last batch of each query.
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
