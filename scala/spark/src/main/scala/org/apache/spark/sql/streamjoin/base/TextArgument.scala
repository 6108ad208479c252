package org.apache.spark.sql.streamjoin.base

import java.nio.charset.StandardCharsets.UTF_8
import java.util.HexFormat

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.types.{BinaryType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * A string argument of a table function. Users write it as a string. Our own calls write a string
 * that needs quoting as its bytes in UTF-8, `X'6974277320'`. These have the same meaning under all
 * values of `spark.sql.parser.escapedStringLiterals` and `spark.sql.variable.substitute`, and with
 * every extension's parser. Parameters do not: Spark writes their values into the text with escapes
 * (`ParameterHandler`), and the parsers of other extensions drop them.
 */
object TextArgument {

  def sql(text: String): String =
    if (text.matches(Plain)) s"'$text'"
    else s"X'${HexFormat.of().withUpperCase().formatHex(text.getBytes(UTF_8))}'"

  def unapply(argument: Expression): Option[String] = argument match {
    case Literal(text: UTF8String, _: StringType) => Some(text.toString)
    case Literal(bytes: Array[Byte], BinaryType) => Some(new String(bytes, UTF_8))
    case _ => None
  }

  /** Characters that every parser and every substitution leaves unchanged. */
  private val Plain = "[A-Za-z0-9_ .,:/=<>()+*-]*"
}
