package org.apache.spark.sql.streamjoin.observe.publish.page

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.funsuite.AnyFunSuite

/** The table of the figures, without a server; where the tab cannot be. */
class FiguresTableSuite extends AnyFunSuite {

  private def html(operators: String): String =
    FiguresTable.of(new ObjectMapper().readTree(s"""{"operators":[$operators]}""")).mkString

  test("what is not known yet is left out; all text is escaped") {
    val first =
      html("""{"operator":1,"title":"a < b","inputs":[{"name":"<i>","columns":[{"name":"o.t"}]}]}""")
    assert(first.contains("1. a &lt; b"))
    assert(first.contains("""data-input="&lt;i&gt;""""))
    assert(first.contains("<td>&lt;i&gt;</td>"))
    assert(first.contains("o.t: none yet"))
  }

  test("an input with all of its figures") {
    val full = html("""{"operator":2,"title":"join","rowsOut":3,"inputs":[{"name":"o","rowsIn":5,"oldest":0,
      "leavesBy":"d.t","leavesAfter":3600000,"columns":[{"name":"o.t","watermark":1000,"heldBy":"<d>"}],
      "hotKeys":[{"share":0.5},{"share":0.14,"key":"<b>"}],"hints":["Say <more>"]}]}""")
    assert(full.contains("o.t: 1970-01-01T00:00:01Z, held by &lt;d&gt;"))
    assert(full.contains("<td>1970-01-01T01:00:00Z of d.t</td>"))
    assert(full.contains("<div>50 %</div><div>&lt;b&gt;: 14 %</div>"))
    assert(full.contains("""<li class="sj-said">Say &lt;more&gt;</li>"""))
  }

  test("where Spark has another servlet API there is no tab") {
    FiguresTab.checkServlets(classOf[org.apache.spark.ui.WebUIPage])
    val failure = intercept[UnsupportedOperationException](FiguresTab.checkServlets(classOf[OtherPage]))
    assert(failure.getMessage.contains("jakarta.servlet.http.HttpServletRequest"))
  }
}

/** As `WebUIPage` is with another class of requests. */
abstract private class OtherPage {
  def render(request: String): Seq[scala.xml.Node]
}
