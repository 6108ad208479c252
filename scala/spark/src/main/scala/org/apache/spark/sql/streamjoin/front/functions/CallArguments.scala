package org.apache.spark.sql.streamjoin.front.functions

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/**
 * The arguments of a call that are no columns: a JSON object. A missing one and null are the same.
 */
final private[streamjoin] class CallArguments private (function: String, values: ObjectNode) {

  def text(name: String): String = optionalText(name).getOrElse(throw wrong(name, "a text"))

  def optionalText(name: String): Option[String] = value(name).map { found =>
    if (found.isTextual) found.asText else throw wrong(name, "a text")
  }

  /** A list of texts; empty if it is missing. */
  def texts(name: String): Seq[String] = elements(name).map { found =>
    if (found.isTextual) found.asText else throw wrong(name, "a list of texts")
  }

  /** A list of lists of texts; empty if it is missing. */
  def textLists(name: String): Seq[Seq[String]] = elements(name).map { list =>
    if (!list.isArray || list.elements.asScala.exists(!_.isTextual))
      throw wrong(name, "a list of lists of texts")
    list.elements.asScala.map(_.asText).toSeq
  }

  def flag(name: String, default: Boolean): Boolean = value(name).fold(default) { found =>
    if (found.isBoolean) found.asBoolean else throw wrong(name, "true or false")
  }

  private def elements(name: String): Seq[JsonNode] = value(name).fold(Seq.empty[JsonNode]) { found =>
    if (found.isArray) found.elements.asScala.toSeq else throw wrong(name, "a list")
  }

  private def value(name: String): Option[JsonNode] = Option(values.get(name)).filterNot(_.isNull)

  private def wrong(name: String, wanted: String): AnalysisException = {
    val found = value(name).fold("is missing")(is => s"is $is")
    CallArguments.refused(function, s"its argument $name is $wanted, and $found")
  }

  override def toString: String = values.toString
}

private[streamjoin] object CallArguments {

  /**
   * @param known
   *   the arguments that the function has
   * @throws org.apache.spark.sql.AnalysisException
   *   if it is no JSON object, or has an argument that the function does not have
   */
  def parse(function: String, json: String, known: Set[String]): CallArguments = {
    val parsed =
      try new ObjectMapper().readTree(json)
      catch { case NonFatal(_) => null }
    parsed match {
      case arguments: ObjectNode =>
        arguments.fieldNames.asScala.find(!known(_)).foreach { unknown =>
          throw refused(
            function,
            s"there is no argument $unknown; " +
              (if (known.isEmpty) "it has none" else s"it has ${known.toSeq.sorted.mkString(", ")}") +
              ". A Python package of a newer version than the jar may send it"
          )
        }
        new CallArguments(function, arguments)
      case _ => throw refused(function, s"its first argument is a JSON object as text, and not $json")
    }
  }

  def refused(function: String, problem: String): AnalysisException =
    StreamJoinErrors.analysis("STREAMJOIN_CALL", "call" -> function, "problem" -> problem)
}
