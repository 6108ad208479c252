package org.apache.spark.sql.streamjoin.analysis

import java.time.temporal.ChronoUnit.MICROS
import java.time.{Duration, Instant, LocalDate, ZoneId}

import scala.util.matching.Regex

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.trees.TreePattern.LAMBDA_FUNCTION
import org.apache.spark.sql.streamjoin.time.BatchTime
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * A condition as text for checkpoints: the same in every run of a query, and with every Spark
 * version that produces the same expressions. It contains no expression ids, no batch time and no
 * text that Spark generates.
 *
 *   - a column has the name of its input as a prefix, by default `left.name` or `right.name`;
 *   - conjuncts and disjuncts are sorted, and so are both sides of an equality; `a > b` is written
 *     `b < a`;
 *   - functions are written as their names, and literals as their values.
 */
final private[streamjoin] class NormalForm(inputs: (String, Seq[Attribute])*) {
  def this(left: Seq[Attribute], right: Seq[Attribute]) = this("left" -> left, "right" -> right)

  private val names: Map[ExprId, String] = inputs.flatMap { case (name, columns) =>
    NormalForm.names(name, columns)
  }.toMap

  def apply(condition: Expression): String = text(NormalForm.withLastingVariables(condition))

  private def text(expression: Expression): String = expression match {
    case column: Attribute => names.getOrElse(column.exprId, NormalForm.lasting(column.name))
    case literal: Literal => NormalForm.literal(literal)
    case Alias(child, _) => text(child)
    case And(_, _) => all(expression, " AND ") { case And(l, r) => Seq(l, r) }
    case Or(_, _) => all(expression, " OR ") { case Or(l, r) => Seq(l, r) }
    case GreaterThan(l, r) => infix(r, "<", l)
    case GreaterThanOrEqual(l, r) => infix(r, "<=", l)
    case EqualTo(l, r) => Seq(l, r).map(text).sorted.mkString("(", " = ", ")")
    case EqualNullSafe(l, r) => Seq(l, r).map(text).sorted.mkString("(", " <=> ", ")")
    case TimestampAddInterval(time, interval, _) => infix(time, "+", interval)
    case operator: BinaryOperator => infix(operator.left, operator.symbol, operator.right)
    case cast: Cast => s"cast(${text(cast.child)} as ${cast.dataType.catalogString})"
    case InSet(child, values) =>
      s"in(${text(child)}, ${values.map(NormalForm.element).toSeq.sorted.mkString(", ")})"
    case time: BatchTime => s"current_batch_time(${time.dataType.catalogString})"
    case time: CurrentBatchTimestamp => s"current_batch_time(${time.dataType.catalogString})"
    case other => (other.children.map(text) ++ settings(other)).mkString(s"${name(other)}(", ", ", ")")
  }

  private def infix(left: Expression, symbol: String, right: Expression): String =
    s"(${text(left)} $symbol ${text(right)})"

  private def all(expression: Expression, separator: String)(
      parts: PartialFunction[Expression, Seq[Expression]]
  ): String = {
    def flat(part: Expression): Seq[Expression] = parts.lift(part).fold(Seq(part))(_.flatMap(flat))
    flat(expression).map(text).sorted.mkString("(", separator, ")")
  }

  private def name(expression: Expression): String = expression match {
    case function: UserDefinedExpression => function.name
    case other => other.prettyName
  }

  /** Parameters of a function that are not arguments, such as a pattern's escape character. */
  private def settings(expression: Expression): Seq[String] = expression.productIterator.collect {
    case number: Int => number.toString
    case number: Long => number.toString
    case character: Char => NormalForm.quoted(character.toString)
    case text: String => NormalForm.quoted(text)
    case dataType: DataType => dataType.catalogString
  }.toSeq
}

private[streamjoin] object NormalForm {

  /** `RewriteWithExpression` numbers its columns across all queries of the application. */
  def lasting(name: String): String = name.replaceAll("_common_expr_\\d+", "_common_expr")

  /**
   * Spark's API numbers the variables of functions such as `exists(list, x -> ...)` across all
   * queries of the application: `x_7`. In place of the number, a variable of a function inside
   * another one has its depth.
   */
  private def withLastingVariables(expression: Expression, depth: Int = 0): Expression = expression match {
    case function: LambdaFunction =>
      val names = function.arguments.map(_.exprId).zip(function.arguments.map(_.name)).toMap
      function
        .transform {
          case variable: NamedLambdaVariable if names.contains(variable.exprId) =>
            variable.copy(name = lastingVariable(variable.name, depth))
        }
        .mapChildren(withLastingVariables(_, depth + 1))
    case other if other.containsPattern(LAMBDA_FUNCTION) => other.mapChildren(withLastingVariables(_, depth))
    case other => other
  }

  private def lastingVariable(name: String, depth: Int): String = name match {
    case NumberedVariable(of) => if (depth == 0) of else s"$of.$depth"
    case other => other
  }

  private val NumberedVariable = """(.+)_\d+""".r

  /** A text in which variables have no numbers: earlier versions have recorded them. */
  private def withoutNumbers(text: String): String =
    text.replaceAll("""(namedlambdavariable\('[^']*?)_\d+'""", "$1'")

  /** The columns of an input in order, with their types. */
  def columns(output: Seq[Attribute]): String =
    output.map(column => s"${lasting(column.name)} ${column.dataType.catalogString}").mkString(", ")

  /** If a name repeats, its later columns get a number. */
  private def names(side: String, output: Seq[Attribute]): Map[ExprId, String] =
    output
      .distinctBy(_.exprId)
      .groupBy(column => lasting(column.name))
      .toSeq
      .flatMap { case (name, alike) =>
        alike.zipWithIndex.map { case (column, at) =>
          column.exprId -> (if (at == 0) s"$side.$name" else s"$side.$name#${at + 1}")
        }
      }
      .toMap

  private def literal(literal: Literal): String = (literal.value, literal.dataType) match {
    case (null, _) => "null"
    case (value: UTF8String, _) => quoted(value.toString)
    case (micros: Long, _: DayTimeIntervalType) => s"interval ${Duration.of(micros, MICROS)}"
    case (micros: Long, TimestampType) => s"timestamp ${Instant.EPOCH.plus(micros, MICROS)}"
    case (days: Int, DateType) => s"date ${LocalDate.ofEpochDay(days.toLong)}"
    case (bytes: Array[Byte], _) => element(bytes)
    case (value, IntegerType | BooleanType) => value.toString
    // A value that contains bytes has another text in each run.
    case (_, nested) if nested.existsRecursively(_ == BinaryType) => literal.sql
    case (value, dataType) => s"$value ${dataType.catalogString}"
  }

  /** A value in a set, whose text is the same in every run. */
  private def element(value: Any): String = value match {
    case bytes: Array[Byte] => bytes.map(byte => f"$byte%02x").mkString("0x", "", "")
    case other => String.valueOf(other)
  }

  /**
   * Whether two forms mean the same in sessions with two time zones. A literal that was text
   * without a zone denotes a different instant in each zone; any other literal always denotes the
   * same instant. Once parsed, the two look alike, so both are accepted.
   *
   * @param zone
   *   session time zone of `one`
   */
  def areEqual(one: String, zone: ZoneId, other: String, otherZone: ZoneId): Boolean = {
    val (a, b) = (withoutNumbers(one), withoutNumbers(other))
    a == b || zone != otherZone && {
      val (some, others) = (Timestamp.findAllMatchIn(a).toSeq, Timestamp.findAllMatchIn(b).toSeq)
      Timestamp.split(a).toSeq == Timestamp.split(b).toSeq && some.size == others.size &&
      some.zip(others).forall { case (x, y) => isSameTime(instant(x), zone, instant(y), otherZone) }
    }
  }

  private val Timestamp = """timestamp ([+-]?\d+-\d\d-\d\dT[\d:.]+Z)""".r

  private def instant(found: Regex.Match): Instant = Instant.parse(found.group(1))

  private def isSameTime(one: Instant, zone: ZoneId, other: Instant, otherZone: ZoneId): Boolean = {
    // As in `DateTimeUtils.stringToTimestamp`. A local time that a zone skips moves forward there.
    def moved(from: Instant, of: ZoneId, to: ZoneId) = from.atZone(of).toLocalDateTime.atZone(to).toInstant
    one == other || moved(one, zone, otherZone) == other || moved(other, otherZone, zone) == one
  }

  private def quoted(text: String): String = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
}
