package org.apache.spark.sql.streamjoin.base

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

/**
 * The functions that users can call in Python, Scala, SQL and Spark Connect:
 * `streamjoin/functions.json`, which is part of the Python package and of the jar. Calls, their
 * errors and the reference are derived from it, or a test compares them with it.
 */
private[streamjoin] object FunctionTable {

  /** Each language has its own name for a function and its parameters. */
  sealed abstract class Language(private[FunctionTable] val key: String)

  object Language {
    case object Python extends Language("python")
    case object Scala extends Language("scala")
    case object Sql extends Language("sql")
  }

  /**
   * @param id
   *   its name in Python, without the package
   * @param calls
   *   the calls that are sent to the extension for it
   */
  final case class Function(
      id: String,
      private val names: Map[String, String],
      parameters: Seq[Parameter],
      calls: Seq[Call]
  ) {

    /** Its name in a language, for errors; the Python name in a language without the function. */
    def name(language: Language): String = names.getOrElse(language.key, names("python"))

    def has(language: Language): Boolean = names.contains(language.key)
  }

  /** @param scala its name in Scala: a parameter, or a method of the builder */
  final case class Parameter(name: String, scala: Option[String])

  /**
   * @param form
   *   `frame`, on a DataFrame: `SELECT *, sj_...('{...}', columns) FROM child`; `table`: `SELECT *
   *   FROM f(...)`; `command`, a table function that runs once and stands alone
   * @param columns
   *   how many columns it takes after its arguments, in a call on a DataFrame
   * @param example
   *   sample call of a table function, for errors
   * @param hasClauses
   *   whether its arguments after the first are written as `NAME(...)`
   * @param streams
   *   whether `STREAM` may stand before it
   */
  final case class Call(
      name: String,
      form: String,
      arguments: Seq[Argument],
      columns: Range,
      example: String,
      hasClauses: Boolean,
      streams: Boolean
  )

  /**
   * @param kind
   *   the name of its type
   * @param takes
   *   what it accepts, in the words of an error
   * @param default
   *   its value if it is missing; null stands for None. Without a default it is required.
   */
  final case class Argument(name: String, kind: String, takes: String, default: Option[Any])

  lazy val functions: Seq[Function] =
    SharedFile.entries("functions.json").map { case (id, json) => function(id, json) }

  private lazy val byIds = functions.map(function => function.id -> function).toMap

  def byId(id: String): Function = byIds(id)

  lazy val byPythonName: Map[String, Function] =
    functions.filter(_.has(Language.Python)).map(function => function.name(Language.Python) -> function).toMap

  /** The calls of some forms by name; calls of different forms may have the same name. */
  def calls(forms: String*): Map[String, Call] =
    functions.flatMap(_.calls).filter(call => forms.contains(call.form)).map(call => call.name -> call).toMap

  /** A JSON value converted to the kind of its argument; none if it does not fit. */
  def value(kind: String, json: JsonNode): Option[Any] = kind match {
    case _ if json.isNull => Some(null)
    case "boolean" => Option.when(json.isBoolean)(json.asBoolean)
    case "count" => Option.when(json.isInt)(json.asInt)
    case "texts" => list("text", json)
    case "text lists" => list("texts", json)
    case _ => Option.when(json.isTextual)(json.asText)
  }

  private def list(kind: String, json: JsonNode): Option[Seq[Any]] = {
    val values = json.elements.asScala.map(value(kind, _)).toSeq
    Option.when(json.isArray && values.forall(_.exists(_ != null)))(values.flatten)
  }

  private def each[A](json: JsonNode, of: String)(read: JsonNode => A): Seq[A] =
    json.path(of).elements.asScala.map(read).toSeq

  private def function(id: String, json: JsonNode) = Function(
    id,
    Seq("python", "scala", "sql")
      .filter(json.has)
      .map(language => language -> json.get(language).asText)
      .toMap,
    each(json, "parameters") { parameter =>
      val name = parameter.get("name").asText
      Parameter(
        name,
        Option(parameter.path("scala").asText(if (parameter.has("scala")) null else camel(name)))
      )
    },
    each(json, "calls")(call)
  )

  private def camel(name: String): String = {
    val words = name.split('_')
    words.head + words.tail.map(_.capitalize).mkString
  }

  private def call(json: JsonNode) = Call(
    json.get("name").asText,
    json.get("form").asText,
    each(json, "arguments")(argument),
    json.path("columns").path(0).asInt to json.path("columns").path(1).asInt,
    json.path("example").asText,
    json.path("clauses").asBoolean,
    json.path("streams").asBoolean
  )

  private def argument(json: JsonNode) = {
    val kind = json.get("type").asText
    Argument(
      json.get("name").asText,
      kind,
      json.path("takes").asText(Takes.getOrElse(kind, "a value")),
      Option(json.get("default")).map(value(kind, _).get)
    )
  }

  /** What an argument of a kind accepts, unless the argument has its own text. */
  private val Takes = Map(
    "text" -> "a text",
    "texts" -> "a list of texts",
    "text lists" -> "a list of lists of texts",
    "boolean" -> "true or false",
    "column name" -> "the name of a column"
  )
}
