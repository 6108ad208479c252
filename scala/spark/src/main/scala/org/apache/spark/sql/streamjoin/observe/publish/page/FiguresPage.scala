package org.apache.spark.sql.streamjoin.observe.publish.page

import scala.xml.Node

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.ui.{UIUtils, WebUIPage}

/**
 * The page with all queries, and the page of one query. The latter shows its batches as charts,
 * which `page.js` draws and updates, and the last batch with rows as a table, which needs no
 * script. The XML escapes all data.
 */
final private[page] class FiguresPage(tab: FiguresTab) extends WebUIPage("") {
  private val mapper = new ObjectMapper()

  override def render(request: HttpServletRequest): Seq[Node] = {
    def address(path: String): String =
      UIUtils.prependBaseUri(request, tab.basePath, s"/${FiguresTab.Prefix}/$path")
    // Not ordered by their last batches: a page without a query parameter would show a different
    // query each time.
    val all = tab.batches.last.map(mapper.readTree).sortBy(figures => (title(figures), id(figures)))
    val asked = Option(request.getParameter("query"))
    val chosen = all
      .find(figures => asked.contains(id(figures)))
      .orElse(all.find(figures => asked.contains(title(figures))))
      .orElse(all.headOption)
    val content = <div>
      {queries(all, chosen, one => address(s"?query=${id(one)}"))}
      {chosen.fold[Seq[Node]](<p>No query with stream joins has had a batch yet.</p>)(query(_, address))}
    </div>
    UIUtils.headerSparkPage(request, tab.name, content, tab)
  }

  private def id(figures: JsonNode): String = figures.path("id").asText

  private def title(figures: JsonNode): String =
    if (figures.has("name")) figures.path("name").asText else id(figures)

  private def queries(all: Seq[JsonNode], chosen: Option[JsonNode], address: JsonNode => String): Seq[Node] =
    <ul class="sj-queries">{
      all.map { one =>
        <li data-query={id(one)}>
          {
          if (chosen.contains(one)) <strong>{title(one)}</strong> else <a href={address(one)}>{title(one)}</a>
        }
        </li>
      }
    }</ul>

  private def query(last: JsonNode, address: String => String): Seq[Node] = {
    val figures = lastWithRows(last)
    val place = address(s"figures/?query=${id(last)}")
    <div>
      <div id="sj-plan" data-figures={place} data-query={id(last)} data-live={tab.live.toString}></div>
      <details id="sj-table" open="open">
        <summary>The figures of batch {figures.path("batch").asLong} as a table</summary>
        {FiguresTable.of(figures)}
      </details>
      {FiguresTab.Scripts.map(name => <script src={address(s"static/$name")}></script>)}
    </div>
  }

  /** The last batch of a query is often empty: Spark runs one more after a watermark has moved. */
  private def lastWithRows(last: JsonNode): JsonNode =
    tab.batches
      .of(id(last))
      .getOrElse(Nil)
      .reverseIterator
      .map(mapper.readTree)
      .find(FiguresTable.rowsIn(_) > 0)
      .getOrElse(last)
}
