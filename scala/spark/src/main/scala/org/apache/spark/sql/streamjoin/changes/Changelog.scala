package org.apache.spark.sql.streamjoin.changes

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.util.{quoteIdentifier, quoteIfNeeded}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.functions.{col, explode, lit, struct, when}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.{AnalysisException, Column, DataFrame}

/**
 * A stream of changes, as described by the user. [[frame]] converts it to one row per change of a
 * key, with the columns of the table, followed by the columns for time, order and operation.
 *
 * A flat log already has this form. Debezium's envelope is recognized by its columns `before` and
 * `after`, structs that contain the columns of the key. A name refers to a column of the envelope
 * if there is one with that name; `after.name` always refers to the table's column.
 *
 * @param key
 *   columns that identify a row of the table
 * @param op
 *   column with the operation
 * @param time
 *   column with the time of a change, if there is one
 * @param order
 *   column that orders changes of one key and time, if there is one
 * @param unavailable
 *   stands for a value that was not sent, if there is one
 * @param call
 *   the user's call, for errors
 */
final private[streamjoin] case class Changelog(
    input: DataFrame,
    key: Seq[String],
    op: Option[String],
    time: Option[String],
    order: Option[String],
    unavailable: Option[String],
    call: String
) {
  import Changelog._

  private val resolver = SQLConf.get.resolver
  private val schema = input.schema

  private def structOf(name: String): Option[StructType] =
    schema.find(_.name == name).map(_.dataType).collect { case row: StructType => row }

  private def fieldOf(row: StructType, name: String): Option[StructField] =
    row.find(field => resolver(field.name, name)).orElse {
      parsed(name).filter(_.size == 1).flatMap(parts => row.find(field => resolver(field.name, parts.head)))
    }

  private def parsed(name: String): Option[Seq[String]] =
    try Some(UnresolvedAttribute.parseAttributeName(name))
    catch { case _: AnalysisException => None }

  /** A column of the stream. */
  private def top(name: String): Option[StructField] = {
    def named(part: String) = schema.find(field => resolver(field.name, part))
    named(name).orElse(parsed(name).collect { case Seq(one) => one }.flatMap(named))
  }

  /** The rows before and after a change, in an envelope. */
  private val envelope: Option[(StructType, StructType)] = for {
    before <- structOf(Before)
    after <- structOf(After)
    if op.flatMap(top).isDefined
    if key.nonEmpty && key.forall(name => Seq(before, after).forall(fieldOf(_, name).isDefined))
  } yield (before, after)

  def isEnvelope: Boolean = envelope.isDefined

  def operationOfEnvelope: Option[StructField] = envelope.flatMap(_ => op).flatMap(top)

  /** The names of key columns without a row prefix, such as `id` for `after.id`. */
  def keyOfFields: Seq[(String, String)] = {
    def isTable(row: String, field: String) = Seq(Before, After).exists(resolver(_, row)) &&
      Seq(Before, After).forall(structOf(_).exists(fieldOf(_, quoteIfNeeded(field)).isDefined))
    if (isEnvelope || op.flatMap(top).isEmpty) Nil
    else
      key.flatMap(name =>
        parsed(name).collect { case Seq(row, field) if isTable(row, field) => name -> field }
      )
  }

  /** The columns of the table. */
  private def table: StructType = envelope.fold(schema)(_._2)

  /** The location of a column that the user names. */
  private def located(name: String): Option[Place] = {
    def ofTable(part: String) = envelope.flatMap { case (_, after) => fieldOf(after, part) }.map(InTable)
    def nested = parsed(name).flatMap {
      case Seq(row, field) if isEnvelope && Seq(Before, After).exists(resolver(_, row)) =>
        ofTable(quoteIfNeeded(field))
      case first +: rest if top(first).exists(_.dataType.isInstanceOf[StructType]) =>
        val path = rest.foldLeft(quoted(top(first).get.name))((column, part) => column.getField(part))
        Option.when(isThere(path))(Beside(path, top(first).get.name +: rest))
      case _ => None
    }
    top(name)
      .map(field => beside(field): Place)
      .orElse(nested)
      .orElse(ofTable(name))
  }

  private def beside(field: StructField): Beside = Beside(quoted(field.name), Seq(field.name))

  private def isThere(path: Column): Boolean =
    try input.select(path).columns.nonEmpty
    catch { case _: AnalysisException => false }

  /** The name in [[frame]] of a column in addition to those of the table. */
  private def nameBeside(place: Beside): String = {
    val ofTable = (isEnvelope || place.isNested) && fieldOf(table, quoteIfNeeded(place.name)).isDefined
    val ofOther = place.isNested && (time ++ order ++ op).toSeq.flatMap(located).exists {
      case other: Beside => other.path != place.path && resolver(other.name, place.name)
      case _ => false
    }
    if (ofTable || ofOther) free(Prefix + place.path.mkString("_")) else place.name
  }

  private def free(name: String): String =
    Iterator.iterate(name)("_" + _).find(each => table.forall(field => !resolver(field.name, each))).get

  private def nameOf(argument: Option[String]): Option[String] = argument.flatMap(located).map {
    case InTable(field) => field.name
    case beside: Beside => nameBeside(beside)
  }

  /** The names in [[frame]] of the existing columns that the user names. */
  lazy val timeName: Option[String] = nameOf(time)
  lazy val orderName: Option[String] = nameOf(order)
  lazy val opName: Option[String] = nameOf(op)

  /** Whether the time is a column of the table, which the row of a delete may lack. */
  def isTimeOfTable: Boolean = isEnvelope && time.flatMap(located).exists(_.isInstanceOf[InTable])

  /** The columns of the table that are never null in its rows. */
  def required: Set[String] = table.filter(!_.nullable).map(_.name).toSet

  /** The changes; the unchanged DataFrame if no conversion is needed. */
  lazy val frame: DataFrame = envelope match {
    case Some((before, after)) => ofEnvelope(before, after)
    case None =>
      val nested =
        (time ++ order ++ op).toSeq.flatMap(located).collect { case place: Beside if place.isNested => place }
      checked(
        nested
          .distinctBy(_.path)
          .foldLeft(input)((df, place) => df.withColumn(nameBeside(place), alias(place)))
      )
  }

  /**
   * A flat log: if both the operation and the key are null, no other column can show that there was
   * a message.
   */
  private def checked(flat: DataFrame): DataFrame = op.flatMap(top).fold(flat) { operation =>
    val keys = key.map(name => top(name).fold(col(name))(field => quoted(field.name)))
    val place = beside(operation)
    val proving = proofs(place +: (key ++ time ++ order).flatMap(top).map(beside))
    if (proving.isEmpty || operation.dataType != StringType) flat
    else {
      val read = ExpressionUtils.column(
        CheckedOperation(
          (place.column +: (keys ++ proving)).map(ExpressionUtils.expression),
          keys.size,
          call
        )
      )
      flat.withColumn(operation.name, read.as(operation.name, metadata(place, "op")))
    }
  }

  private def ofEnvelope(before: StructType, after: StructType): DataFrame = {
    val rowType = StructType(after.map(_.copy(nullable = true)))
    val (was, is) = (quoted(Before), quoted(After))
    def row(from: Column, of: StructType) = {
      val fields = after.map { field =>
        fieldOf(of, quoteIfNeeded(field.name))
          .fold(lit(null))(found => from.getField(found.name))
          .cast(field.dataType)
          .as(field.name)
      }
      when(from.isNotNull, struct(fields: _*)).cast(rowType)
    }
    val operation = located(op.get).collect { case place: Beside => place }.get
    val keys = key.flatMap(fieldOf(after, _)).map(field => after.fieldIndex(field.name))
    val places =
      (time ++ order).toSeq.flatMap(located).collect { case place: Beside => place }.distinctBy(_.path)
    val parts = ExpressionUtils.column(
      ReadChange(
        (Seq(operation.column, row(was, before), row(is, after)) ++ proofs(places :+ operation))
          .map(ExpressionUtils.expression),
        keys,
        (time ++ order).toSeq.flatMap(located).collect { case InTable(field) =>
          after.fieldIndex(field.name)
        },
        unavailable,
        call
      )
    )
    val read = input.select(places.map(place => alias(place)) :+ explode(parts).as(Part): _*)
    val part = quoted(Part)
    val columns = after.map { field =>
      part.getField(ReadChange.Row).getField(field.name).as(field.name, metadataInTable(field))
    }
    val beside = places.map(place => quoted(nameBeside(place)))
    read.select(columns ++ beside :+ operationAs(operation, part.getField(ReadChange.Op)): _*)
  }

  /** A column in addition to those of the table, with its watermark if it has one. */
  private def alias(place: Beside): Column = {
    val name = nameBeside(place)
    if (!place.isNested && name == place.name) place.column
    else place.column.as(name, metadata(place, roleOf(name)))
  }

  private def roleOf(name: String): String =
    if (timeName.contains(name)) "time" else if (orderName.contains(name)) "order" else "op"

  /** Properties of a column in the database that the rows of the changes do not show. */
  private def metadataInTable(field: StructField): Metadata = {
    val made = new MetadataBuilder().withMetadata(field.metadata)
    // The order may be a column of the table that the user gives a longer name, `after.lsn`.
    if (order.exists(name => name != field.name && located(name).contains(InTable(field))))
      made.putString(Role, "order")
    if (!field.nullable) made.putBoolean(Required, true)
    if (key.exists(fieldOf(table, _).contains(field))) made.putBoolean(PrimaryKey, true)
    made.build()
  }

  /** Lets clients find a column under the name that the user gave if its own name differs. */
  private def metadata(place: Beside, role: String): Metadata = {
    val own =
      schema.find(field => !place.isNested && field.name == place.name).fold(Metadata.empty)(_.metadata)
    new MetadataBuilder().withMetadata(own).putString(Role, role).build()
  }

  private def operationAs(place: Beside, column: Column): Column = {
    val name = nameBeside(place)
    if (name == place.name) column.as(name) else column.as(name, metadata(place, "op"))
  }

  /** Columns that are null if there is no message. */
  private def proofs(besides: Seq[Beside]): Seq[Column] = {
    val corrupt = SQLConf.get.columnNameOfCorruptRecord
    schema.toSeq
      .filter { field =>
        field.name == corrupt || field.name == "payload" || field.name == "value" ||
        field.name == "source" && field.dataType.isInstanceOf[StructType]
      }
      .filterNot(field => besides.exists(_.name == field.name))
      .map(field => quoted(field.name))
  }
}

private[streamjoin] object Changelog {
  val Before = "before"
  val After = "after"

  /** Prefix for the name of a column of the envelope that also exists in the table. */
  val Prefix = "_envelope_"

  /** Metadata key: the role of a renamed column. */
  val Role = "streamjoin.versions"

  /** Metadata key: the column is never null in the rows of an envelope's table. */
  private val Required = "streamjoin.required"

  /** Metadata key: the column is in the primary key of an envelope's table. */
  private val PrimaryKey = "streamjoin.primary_key"

  def isRequired(column: Attribute): Boolean = !column.nullable || column.metadata.contains(Required)

  def isPrimaryKey(column: Attribute): Boolean = column.metadata.contains(PrimaryKey)

  private val Part = "_streamjoin_part"

  private def quoted(name: String): Column = col(quoteIdentifier(name))

  sealed private trait Place
  final private case class InTable(field: StructField) extends Place

  /** A column of the stream, or a field of one. */
  final private case class Beside(column: Column, path: Seq[String]) extends Place {
    def name: String = path.last
    def isNested: Boolean = path.size > 1
  }
}
