package org.apache.spark.sql.streamjoin.observe.publish.page;

import jakarta.servlet.http.HttpServletRequest;
import org.apache.spark.ui.JettyUtils;
import org.apache.spark.ui.SparkUI;
import scala.Function1;

/**
 * Responses of Spark's web page that are not HTML. This is Java, because Spark's jar contains its
 * server under a different name than in its Scala signatures, which scalac uses.
 */
final class Handlers {
  private Handlers() {}

  /** Answers requests for a path with text. */
  static void attach(
      SparkUI ui, String path, String contentType, Function1<HttpServletRequest, String> answer) {
    var params = new JettyUtils.ServletParams<String>(answer, contentType, text -> text);
    ui.attachHandler(JettyUtils.createServletHandler(path, params, ui.conf(), ui.basePath()));
  }
}
