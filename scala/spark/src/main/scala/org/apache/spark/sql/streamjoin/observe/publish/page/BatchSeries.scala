package org.apache.spark.sql.streamjoin.observe.publish.page

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.streamjoin.base.Figures

/**
 * All batches of a query as points of a chart, in bounded memory. A point has those figures of a
 * batch that change from batch to batch. If there are more batches than points, adjacent batches
 * are merged. The merged point has the sums of rows in and out, the maximum of what was kept, the
 * times of the slowest batch, and the last batch's values of all other figures. `batches` is the
 * number of batches that it represents.
 *
 * @param most
 *   maximum number of points
 */
final private[streamjoin] class BatchSeries(most: Int = BatchSeries.Points) {
  import BatchSeries._

  private var points = Vector.empty[ObjectNode]

  /** How many batches a point represents, except for the last one. */
  private var width = 1

  def add(figures: JsonNode): Unit = {
    val next = point(figures)
    // A batch that runs again, perhaps after its checkpoint was restored, replaces the batches that
    // it repeats.
    points = points.reverseIterator.dropWhile(first(_) >= first(next)).toVector.reverse
    points = points.lastOption match {
      case Some(last) if batches(last) + batches(next) <= width => points.init :+ merged(last, next)
      case _ => points :+ next
    }
    if (points.size > most) {
      points = points.grouped(2).map(_.reduce(merged)).toVector
      width *= 2
    }
  }

  /** The points, the oldest first, each a line of JSON. */
  def lines: Seq[String] = points.map(_.toString)
}

private[streamjoin] object BatchSeries {
  val Points = 1000

  private val Mapper = new ObjectMapper
  private val OfBatch = Seq("id", "runId", "name", "batch", "timestamp", "triggerMs", "phasesMs")
  private val OfOperator = Seq("operator", "kind", "title")
  private val OfInput = Seq("side", "name")
  private val OfColumn = Seq("name", "watermark", "newest", "heldBy")
  private val (sums, peaks) = {
    val (added, others) = Seq("operators", "inputs").flatMap(Figures.fields).partition(_.figure.addsUp)
    (added.map(_.name).distinct, others.map(_.name).distinct)
  }

  def parse(line: String): JsonNode = Mapper.readTree(line)

  private def batches(point: JsonNode): Long = point.path("batches").asLong(1)
  private def first(point: JsonNode): Long = point.path("firstBatch").asLong
  private def took(point: JsonNode): Long = point.path("phasesMs").path("triggerExecution").asLong

  /** The point of a batch, or of an existing point. */
  private def point(figures: JsonNode): ObjectNode = {
    val made = taken(figures, OfBatch)
    val operators = made.putArray("operators")
    figures.path("operators").forEach { operator =>
      val of = taken(operator, OfOperator ++ sums ++ peaks)
      val inputs = of.putArray("inputs")
      operator.path("inputs").forEach { input =>
        val own = taken(input, OfInput ++ sums ++ peaks)
        val columns = own.putArray("columns")
        input.path("columns").forEach(column => columns.add(taken(column, OfColumn)): Unit)
        inputs.add(own): Unit
      }
      operators.add(of): Unit
    }
    made.put("batches", batches(figures))
    made.put("firstBatch", figures.path("firstBatch").asLong(figures.path("batch").asLong))
    made.put("firstTimestamp", figures.path("firstTimestamp").asLong(figures.path("timestamp").asLong))
  }

  private def taken(from: JsonNode, fields: Seq[String]): ObjectNode = {
    val made = Mapper.createObjectNode()
    fields.filter(from.has).foreach(field => made.set[JsonNode](field, from.get(field)): Unit)
    made
  }

  private def merged(earlier: ObjectNode, later: ObjectNode): ObjectNode = {
    val made = later.deepCopy()
    made.put("batches", batches(earlier) + batches(later))
    Seq("firstBatch", "firstTimestamp").foreach(field => made.set[JsonNode](field, earlier.get(field)): Unit)
    if (took(earlier) > took(later)) made.set[JsonNode]("phasesMs", earlier.get("phasesMs")): Unit
    matched(earlier.path("operators"), made.path("operators"), OfOperator).foreach {
      case (before, operator) =>
        add(before, operator)
        matched(before.path("inputs"), operator.path("inputs"), OfInput).foreach { case (old, input) =>
          add(old, input)
        }
    }
    made
  }

  /** The pairs of elements that correspond to each other. */
  private def matched(earlier: JsonNode, later: JsonNode, by: Seq[String]): Seq[(JsonNode, ObjectNode)] =
    for {
      one <- later.asScala.toSeq.collect { case node: ObjectNode => node }
      same <- earlier.asScala.find(other => by.forall(field => other.path(field) == one.path(field)))
    } yield same -> one

  private def add(earlier: JsonNode, later: ObjectNode): Unit = {
    sums
      .filter(earlier.has)
      .foreach(field => later.put(field, earlier.path(field).asLong + later.path(field).asLong))
    peaks
      .filter(earlier.has)
      .foreach(field => later.put(field, math.max(earlier.path(field).asLong, later.path(field).asLong)))
  }
}
