package org.apache.spark.sql.streamjoin.base

import java.util.regex.Matcher
import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkRuntimeException
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.streamjoin.base.FunctionTable.Language

/**
 * The errors of streamjoin; `streamjoin/error-conditions.json` has every message and SQLSTATE.
 *
 * A message names a function by its id, `<sj.arrange>`, and a value by its name in Python. The
 * thrown error contains the name in the language of the call.
 */
private[streamjoin] object StreamJoinErrors {

  /** The parameter `where` is a position in a SQL text; it ends the message. */
  final case class Condition(name: String, template: String, sqlState: String) {
    def message(parameters: Map[String, String]): String = {
      val filled = Parameter.replaceAllIn(
        template,
        found => Matcher.quoteReplacement(parameters.getOrElse(found.group(1), found.matched))
      )
      val where = parameters.get("where").filter(_.nonEmpty).fold("")(at => s"\n$at")
      s"[$name] $filled$where SQLSTATE: $sqlState"
    }
  }

  private val Parameter = "<(\\w+)>".r

  private val FunctionId = "<sj\\.([\\w.]+)>".r

  lazy val conditions: Map[String, Condition] = SharedFile
    .entries("error-conditions.json")
    .flatMap { case (name, node) => conditionsIn(name, node) }
    .toMap

  /** A condition, or one per cause if it has several, read in the same way as Spark's own file. */
  private def conditionsIn(name: String, node: JsonNode): Seq[(String, Condition)] = {
    def text(of: JsonNode) = of.get("message").elements().asScala.map(_.asText).mkString("\n")
    val sqlState = node.get("sqlState").asText
    val causes = SharedFile.entries(node.path("subClass")).map { case (cause, own) =>
      (s"$name.$cause", s"${text(node)} ${text(own)}")
    }
    (if (causes.isEmpty) Seq(name -> text(node)) else causes).map { case (full, template) =>
      full -> Condition(full, template, sqlState)
    }
  }

  /** An error on the driver, before or while a query starts. */
  def analysis(name: String, parameters: (String, Any)*): AnalysisException = {
    val (condition, values) = named(name, parameters)
    new AnalysisException(
      errorClass = name,
      sqlState = condition.sqlState,
      messageTemplate = condition.template,
      messageParameters = values,
      cause = None,
      message = Some(condition.message(values))
    )
  }

  /** An error in a task. */
  def runtime(name: String, parameters: (String, Any)*): StreamJoinRuntimeException = {
    val (condition, values) = named(name, parameters)
    new StreamJoinRuntimeException(condition, values)
  }

  /** Inserts the names of functions in the language of the caller. */
  private def named(name: String, parameters: Seq[(String, Any)]): (Condition, Map[String, String]) = {
    val values = parameters.map { case (key, value) => key -> value.toString }.toMap
    lazy val language =
      if (values.get("where").exists(_.nonEmpty)) Language.Sql
      else if (Thread.currentThread.getStackTrace.exists(isOfScalaApi)) Language.Scala
      else Language.Python
    val condition = conditions(name)
    val template = FunctionId.replaceAllIn(
      condition.template,
      found => Matcher.quoteReplacement(FunctionTable.byId(found.group(1)).name(language))
    )
    (
      condition.copy(template = template),
      values.transform((_, value) => FunctionTable.byPythonName.get(value).fold(value)(_.name(language)))
    )
  }

  private def isOfScalaApi(frame: StackTraceElement) =
    frame.getClassName.startsWith("streamjoin.") && !frame.getClassName.startsWith("streamjoin.core.")

  /** Names in a message. */
  def listed(names: Seq[String]): String = if (names.isEmpty) "none" else names.mkString(", ")
}

/**
 * Thrown when a task of a join cannot continue. Earlier commits are not affected. It is a
 * [[SparkRuntimeException]], so that callers, including PySpark, can catch it as one. That class
 * accepts only Spark's conditions, so its getters are overridden.
 */
final class StreamJoinRuntimeException private[streamjoin] (
    condition: StreamJoinErrors.Condition,
    parameters: Map[String, String]
) extends SparkRuntimeException("INTERNAL_ERROR", Map("message" -> condition.name)) {
  override def getMessage: String = condition.message(parameters)
  override def getCondition: String = condition.name
  override def getSqlState: String = condition.sqlState
  override def getMessageParameters: JMap[String, String] = parameters.asJava
}
