package org.apache.spark.sql.streamjoin.base

import java.util.Locale

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.{
  UnresolvedAttribute,
  UnresolvedFunction,
  UnresolvedTableValuedFunction
}
import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  FunctionTableSubqueryArgumentExpression,
  Literal,
  NamedArgumentExpression
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.streamjoin.base.FunctionTable.{Argument, Call}
import org.apache.spark.sql.types.{BooleanType, IntegerType}

/**
 * The arguments of a call, as [[FunctionTable]] declares them: each has its type, missing ones have
 * their default, and required ones are present.
 *
 * @param written
 *   the call, for the text of a plan
 * @param places
 *   positions in a query, for errors; the call itself has the empty name
 */
final private[streamjoin] class CallArguments private (
    val function: Call,
    values: Map[String, Any],
    written: String,
    places: Map[String, Origin]
) {
  def apply[T](name: String): T = values(name).asInstanceOf[T]

  def get[T](name: String): Option[T] = values.get(name).map(_.asInstanceOf[T])

  def text(name: String): String = apply(name)

  def texts(name: String): Seq[String] = apply(name)

  def flag(name: String): Boolean = apply(name)

  def at(name: String): Origin = places.getOrElse(name, at)

  def at: Origin = places("")

  /** The error for a call of a table function, which points at one of its arguments. */
  def rejected(condition: String, argument: String, parameters: (String, String)*): AnalysisException =
    CallArguments.rejected(function, condition, at(argument), parameters: _*)

  override def toString: String = written
}

private[streamjoin] object CallArguments {

  /**
   * The arguments of a call on a DataFrame that are not columns: a JSON object. A missing argument
   * equals null.
   */
  def ofJson(function: Call, json: String): CallArguments = {
    val parsed =
      try new ObjectMapper().readTree(json)
      catch { case NonFatal(_) => null }
    val passed = parsed match {
      case arguments: ObjectNode =>
        arguments.properties.asScala.map(each => each.getKey -> each.getValue).toMap
      case _ => throw wrongCall(function, "STREAMJOIN_CALL.NOT_JSON", "found" -> json)
    }
    val known = function.arguments.map(_.name)
    passed.keys.find(!known.contains(_)).foreach { unknown =>
      throw wrongCall(
        function,
        "STREAMJOIN_CALL.UNKNOWN_ARGUMENT",
        "argument" -> unknown,
        "known" -> StreamJoinErrors.listed(known.sorted)
      )
    }
    val values = passed.filterNot(_._2.isNull).map { case (name, value) =>
      val argument = function.arguments.find(_.name == name).get
      name -> FunctionTable.value(argument.kind, value).getOrElse {
        throw wrongCall(
          function,
          "STREAMJOIN_CALL.ARGUMENT",
          "argument" -> name,
          "takes" -> argument.takes,
          "found" -> value.toString
        )
      }
    }
    complete(function, values, json, Map("" -> Origin())) { missing =>
      wrongCall(
        function,
        "STREAMJOIN_CALL.MISSING_ARGUMENT",
        "argument" -> missing.name,
        "takes" -> missing.takes
      )
    }
  }

  /** The arguments of a table function, by position or by name: `lag => ...`. */
  def ofSql(function: Call, call: UnresolvedTableValuedFunction): CallArguments = {
    val passed = matched(function, call)
    passed.groupBy(_._1.name).values.find(_.size > 1).foreach { twice =>
      throw rejected(
        function,
        "STREAMJOIN_TABLE_FUNCTION.ARGUMENT_TWICE",
        twice(1)._2.origin,
        "argument" -> twice.head._1.name
      )
    }
    val values = passed.map { case (argument, value) => argument.name -> read(function, argument, value) }
    val places = passed.map { case (argument, value) => argument.name -> value.origin }
    complete(
      function,
      values.toMap,
      s"(${call.functionArgs.mkString(", ")})",
      places.toMap + ("" -> call.origin)
    ) { missing =>
      rejected(
        function,
        "STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT",
        call.origin,
        "takes" -> missing.takes
      )
    }
  }

  /** @param at position for the error */
  def rejected(
      function: Call,
      condition: String,
      at: Origin,
      parameters: (String, String)*
  ): AnalysisException = StreamJoinErrors.analysis(
    condition,
    parameters ++ Seq("call" -> function.name, "example" -> function.example, "where" -> where(at)): _*
  )

  /** The error for a call on a DataFrame. */
  def wrongCall(function: Call, condition: String, parameters: (String, String)*): AnalysisException =
    StreamJoinErrors.analysis(condition, parameters :+ ("call" -> function.name): _*)

  /** A position in a query, as Spark shows it below an error. */
  def where(at: Origin): String = at.getQueryContext.map(_.summary).mkString

  private def complete(
      function: Call,
      passed: Map[String, Any],
      text: String,
      places: Map[String, Origin]
  )(error: Argument => AnalysisException): CallArguments = {
    val missing = function.arguments.filterNot(argument => passed.contains(argument.name))
    val defaults = missing.map(argument => argument.name -> argument.default.getOrElse(throw error(argument)))
    new CallArguments(function, (passed ++ defaults).filter(_._2 != null), text, places)
  }

  private def matched(
      function: Call,
      call: UnresolvedTableValuedFunction
  ): Seq[(Argument, Expression)] = {
    val names = function.arguments.map(_.name)
    def isNamed(argument: Expression) = argument.isInstanceOf[NamedArgumentExpression]
    val (inOrder, named) =
      if (function.hasClauses) call.functionArgs.splitAt(1) else call.functionArgs.partition(!isNamed(_))
    if (inOrder.size > names.size) {
      val most = names.size match {
        case 0 => "no arguments"
        case 1 => "one argument"
        case several => s"$several arguments at most"
      }
      throw rejected(
        function,
        "STREAMJOIN_TABLE_FUNCTION.TOO_MANY_ARGUMENTS",
        call.origin,
        "takes" -> most,
        "found" -> inOrder.size.toString
      )
    }
    function.arguments.zip(inOrder) ++ named.map {
      case NamedArgumentExpression(key, value) =>
        val argument = function.arguments.find(_.name.equalsIgnoreCase(key)).getOrElse {
          throw rejected(
            function,
            "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_ARGUMENT",
            value.origin,
            "argument" -> key,
            "known" -> names.mkString(", ")
          )
        }
        argument -> value
      case clause =>
        clauseOf(function, clause).getOrElse {
          val (head, last) = (names.slice(1, names.size - 1).mkString(", "), names.last)
          throw rejected(
            function,
            "STREAMJOIN_TABLE_FUNCTION.CLAUSE",
            clause.origin,
            "known" -> s"$head and $last",
            "found" -> clause.sql
          )
        } -> clause
    }
  }

  private def clauseOf(function: Call, clause: Expression): Option[Argument] = clause match {
    case UnresolvedFunction(Seq(name), _, _, _, _, _, _) =>
      function.arguments.tail.find(_.name == name.toUpperCase(Locale.ROOT))
    case _ => None
  }

  /** The value of an argument; null stands for none. */
  private def read(function: Call, argument: Argument, passed: Expression): Any = {
    def column(passed: Expression): Seq[String] = passed match {
      case name: UnresolvedAttribute => name.nameParts
      case TextArgument(name) => Seq(name)
      case other =>
        throw rejected(
          function,
          "STREAMJOIN_TABLE_FUNCTION.COLUMN_NAME",
          other.origin,
          "found" -> other.sql
        )
    }
    (argument.kind, passed) match {
      case ("text", TextArgument(text)) => text
      case ("boolean", Literal(value: Boolean, BooleanType)) => value
      case ("count", Literal(value: Int, IntegerType)) if value > 0 => value
      case ("interval", lag) => lag
      case ("table", _) => table(function, passed)
      case ("descriptor", Descriptor(name)) => name
      case ("text or null", Clause(Seq(TextArgument(text)))) => text
      case ("text or null", Clause(Seq(Literal(null, _)))) => null
      case ("column names", Clause(names)) if names.nonEmpty => names.map(column)
      case ("column name", Clause(Seq(name))) => column(name)
      case _ =>
        throw rejected(
          function,
          "STREAMJOIN_TABLE_FUNCTION.ARGUMENT",
          passed.origin,
          "takes" -> argument.takes,
          "found" -> passed.sql
        )
    }
  }

  /** The query in `TABLE(...)`. */
  private def table(function: Call, argument: Expression): LogicalPlan = argument match {
    case table: FunctionTableSubqueryArgumentExpression
        if !table.hasRepartitioning && table.orderByExpressions.isEmpty =>
      table.plan
    case _: FunctionTableSubqueryArgumentExpression =>
      throw rejected(function, "STREAMJOIN_TABLE_FUNCTION.DIVIDED_TABLE", argument.origin)
    case other =>
      throw rejected(function, "STREAMJOIN_TABLE_FUNCTION.NO_TABLE", other.origin, "found" -> other.sql)
  }

  private object Clause {
    def unapply(clause: UnresolvedFunction): Some[Seq[Expression]] = Some(clause.arguments)
  }

  private object Descriptor {
    def unapply(column: Expression): Option[Seq[String]] = column match {
      case UnresolvedFunction(Seq(descriptor), Seq(name: UnresolvedAttribute), _, _, _, _, _)
          if descriptor.equalsIgnoreCase("descriptor") =>
        Some(name.nameParts)
      case TextArgument(name) => Some(Seq(name))
      case _ => None
    }
  }
}
