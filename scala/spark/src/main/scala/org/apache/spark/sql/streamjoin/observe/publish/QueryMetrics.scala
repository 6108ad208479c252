package org.apache.spark.sql.streamjoin.observe.publish

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.streamjoin.base.{Figures, RunningQuery}

/**
 * The metrics of a run of a query, computed from its figures. Counts add up since the start of the
 * run, so a reader that polls less often than once per batch misses nothing.
 *
 * @param isOurs
 *   whether the query has joins or other streamjoin operators; evaluated after its first trigger
 * @param taskMemory
 *   maximum number of bytes of a task's index
 */
final private[publish] class QueryMetrics(
    source: FiguresSource,
    query: MicroBatchExecution,
    isOurs: => Boolean,
    taskMemory: Long
) {
  import QueryMetrics._

  private lazy val isMeasured = isOurs
  private var totals = Map.empty[Seq[String], Long]
  private var batches = 0L

  /** The query has looked for rows and found none: there may never be a batch. */
  def idle(): Unit = if (batches == 0) show(Nil)

  /**
   * @param figures
   *   figures of the batch; none if the query has no streamjoin operator
   */
  def add(progress: StreamingQueryProgress, figures: Option[JsonNode]): Unit = {
    val batch = figures.toSeq.flatMap(ofOperators)
    val added = batch.collect { case (parts, Added(value)) => parts -> value }
    totals = totals ++ added.map { case (parts, value) => parts -> (totals.getOrElse(parts, 0L) + value) }
    if (progress.durationMs.containsKey("addBatch")) batches += 1
    val own = readers(progress) ++ batch.collect { case (parts, Now(value)) => parts -> value } ++
      added.map { case (parts, _) => parts -> totals(parts) }
    val millis = Option(progress.durationMs.get("triggerExecution")).map(Seq("batchMs") -> _.longValue)
    show(if (own.nonEmpty || isMeasured) own ++ millis else Nil)
  }

  private def show(figures: Seq[(Seq[String], Long)]): Unit = if (figures.nonEmpty || isMeasured) {
    // A query that ends by itself is not reported as missing afterwards.
    val goesOn = Option.unless(RunningQuery.endsByItself(query))(Seq("running") -> 1L)
    val name = Option(query.name).getOrElse(query.id.toString)
    val all = MetricNames.distinct(figures ++ goesOn :+ (Seq("batchesTotal") -> batches))
    source.update(query.runId, query.id, name, all)
  }

  def remove(): Unit = source.remove(query.runId)

  private def ofOperators(figures: JsonNode): Seq[(Seq[String], Value)] =
    for {
      operator <- figures.path("operators").asScala.toSeq
      number = Seq(operator.path("operator").asText)
      budget = Seq(
        (number :+ "memoryBudgetBytes") -> Now(taskMemory * operator.path("tasks").path("rows").size)
      )
      inputs = operator
        .path("inputs")
        .asScala
        .toSeq
        .flatMap(ofInput(number, _, figures.path("timestamp").asLong))
      figure <- measured("operators", operator, number) ++ budget ++ inputs
    } yield figure

  private def ofInput(operator: Seq[String], input: JsonNode, began: Long): Seq[(Seq[String], Value)] = {
    val side = if (input.has("side")) s"${input.path("side").asText} " else ""
    val parts = operator :+ MetricNames.part(side + input.path("name").asText)
    measured("inputs", input, parts) ++ input.path("columns").asScala.toSeq.flatMap { column =>
      val named = parts :+ MetricNames.part(column.path("name").asText)
      val watermark = Option.when(column.has("watermark"))(column.path("watermark").asLong)
      ((named :+ "hasWatermark") -> Now(if (watermark.isDefined) 1 else 0)) +: watermark.toSeq.flatMap { at =>
        Seq((named :+ "watermarkMs") -> Now(at), (named :+ "behindClockMs") -> Now(began - at))
      }
    }
  }
}

private[publish] object QueryMetrics {
  sealed private trait Value
  final private case class Now(value: Long) extends Value
  final private case class Added(value: Long) extends Value

  private def measured(level: String, of: JsonNode, parts: Seq[String]): Seq[(Seq[String], Value)] =
    for (field <- Figures.fields(level) if of.has(field.name)) yield {
      val value = of.path(field.name).asLong
      (parts :+ field.metric) -> (if (field.figure.addsUp) Added(value) else Now(value))
    }

  /**
   * How far the query lags behind the arrangements that it reads, as reported by
   * `ArrangementStream`.
   */
  private def readers(progress: StreamingQueryProgress): Seq[(Seq[String], Long)] =
    for {
      source <- progress.sources.toSeq
      behind <- Option(source.metrics.get("versionsBehind")).flatMap(_.toLongOption)
    } yield Seq(MetricNames.part(source.description.split('/').last), "versionsBehind") -> behind
}
