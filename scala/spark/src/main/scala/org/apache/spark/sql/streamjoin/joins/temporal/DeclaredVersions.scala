package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression, GetStructField}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.CallArguments
import org.apache.spark.sql.streamjoin.time.EventTime

/**
 * `VERSIONS(TABLE(prices), KEY(code), TIME(since), OP(op), ORDER(lsn))`: the changes of a table,
 * from which `FOR SYSTEM_TIME AS OF` selects the version valid at a time. The declaration is stored
 * in the metadata of the columns ([[VersionColumns]]), so that views, common tables and subqueries
 * pass it on.
 */
private[streamjoin] object DeclaredVersions {

  /** @param changes the table, resolved */
  def of(session: ClassicSession, arguments: CallArguments, changes: LogicalPlan): LogicalPlan = {
    import arguments.rejected
    val key = arguments[Seq[Seq[String]]]("KEY")
    val unavailable = arguments.get[String]("UNAVAILABLE")
    def name(clause: String) = arguments.get[Seq[String]](clause).map(quoted)
    if (name("TIME").isEmpty) checkEventTime(arguments, changes)
    val versions = VersionedInput(
      ClassicDataset.ofRows(session, changes),
      key.map {
        case Seq(name) => name
        case parts => quoted(parts)
      },
      name("TIME"),
      name("OP"),
      name("ORDER"),
      unavailable,
      VersionedInput.OfSql
    )
    versions.check()
    val rows = versions.rows.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed
    def found(parts: Seq[String]): Expression =
      rows.resolve(parts, SQLConf.get.resolver) match {
        case Some(column: Attribute) => column
        case Some(Alias(field: GetStructField, _)) => field
        case Some(_) =>
          throw rejected("STREAMJOIN_TABLE_FUNCTION.NESTED_COLUMN", "", "column" -> quoted(parts))
        case None =>
          throw rejected(
            "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_COLUMN",
            "",
            "column" -> parts.mkString("."),
            "columns" -> rows.output.map(_.name).mkString(", ")
          )
      }
    def named(name: String): Attribute = found(UnresolvedAttribute.parseAttributeName(name)) match {
      case column: Attribute => column
      case field =>
        throw rejected("STREAMJOIN_TABLE_FUNCTION.FIELD", "", "column" -> VersionColumns.nameOf(field))
    }
    val columns = VersionColumns(
      key.map(found),
      Some(named(versions.timeName)),
      versions.opName.map(named),
      versions.orderName.map(named),
      unavailable
    )
    Project(columns.marked(rows.output), rows)
  }

  private def checkEventTime(arguments: CallArguments, changes: LogicalPlan): Unit =
    EventTime.of(changes.output).distinctBy(_.exprId) match {
      case Seq(_) =>
      case Seq() =>
        throw arguments.rejected("STREAMJOIN_TABLE_FUNCTION.NO_TIME", "")
      case several =>
        throw arguments.rejected(
          "STREAMJOIN_TABLE_FUNCTION.SEVERAL_TIMES",
          "",
          "columns" -> several.map(_.name).mkString(", ")
        )
    }

  private def quoted(parts: Seq[String]): String = parts.map(quoteIfNeeded).mkString(".")
}
