package org.apache.spark.sql.streamjoin.joins.temporal

import scala.util.Try

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{Metadata, MetadataBuilder}

/**
 * The declaration of the changes of a table: by `VERSIONS(...)`, or by the primary key in its
 * catalog.
 *
 * @param key
 *   columns, or fields of columns
 * @param unavailable
 *   stands for a value that was not sent, if there is one
 */
final private[temporal] case class VersionColumns(
    key: Seq[Expression],
    time: Option[Attribute],
    op: Option[Attribute],
    order: Option[Attribute],
    unavailable: Option[String]
) {
  import VersionColumns._

  private val roles: Seq[(String, Expression)] =
    key.map("key" -> _) ++ time.map("time" -> _) ++ op.map("op" -> _) ++ order.map("order" -> _)

  /** The columns with the declaration in their metadata, replacing an earlier one. */
  def marked(output: Seq[Attribute]): Seq[NamedExpression] = {
    val all = roles.map { case (role, column) => s"$role ${nameOf(column)}" }.toArray
    val fields = roles.map { case (_, column) =>
      partsOf(column).tail.map(quoteIfNeeded).mkString(".")
    }.toArray
    output.map { column =>
      val here = roles.indices.filter(i => roles(i)._2.references.contains(column)).map(_.toLong)
      if (here.nonEmpty)
        as(
          column,
          new MetadataBuilder()
            .withMetadata(column.metadata)
            .putStringArray(All, all)
            .putStringArray(Fields, fields)
            .putLongArray(Here, here.toArray)
            .putStringArray(NotSent, unavailable.toArray)
            .build()
        )
      else if (column.metadata.contains(All))
        as(column, new MetadataBuilder().withMetadata(column.metadata).remove(All).build())
      else column
    }
  }

  private def as(column: Attribute, metadata: Metadata) =
    Alias(column, column.name)(explicitMetadata = Some(metadata))
}

private[temporal] object VersionColumns {

  /** Metadata of a column: the whole declaration, as the role and the name of each column. */
  private val All = "streamjoin.versions.columns"

  /**
   * For each of them, the field of the column that is meant; an empty value means the column
   * itself.
   */
  private val Fields = "streamjoin.versions.fields"

  /** The positions of the column's own roles among them. */
  private val Here = "streamjoin.versions.here"

  /** The placeholder for a value that was not sent, if there is one. */
  private val NotSent = "streamjoin.versions.unavailable"

  /**
   * The declaration of an input by `VERSIONS(...)`.
   *
   * @return
   *   left: the name of a declared column that the input lacks
   */
  def declared(input: LogicalPlan): Option[Either[String, VersionColumns]] =
    Option
      .when(isOneTable(input))(input)
      .flatMap(_.find(_.output.exists(_.metadata.contains(All))))
      .map { operator =>
        val mark = operator.output.find(_.metadata.contains(All)).get.metadata
        val all = mark.getStringArray(All).toSeq
        val lineage = new ColumnLineage(input)
        val found = all.zip(mark.getStringArray(Fields)).zipWithIndex.map { case ((role, path), place) =>
          def is(column: Attribute) = column.metadata.contains(All) &&
            column.metadata.getStringArray(All).toSeq == all &&
            column.metadata.getLongArray(Here).contains(place.toLong)
          role -> columnIn(input, is, partsIn(path), lineage)
        }
        found.collectFirst { case (role, None) => role.dropWhile(_ != ' ').trim }.toLeft {
          def of(role: String) = found.collect {
            case (name, Some(column)) if name.startsWith(s"$role ") => column
          }
          def one(role: String) = of(role).collectFirst { case column: Attribute => column }
          VersionColumns(
            of("key"),
            one("time"),
            one("op"),
            one("order"),
            mark.getStringArray(NotSent).headOption
          )
        }
      }

  /** A column of the input, a field of it, or the column that the field has become. */
  private def columnIn(
      input: LogicalPlan,
      is: Attribute => Boolean,
      field: Seq[String],
      lineage: ColumnLineage
  ): Option[Expression] = {
    def isMeant(expression: Expression): Boolean = expression match {
      case column: Attribute => field.isEmpty && is(column)
      case value: GetStructField => value.references.exists(is) && partsOf(value).tail == field
      case _ => false
    }
    def fieldOf(column: Attribute) = field.foldLeft[Expression](column) { (value, name) =>
      ExtractValue(value, Literal(name), SQLConf.get.resolver)
    }
    input.output
      .find(is)
      .map(fieldOf)
      .orElse(input.output.find(column => field.nonEmpty && lineage.of(column).exists(isMeant)))
  }

  private def partsIn(path: String): Seq[String] =
    if (path.isEmpty) Nil
    else UnresolvedAttribute.parseAttributeName(path)

  /** A column, or a field of one, as text. */
  def nameOf(column: Expression): String = partsOf(column).map(quoteIfNeeded).mkString(".")

  private def partsOf(column: Expression): Seq[String] = column match {
    case field: GetStructField => partsOf(field.child) :+ field.childSchema(field.ordinal).name
    case named: NamedExpression => Seq(named.name)
    case other => Seq(other.sql)
  }

  /**
   * The primary key of a catalog's table.
   *
   * @return
   *   left: the name of a key column that the input lacks
   */
  def primaryKey(input: LogicalPlan): Option[Either[String, Seq[Attribute]]] =
    Option
      .when(isOneTable(input))(input.collectLeaves())
      .collect { case Seq(table: StreamingRelationV2) =>
        table.table.constraints.toSeq.collectFirst { case key: PrimaryKey =>
          val lineage = new ColumnLineage(input)
          val columns = key.columns.toSeq.map { name =>
            val parts = name.fieldNames.toSeq
            parts.last -> Try(table.resolve(parts, SQLConf.get.resolver)).toOption.flatten
              .flatMap(of => input.output.find(column => lineage.of(column).exists(of.semanticEquals)))
          }
          columns
            .collectFirst { case (name, None) => name }
            .toLeft(columns.flatMap(_._2))
        }
      }
      .flatten

  /** The rows of a join or an aggregation are not versions of its input. */
  private def isOneTable(input: LogicalPlan): Boolean =
    !input.exists(operator => operator.children.size > 1 || operator.isInstanceOf[Aggregate])
}

/** The columns or fields, below the projections of a plan, from which its columns are taken. */
final private[temporal] class ColumnLineage(plan: LogicalPlan) {
  private val origins: AttributeMap[Expression] = AttributeMap(plan.collect { case Project(list, _) =>
    list.flatMap {
      case alias: Alias =>
        passedOn(alias.child).filterNot(_.references.contains(alias.toAttribute)).map(alias.toAttribute -> _)
      case _ => None
    }
  }.flatten)

  /**
   * The expression for a column, or a field of one, at each level, from the plan's output
   * downwards.
   */
  def of(column: Expression): Seq[Expression] =
    Iterator
      .iterate(Option(column))(_.flatMap(below))
      .takeWhile(_.isDefined)
      .flatten
      .toSeq

  private def below(column: Expression): Option[Expression] = column match {
    case attribute: Attribute => origins.get(attribute)
    case field: GetStructField => below(field.child).map(child => field.copy(child = child))
    case _ => None
  }

  /** A view casts each of its columns to the column's own type. */
  private def passedOn(value: Expression): Option[Expression] = value match {
    case column: Attribute => Some(column)
    case field: GetStructField => passedOn(field.child).map(child => field.copy(child = child))
    case cast: Cast if cast.child.dataType == cast.dataType => passedOn(cast.child)
    case alias: Alias => passedOn(alias.child)
    case _ => None
  }
}
