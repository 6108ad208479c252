package org.apache.spark.sql.streamjoin.monitor.page

import scala.xml.Node

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.ui.{UIUtils, WebUIPage}

/**
 * The queries, and one of them: what it keeps as pictures, which `page.js` draws and keeps up to
 * date, and as a table, for which no script is needed. The XML escapes all that comes from data.
 */
final private[page] class FiguresPage(tab: FiguresTab) extends WebUIPage("") {
  private val mapper = new ObjectMapper()

  override def render(request: HttpServletRequest): Seq[Node] = {
    def address(path: String): String =
      UIUtils.prependBaseUri(request, tab.basePath, s"/${FiguresTab.Prefix}/$path")
    val all = tab.batches.last.reverse.map(mapper.readTree)
    val asked = Option(request.getParameter("query"))
    val chosen = all.find(figures => asked.contains(id(figures))).orElse(all.headOption)
    val content = <div>
      {queries(all, chosen, one => address(s"?query=${id(one)}"))}
      {chosen.fold[Seq[Node]](<p>No query with stream joins has had a batch yet.</p>)(query(_, address))}
    </div>
    UIUtils.headerSparkPage(request, tab.name, content, tab)
  }

  private def id(figures: JsonNode): String = figures.path("id").asText

  private def queries(all: Seq[JsonNode], chosen: Option[JsonNode], address: JsonNode => String): Seq[Node] =
    <ul class="sj-queries">{
      all.map { one =>
        val title = if (one.has("name")) one.path("name").asText else id(one)
        <li data-query={id(one)}>
          {if (chosen.contains(one)) <strong>{title}</strong> else <a href={address(one)}>{title}</a>}
        </li>
      }
    }</ul>

  private def query(figures: JsonNode, address: String => String): Seq[Node] = {
    val last = address(s"figures/?query=${id(figures)}&last=1")
    <div id="sj-plan" data-figures={last} data-live={tab.live.toString}></div>
    <details id="sj-table" open="open">
      <summary>The figures of batch {figures.path("batch").asLong} as a table</summary>
      {FiguresTable.of(figures)}
    </details>
    <script src={address("static/streamjoin.js")}></script>
    <script src={address("static/page.js")}></script>
  }
}
