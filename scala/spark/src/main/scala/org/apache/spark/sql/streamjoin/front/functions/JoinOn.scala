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
      throw rejected("STREAMJOIN_JOIN_KEYS.NO_DECLARED_KEY")
    val names = keys.flatten
    if (names.map(_.map(_.toLowerCase).toSet).distinct.size > 1)
      throw rejected(
        "STREAMJOIN_JOIN_KEYS.KEYS_DIFFER",
        "keys" -> names.map(_.mkString("[", ", ", "]")).mkString(" and ")
      )
    names.head
  }

  private def rejected(condition: String, parameters: (String, String)*): AnalysisException =
    StreamJoinErrors.analysis(condition, parameters :+ ("on" -> "none"): _*)
}
