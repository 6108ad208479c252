package streamjoin

import java.util.{List => JList}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streamjoin.ScalaApi.invoke
import org.apache.spark.sql.streamjoin.front.functions.JoinOn
import org.apache.spark.sql.{Column, DataFrame}

/**
 * The settings that all joins of two DataFrames share: the columns or the condition, and the join
 * type. The inputs keep their aliases.
 *
 * @tparam B
 *   the builder of one kind of join
 */
abstract class JoinBuilder[B <: JoinBuilder[B]] private[streamjoin] (left: DataFrame, right: DataFrame) {
  self: B =>
  private var by: Option[JoinOn] = None
  private var how = "inner"
  private[streamjoin] var arguments = Map.empty[String, Any]

  /**
   * Joins on columns that both inputs have. The result has each of them once, before the other
   * columns.
   */
  @varargs def on(column: String, more: String*): B = on((column +: more).asJava)

  /** Joins on columns that both inputs have. */
  def on(columns: JList[String]): B = {
    by = Some(JoinOn.Columns(columns.asScala.toSeq))
    self
  }

  /** Joins on a condition. Use `lit(true)` to join on time alone. */
  def on(condition: Column): B = {
    by = Some(JoinOn.Condition(condition))
    self
  }

  /** Sets the join type, in any of Spark's spellings. Default: `inner`. */
  def joinType(joinType: String): B = {
    how = joinType
    self
  }

  private[streamjoin] def joined: DataFrame = JoinOn.joined(left, right, by, how)

  private[streamjoin] def set(values: (String, Any)*): B = {
    arguments ++= values
    self
  }

  /** Applies a function of the extension to the plain join, with the settings of this builder. */
  private[streamjoin] def call(function: String, columns: Column*): DataFrame =
    invoke(joined, function, columns: _*)(arguments.toSeq: _*)

  /** Returns the joined streams. */
  def toDF(): DataFrame
}
