package org.apache.spark.sql.streamjoin.observe.publish.page;

import jakarta.servlet.http.HttpServletRequest;
import org.apache.spark.ui.JettyUtils;
import org.apache.spark.ui.SparkUI;
import scala.Function1;

/**
 * Answers of Spark's web page that are no HTML. In Java, because Spark's jar has its server under
 * another name than the Scala signatures in it say, and scalac goes by those.
 */
final class Handlers {
  private Handlers() {}

  /** Answers requests of a path with text. */
  static void attach(
      SparkUI ui, String path, String contentType, Function1<HttpServletRequest, String> answer) {
    var params = new JettyUtils.ServletParams<String>(answer, contentType, text -> text);
    ui.attachHandler(JettyUtils.createServletHandler(path, params, ui.conf(), ui.basePath()));
  }
}
