package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types._

/**
 * Resolves the columns that a call or a clause names.
 *
 * @param call
 *   API call or clause that the user wrote, for errors
 * @param inSql
 *   whether it is a SQL clause
 */
final private[streamjoin] class NamedColumns(call: String, inSql: Boolean = false) {

  def timestamp(stream: LogicalPlan, name: String): Attribute =
    timestamp(column(stream, name))

  def timestamp(found: Attribute): Attribute = {
    val name = quoteIfNeeded(found.name)
    def converted(inApi: String, sql: String) = wrong(
      found.name,
      "STREAMJOIN_COLUMN.NOT_A_TIMESTAMP",
      "type" -> found.dataType.sql,
      "conversion" -> (if (inSql) s"SELECT *, $sql AS time FROM ..."
                       else s"""df.withColumn("${found.name}", $inApi).""")
    )
    found.dataType match {
      case TimestampType => found
      case _: StringType =>
        throw converted(s"""F.to_timestamp("$name")""", s"to_timestamp($name)")
      case TimestampNTZType | DateType =>
        throw converted(s"""F.col("$name").cast("timestamp")""", s"CAST($name AS TIMESTAMP)")
      case _: IntegralType =>
        throw converted(s"""F.timestamp_millis("$name")""", s"timestamp_millis($name)")
      case other => throw wrong(found.name, "STREAMJOIN_COLUMN.NOT_A_TIME", "type" -> other.sql)
    }
  }

  def column(stream: LogicalPlan, name: String): Attribute =
    columnOrField(stream, name) match {
      case attribute: Attribute => attribute
      case _ =>
        throw wrong(name, "STREAMJOIN_COLUMN.FIELD")
    }

  /** A column, or a field of one. */
  def columnOrField(stream: LogicalPlan, name: String): Expression = {
    def columns = stream.output.map(_.name).mkString(", ")
    val found =
      try stream.resolve(UnresolvedAttribute.parseAttributeName(name), SQLConf.get.resolver)
      catch {
        case ambiguous: AnalysisException =>
          throw wrong(
            name,
            "STREAMJOIN_COLUMN.AMBIGUOUS",
            "cause" -> ambiguous.getCondition,
            "columns" -> columns
          )
      }
    found match {
      case Some(alias: Alias) => alias.child
      case Some(attribute) => attribute
      case None => throw wrong(name, "STREAMJOIN_COLUMN.UNKNOWN", "columns" -> columns)
    }
  }

  def wrong(column: String, condition: String, parameters: (String, String)*): AnalysisException =
    StreamJoinErrors.analysis(condition, parameters ++ Seq("column" -> column, "call" -> call): _*)
}
