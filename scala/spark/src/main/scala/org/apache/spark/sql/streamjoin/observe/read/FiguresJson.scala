package org.apache.spark.sql.streamjoin.observe.read

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.streamjoin.base.Figures
import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.observe.collect.{RowPath, TimeHistogram}

/**
 * The figures of a batch as JSON, which the history, the web page, the report and `watch` share:
 * `docs/figures.schema.json` describes it. Times are milliseconds since 1970, UTC. It contains
 * names of columns and the conditions of the query's filters, but no values of rows, except for
 * keys if they are requested.
 *
 * @param batch
 *   progress of the batch that the figures describe
 * @param now
 *   in milliseconds
 * @param showsKeys
 *   whether it contains the values of hot keys, in their own field
 */
final private[streamjoin] class FiguresJson(
    query: QueryFigures,
    batch: StreamingQueryProgress,
    now: Long,
    showsKeys: Boolean
) {
  import FiguresJson._

  // A report has hints and no values.
  private val hints = new Hints(query, now, showsKeys = false)

  def root: ObjectNode = {
    val root = mapper.createObjectNode().put("version", Version)
    root.put("id", batch.id.toString).put("runId", batch.runId.toString)
    Option(batch.name).foreach(root.put("name", _))
    root.put("batch", batch.batchId).put("timestamp", java.time.Instant.parse(batch.timestamp).toEpochMilli)
    query.triggerMs.foreach(root.put("triggerMs", _))
    val phases = root.putObject("phasesMs")
    batch.durationMs.asScala.toSeq.sortBy(_._1).foreach { case (phase, millis) => phases.put(phase, millis) }
    val operators = root.putArray("operators")
    query.all.foreach(one => operator(one, operators.addObject()))
    root
  }

  private def operator(of: OperatorFigures, node: ObjectNode): Unit = {
    node
      .put("operator", of.outline.ordinal + 1)
      .put("kind", of.outline.kind)
      .put("title", of.outline.title)
    Figures.fields("operators").foreach { field =>
      val value = field.figure.name match {
        case "lateRows" => of.late(Seq(batch))
        case "rowsInState" => of.sum(_.rows.sum)
        case "bytesInState" => of.sum(_.bytes.sum)
        case "indexBytes" => of.sum(_.indexBytes)
        case name => of.sum(Seq(batch), name)
      }
      node.put(field.name, value)
    }
    val phases = node.putObject("phasesMs")
    of.phases.foreach { case (phase, millis) => phases.put(phase, millis) }
    val tasks = node.putObject("tasks")
    val reports = of.reports.toSeq.sortBy(_._1).map(_._2)
    for (
      (name, figure) <- Seq[(String, Seq[Long])](
        "rows" -> reports.map(_.rows.sum),
        "bytes" -> reports.map(_.bytes.sum),
        "ms" -> reports.map(_.millis)
      )
    ) {
      val values = tasks.putArray(name)
      figure.foreach(values.add(_))
    }
    for (histogram <- of.distances; (left, right) <- of.pairOfColumns) {
      val distances = node.putObject("distances").put("of", s"$right - $left")
      of.allowed.flatMap(_.lowest).foreach(distances.put("lowestMs", _))
      of.allowed.flatMap(_.highest).foreach(distances.put("highestMs", _))
      buckets(histogram, "pairs", distances)
    }
    val inputs = node.putArray("inputs")
    of.outline.inputs.zipWithIndex.foreach { case (one, at) =>
      input(of, one, at, inputs.addObject())
    }
    val words = node.putArray("hints")
    hints.ofOperator(of).foreach(words.add)
  }

  private def buckets(histogram: TimeHistogram, counted: String, node: ObjectNode): Unit = {
    val all = node.putArray("buckets")
    histogram.buckets.foreach { bucket =>
      all.addObject().put("fromMs", bucket.from).put("toMs", bucket.to).put(counted, bucket.count)
    }
  }

  /** What happened to the rows of an input on their way to the operator. */
  private def path(of: RowPath, node: ObjectNode): Unit = {
    node.put("rowsRead", of.read)
    if (of.inReader.nonEmpty) {
      val conditions = node.putArray("inReader")
      of.inReader.foreach(conditions.add)
    }
    val removed = of.steps.filter(_.rows > 0)
    if (removed.nonEmpty) {
      val steps = node.putArray("removed")
      removed.foreach(step => steps.addObject().put("by", step.remover.words).put("rows", step.rows))
    }
    val nulls = of.marked.filter(_.nulls > 0)
    if (nulls.nonEmpty) {
      val columns = node.putArray("nullTimes")
      nulls.foreach(mark => columns.addObject().put("column", mark.column).put("rows", mark.nulls))
    }
  }

  private def input(of: OperatorFigures, input: InputOutline, at: Int, node: ObjectNode): Unit = {
    def millis(field: String, micros: Option[Long], to: ObjectNode): Unit =
      micros.foreach(value => to.put(field, Math.floorDiv(value, 1000L)))
    input.side.foreach(node.put("side", _))
    node.put("name", input.name)
    Figures.fields("inputs").filter(_.figure.name != "lateRows" || input.side.isDefined).foreach { field =>
      val value = field.figure.name match {
        case "rowsInState" => of.sum(_.rows(at))
        case "bytesInState" => of.sum(_.bytes(at))
        case name => of.sum(Seq(batch), Figures.ofSide(input.side, name))
      }
      node.put(field.name, value)
    }
    of.path(at).foreach(path(_, node))
    val columns = node.putArray("columns")
    of.columns(input).foreach { key =>
      val column = columns.addObject().put("name", of.outline.columns(key))
      millis("watermark", of.watermark(key), column)
      millis("newest", of.newest(key), column)
      of.heldBy(key).foreach(column.put("heldBy", _))
    }
    millis("oldest", of.oldest(input), node)
    of.awaited(input).foreach { awaited =>
      node.put("leavesBy", awaited.column)
      millis("leavesAfter", Some(awaited.after), node)
    }
    val leaves = node.putArray("leaves")
    for (limit <- input.limits; reached <- limit.until)
      leaves
        .addObject()
        .put("time", input.timeColumns.lift(limit.time).fold("")(of.outline.columns))
        .put("column", of.outline.columns(reached.key))
        .put("postponeMs", Math.floorDiv(reached.postpone, 1000L))
    of.lateness(input, at).foreach { case (histogram, delay) =>
      val lateness = node.putObject("lateness")
      delay.foreach(lateness.put("delayMs", _))
      buckets(histogram, "rows", lateness)
    }
    val keys = of.observed.hotKeys(at)
    if (keys.nonEmpty) {
      val hot = node.putArray("hotKeys")
      keys.foreach { case (key, share) =>
        val one = hot.addObject().put("share", share)
        if (showsKeys) one.put("key", key)
      }
    }
    val below = node.putArray("below")
    of.below.lift(at).toSeq.flatten.foreach(one => below.add(one.outline.ordinal + 1))
    val words = node.putArray("hints")
    hints.ofInput(of, input, at).foreach(words.add)
  }
}

private object FiguresJson {
  private val Version = 1
  private val mapper = new ObjectMapper()
}
