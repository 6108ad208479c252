package org.apache.spark.sql.streamjoin.joins.temporal

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.MetadataBuilder

/**
 * What is declared of the changes of a table: by `VERSIONS(...)`, or by the primary key in its
 * catalog.
 */
final private[temporal] case class VersionColumns(
    key: Seq[Attribute],
    time: Option[Attribute],
    op: Option[Attribute],
    order: Option[Attribute],
    unavailable: Option[String]
) {
  import VersionColumns._

  private val roles: Seq[(String, Attribute)] =
    key.map("key" -> _) ++ time.map("time" -> _) ++ op.map("op" -> _) ++ order.map("order" -> _)

  /** The same columns, with the declaration in their metadata. */
  def marked(output: Seq[Attribute]): Seq[NamedExpression] = {
    val all = roles.map { case (role, column) => s"$role ${column.name}" }.toArray
    output.map { column =>
      val here = roles.indices.filter(i => roles(i)._2.exprId == column.exprId).map(_.toLong)
      if (here.isEmpty) column
      else {
        val metadata = new MetadataBuilder()
          .withMetadata(column.metadata)
          .putStringArray(All, all)
          .putLongArray(Here, here.toArray)
          .remove(NotSent)
        unavailable.foreach(metadata.putString(NotSent, _))
        Alias(column, column.name)(explicitMetadata = Some(metadata.build()))
      }
    }
  }
}

private[temporal] object VersionColumns {

  /** Metadata of a column: all that is declared, as the role and the name of each column. */
  private val All = "streamjoin.versions.declared"

  /** Metadata of a column: the places of its own roles among them. */
  private val Here = "streamjoin.versions.here"

  /** Metadata of a column: what stands for a value that was not sent, if anything does. */
  private val NotSent = "streamjoin.versions.unavailable"

  /**
   * What `VERSIONS(...)` declares of an input.
   *
   * @return
   *   on the left the name of a declared column that the input has not
   */
  def declared(input: LogicalPlan): Option[Either[String, VersionColumns]] =
    Option.when(isOneTable(input))(input.output.filter(_.metadata.contains(All))).filter(_.nonEmpty).map {
      marked =>
        val all = marked.head.metadata.getStringArray(All).toSeq
        val found = all.indices.map { place =>
          all(place) -> marked.find(_.metadata.getLongArray(Here).contains(place.toLong))
        }
        found.collectFirst { case (role, None) => role.dropWhile(_ != ' ').trim }.toLeft {
          def of(role: String) = found.collect {
            case (name, Some(column)) if name.startsWith(s"$role ") => column
          }
          VersionColumns(
            of("key"),
            of("time").headOption,
            of("op").headOption,
            of("order").headOption,
            marked.map(_.metadata).find(_.contains(NotSent)).map(_.getString(NotSent))
          )
        }
    }

  /**
   * The primary key of a catalog's table.
   *
   * @return
   *   on the left the name of a column of the key that the input has not
   */
  def primaryKey(input: LogicalPlan): Option[Either[String, Seq[Attribute]]] =
    Option
      .when(isOneTable(input))(input.collectLeaves())
      .collect { case Seq(table: StreamingRelationV2) =>
        table.table.constraints.toSeq.collectFirst { case key: PrimaryKey =>
          val origins = AttributeMap(input.collect { case Project(list, _) =>
            list.collect { case alias: Alias => passedOn(alias.child).map(alias.toAttribute -> _) }.flatten
          }.flatten)
          def origin(column: Attribute): Attribute = origins.get(column).fold(column)(origin)
          val columns = key.columns.toSeq.map { name =>
            val parts = name.fieldNames.toSeq
            parts.last -> Try(table.resolve(parts, SQLConf.get.resolver)).toOption.flatten
              .flatMap(of => input.output.find(column => of.exprId == origin(column).exprId))
          }
          columns
            .collectFirst { case (name, None) => name }
            .toLeft(columns.flatMap(_._2))
        }
      }
      .flatten

  /** A view casts each of its columns to the type that it has. */
  private def passedOn(value: Expression): Option[Attribute] = value match {
    case column: Attribute => Some(column)
    case cast: Cast if cast.child.dataType == cast.dataType => passedOn(cast.child)
    case _ => None
  }

  /** The rows of a join or of an aggregation are not versions of what it reads. */
  private def isOneTable(input: LogicalPlan): Boolean =
    !input.exists(operator => operator.children.size > 1 || operator.isInstanceOf[Aggregate])
}
