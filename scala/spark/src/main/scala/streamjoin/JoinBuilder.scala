package streamjoin

import java.util.{List => JList}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streamjoin.front.functions.JoinOn
import org.apache.spark.sql.{Column, DataFrame}

/**
 * What all joins of two DataFrames have: columns or a condition, and a type. The inputs keep their
 * aliases.
 *
 * @tparam B
 *   the builder of one kind of join
 */
abstract class JoinBuilder[B <: JoinBuilder[B]] private[streamjoin] (left: DataFrame, right: DataFrame) {
  private var by: Option[JoinOn] = None
  private var how = "inner"

  private[streamjoin] def self: B

  /** Columns that both inputs have. They come first in the result, and once. */
  @varargs def on(column: String, more: String*): B = on((column +: more).asJava)

  /** The same, as a list. */
  def on(columns: JList[String]): B = {
    by = Some(JoinOn.Columns(columns.asScala.toSeq))
    self
  }

  /** A condition; `lit(true)` to join on time alone. */
  def on(condition: Column): B = {
    by = Some(JoinOn.Condition(condition))
    self
  }

  /** One of Spark's join types, in any of its spellings; without it `inner`. */
  def joinType(joinType: String): B = {
    how = joinType
    self
  }

  private[streamjoin] def joined: DataFrame = JoinOn.joined(left, right, by, how)

  /** The joined streams. */
  def toDF(): DataFrame
}
