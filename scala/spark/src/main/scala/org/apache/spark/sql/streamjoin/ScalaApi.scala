package org.apache.spark.sql.streamjoin

import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.functions.{call_function, col, lit}
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, TextArgument}
import org.apache.spark.sql.{Column, DataFrame, SparkSession}

/**
 * The Scala API's access to the extension: functions in a query, as the Python package sends them.
 */
object ScalaApi {

  /**
   * Applies a function to a DataFrame; for two inputs, the DataFrame is their plain join.
   *
   * @param columns
   *   resolved by the DataFrame
   * @param arguments
   *   strings, flags and lists of them; None is left out
   */
  def invoke(df: DataFrame, function: String, columns: Column*)(arguments: (String, Any)*): DataFrame = {
    checkEnabled(df.sparkSession)
    val values = arguments.collect { case (name, value) if value != None => name -> json(value) }
    val text = new ObjectMapper().writeValueAsString(values.toMap.asJava)
    df.select(col("*"), call_function(function, lit(text) +: columns: _*))
  }

  /** The result of a table function. */
  def ask(session: SparkSession, function: String, arguments: Any*): DataFrame = {
    checkEnabled(session)
    val sql = arguments.map {
      case text @ (_: String | _: UUID) => TextArgument.sql(text.toString)
      case other => other.toString
    }
    session.sql(s"SELECT * FROM $function(${sql.mkString(", ")})")
  }

  private def checkEnabled(session: SparkSession): Unit =
    if (!StreamJoinExtensions.isEnabled(session))
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_EXTENSION_MISSING",
        "extension" -> classOf[StreamJoinExtensions].getName
      )

  private def json(value: Any): Any = value match {
    case Some(passed) => json(passed)
    case several: Seq[_] => several.map(json).asJava
    case other => other
  }
}
