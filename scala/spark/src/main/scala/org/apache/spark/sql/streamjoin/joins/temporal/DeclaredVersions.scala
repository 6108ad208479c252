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
 * `VERSIONS(TABLE(prices), KEY(code), TIME(since), OP(op), ORDER(lsn))`: the changes of a table, of
 * which `FOR SYSTEM_TIME AS OF` takes the version of a time. The declaration goes into the metadata
 * of the columns ([[VersionColumns]]), so that views, common tables and subqueries pass it on.
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
          val name = parts.map(quoteIfNeeded).mkString(".")
          throw rejected(
            s"takes columns and their fields, and $name is in a list or a map; select it in TABLE(SELECT ...)"
          )
        case None =>
          val columns = rows.output.map(_.name).mkString(", ")
          throw rejected(s"finds no column ${parts.mkString(".")} among $columns")
      }
    def named(name: String): Attribute = found(UnresolvedAttribute.parseAttributeName(name)) match {
      case column: Attribute => column
      case field =>
        throw rejected(
          s"takes a column here, and ${VersionColumns.nameOf(field)} is a field of one; select it in TABLE(SELECT ...)"
        )
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
        throw arguments.rejected(
          "has no TIME, and no column of its table has a watermark: STREAM prices WATERMARK since DELAY OF INTERVAL 10 SECONDS"
        )
      case several =>
        throw arguments.rejected(
          s"has no TIME, and several columns of its table have a watermark: ${several.map(_.name).mkString(", ")}"
        )
    }

  private def quoted(parts: Seq[String]): String = parts.map(quoteIfNeeded).mkString(".")
}
