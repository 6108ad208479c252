package org.apache.spark.sql.streamjoin.front.functions

import org.apache.spark.sql.streamjoin.arrangement.source.TableOptions
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.{AnalysisException, Column, DataFrame}

/** What the inputs of a join are joined on. */
sealed trait JoinOn

object JoinOn {

  /** Columns that both inputs have. */
  final case class Columns(names: Seq[String]) extends JoinOn

  final case class Condition(column: Column) extends JoinOn

  /** The plain join. Without `on`, a table is joined by its declared key. */
  def joined(left: DataFrame, right: DataFrame, on: Option[JoinOn], joinType: String): DataFrame =
    on.getOrElse(Columns(declared(left, right))) match {
      case Columns(names) => left.join(right, names, joinType)
      case Condition(column) => left.join(right, column, joinType)
    }

  private def declared(left: DataFrame, right: DataFrame): Seq[String] = {
    val keys = Seq(left, right).filterNot(_.isStreaming).map(df => TableOptions.declaredKey(df.schema))
    if (keys.isEmpty || keys.exists(_.isEmpty))
      throw refused(
        "no input is a table with the columns of its key, or the other one is neither a stream nor such a table",
        "Name the columns or write a condition: a stream has no declared key. To join on time alone, on(lit(true))."
      )
    val names = keys.flatten
    if (names.map(_.map(_.toLowerCase).toSet).distinct.size > 1)
      throw refused(
        s"the keys of the tables differ: ${names.map(_.mkString("[", ", ", "]")).mkString(" and ")}",
        "Name the columns or write a condition, or rename the columns of one key to those of the other."
      )
    names.head
  }

  private def refused(reason: String, advice: String): AnalysisException =
    StreamJoinErrors.analysis("STREAMJOIN_JOIN_KEYS", "on" -> "none", "reason" -> reason, "advice" -> advice)
}
