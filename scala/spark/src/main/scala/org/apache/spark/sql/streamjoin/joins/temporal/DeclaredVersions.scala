package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{
  UnresolvedAttribute,
  UnresolvedFunction,
  UnresolvedTableValuedFunction
}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression, GetStructField, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.TableFunction
import org.apache.spark.sql.streamjoin.changes.Unavailable
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/**
 * `VERSIONS(TABLE(prices), KEY(code), TIME(since), OP(op), ORDER(lsn))`: the changes of a table, of
 * which `FOR SYSTEM_TIME AS OF` takes the version of a time. The declaration goes into the metadata
 * of the columns ([[VersionColumns]]), so that views, common tables and subqueries pass it on.
 *
 * @param key
 *   names of columns, or of fields of columns; the others alike
 * @param unavailable
 *   stands for a value that was not sent, if there is one
 */
final private[streamjoin] case class DeclaredVersions(
    key: Seq[Seq[String]],
    time: Option[Seq[String]],
    op: Option[Seq[String]],
    order: Option[Seq[String]],
    unavailable: Option[String],
    at: Origin,
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): DeclaredVersions =
    copy(child = newChild)

  /** @param changes the child, resolved */
  def rows(session: SparkSession, changes: LogicalPlan): LogicalPlan = {
    if (time.isEmpty) checkEventTime(changes)
    val versions = VersionedInput(
      ClassicDataset.ofRows(session.asInstanceOf[ClassicSession], changes),
      key.map {
        case Seq(name) => name
        case parts => quoted(parts)
      },
      time.map(quoted),
      op.map(quoted),
      order.map(quoted),
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
          throw DeclaredVersions.Function.refused(
            s"takes columns and their fields, and $name is in a list or a map; select it in TABLE(SELECT ...)",
            at
          )
        case None =>
          val columns = rows.output.map(_.name).mkString(", ")
          throw DeclaredVersions.Function
            .refused(s"finds no column ${parts.mkString(".")} among $columns", at)
      }
    def named(name: String): Attribute = found(UnresolvedAttribute.parseAttributeName(name)) match {
      case column: Attribute => column
      case field =>
        throw DeclaredVersions.Function.refused(
          s"takes a column here, and ${VersionColumns.nameOf(field)} is a field of one; select it in TABLE(SELECT ...)",
          at
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

  private def checkEventTime(changes: LogicalPlan): Unit =
    EventTime.of(changes.output).distinctBy(_.exprId) match {
      case Seq(_) =>
      case Seq() =>
        throw DeclaredVersions.Function.refused(
          "has no TIME, and no column of its table has a watermark: STREAM prices WATERMARK since DELAY OF INTERVAL 10 SECONDS",
          at
        )
      case several =>
        throw DeclaredVersions.Function.refused(
          s"has no TIME, and several columns of its table have a watermark: ${several.map(_.name).mkString(", ")}",
          at
        )
    }

  private def quoted(parts: Seq[String]): String = parts.map(quoteIfNeeded).mkString(".")
}

private[streamjoin] object DeclaredVersions {
  val Function: TableFunction = TableFunction(
    "VERSIONS",
    "VERSIONS(TABLE(prices), KEY(code), TIME(since)), and after these OP(op) and ORDER(lsn) if the changes have such " +
      "columns, and UNAVAILABLE('__not_sent') if a text other than Debezium's stands for a value that was not sent"
  )

  private val Once = Seq("KEY", "TIME", "OP", "ORDER", "UNAVAILABLE")

  def of(call: UnresolvedTableValuedFunction): DeclaredVersions = {
    val (table, others) = call.functionArgs match {
      case Seq(table, others @ _*) => (table, others)
      case _ => throw refused("takes a table and its KEY", call.origin)
    }
    val parts = others.map {
      case function @ UnresolvedFunction(Seq(name), arguments, _, _, _, _, _) if Once.contains(upper(name)) =>
        (upper(name), arguments, function.origin)
      case other =>
        throw refused(
          s"takes KEY, TIME, OP, ORDER and UNAVAILABLE after the table, and not ${other.sql}",
          other.origin
        )
    }
    parts.groupBy(_._1).values.find(_.size > 1).foreach { twice =>
      throw refused(s"has ${twice.head._1} twice", twice(1)._3)
    }
    val unavailable = parts.collectFirst { case ("UNAVAILABLE", arguments, at) =>
      arguments match {
        case Seq(Literal(text: UTF8String, _: StringType)) => Some(text.toString)
        case Seq(Literal(null, _)) => None
        case _ =>
          throw refused(
            "takes one text in UNAVAILABLE, or NULL if values are to be taken as they are sent",
            at
          )
      }
    }
    def columns(name: String) = parts.collectFirst { case (`name`, arguments, at) =>
      if (arguments.isEmpty) throw refused(s"has no column in $name()", at)
      arguments.map(column)
    }
    def one(name: String) = columns(name).map {
      case Seq(column) => column
      case several => throw refused(s"takes one column in $name, and not ${several.size}", call.origin)
    }
    DeclaredVersions(
      columns("KEY").getOrElse(
        throw refused("has no KEY: the columns that tell the rows of the table apart", call.origin)
      ),
      one("TIME"),
      one("OP"),
      one("ORDER"),
      unavailable.getOrElse(Some(Unavailable.Default)),
      call.origin,
      Function.table(table)
    )
  }

  private def upper(name: String) = name.toUpperCase(java.util.Locale.ROOT)

  private def column(argument: Expression): Seq[String] = argument match {
    case name: UnresolvedAttribute => name.nameParts
    case Literal(name, _: StringType) if name != null => Seq(name.toString)
    case other => throw refused(s"takes the name of a column, and not ${other.sql}", other.origin)
  }

  private def refused(problem: String, at: Origin) = Function.refused(problem, at)
}
