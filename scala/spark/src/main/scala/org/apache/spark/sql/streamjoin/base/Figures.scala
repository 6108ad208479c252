package org.apache.spark.sql.streamjoin.base

import scala.collection.immutable.ListMap
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/**
 * The figures that users see, as `streamjoin/figures.json` defines them: their names in the
 * progress, in the figures of a batch and in Spark's metrics. Docs and Python read the same file.
 * Only the code that measures a figure names it.
 */
private[streamjoin] object Figures {

  /** A figure in the progress. */
  final case class Figure(name: String, definition: JsonNode) {
    def meaning: String = definition.path("meaning").asText

    /** Whether it counts the work of a batch; otherwise it is the state after the batch. */
    def addsUp: Boolean = definition.path("span").asText == "batch"

    /**
     * `side` or `input` if each has one, `column` if each event-time column does, `change` if a
     * changed query does.
     */
    def per: String = definition.path("per").asText

    def isMeasuredInTasks: Boolean = definition.path("measured").asText == "task"

    def isOf(kind: String): Boolean = texts("of").isEmpty || texts("of").contains(kind)

    def texts(field: String): Seq[String] = definition.path(field).asScala.toSeq.map(_.asText)

    /** Its metrics, with their descriptions: one for each side, or one. */
    def metrics: Seq[(String, String)] =
      if (per != "side") Seq(name -> meaning)
      else Seq("left", "right").map(side => ofSide(Some(side), name) -> s"$meaning, $side input")
  }

  /** A figure as a field of an operator or an input in the figures of a batch. */
  final case class Field(name: String, figure: Figure) {

    /** Its name in Spark's metrics, which add up the work of batches. */
    def metric: String = if (figure.addsUp) s"${name}Total" else name
  }

  private lazy val sections: Map[String, Seq[Figure]] = SharedFile
    .entries("figures.json")
    .map { case (name, section) => name -> SharedFile.entries(section).map(Figure.tupled) }
    .toMap

  /** The figures of a section of the file, in its order. */
  def of(section: String): Seq[Figure] = sections(section)

  /** Names and descriptions of the figures that the tasks of a kind of operator measure. */
  def ofTasks(kind: String): Seq[(String, String)] =
    of("operator").filter(figure => figure.isMeasuredInTasks && figure.isOf(kind)).flatMap(_.metrics)

  /** A metric for each figure of a section that tasks measure, by name. */
  def metrics(context: SparkContext, section: String): ListMap[String, SQLMetric] =
    of(section)
      .filter(_.isMeasuredInTasks)
      .map(figure => figure.name -> SQLMetrics.createMetric(context, figure.meaning))
      .to(ListMap)

  /** The fields of each of the `operators`, or of their `inputs`. */
  def fields(level: String): Seq[Field] = for {
    figure <- of("operator")
    path <- figure.texts("json") if path.startsWith(s"$level.")
  } yield Field(path.stripPrefix(s"$level."), figure)

  /** `rowsIn` of the left side is `leftRowsIn`. */
  def ofSide(side: Option[String], figure: String): String = side.fold(figure)(_ + figure.capitalize)
}
