package org.apache.spark.sql.streamjoin.upsert

import java.sql.{Connection, SQLException, Types}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.datasources.jdbc.{JdbcOptionsInWrite, JdbcUtils}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types._

/**
 * Checks whether the columns of a target can store the values of the changes.
 *
 * To find out how a database treats values, a task writes sample values into a staging table with
 * the types of the target, as the tasks of a batch do. This reveals values that a column rejects,
 * and key values that Spark distinguishes but the database does not. Two such keys would share one
 * row of the target, and a change of either would change or delete the row of both.
 *
 * @param stagingOf
 *   names of the staging tables, by number
 */
final private[upsert] class JdbcColumnChecks(
    database: Database,
    options: JdbcOptionsInWrite,
    table: String,
    stagingOf: Int => String
) extends Logging {
  import JdbcColumnChecks._

  private val dialect = database.dialect
  private val numbers = Iterator.from(0)

  def check(connection: Connection, changes: NetChanges, columns: Seq[JdbcColumn]): Unit = {
    val pairs = changes.columns.zip(columns)
    pairs.foreach { case (field, column) => checkKinds(field, column) }
    val keys = changes.keys.map(pairs)
    val others = changes.columns.indices.diff(changes.keys).map(pairs)
    keys.foreach { case (field, column) => checkKey(connection, changes, field, column) }
    // All of them at once, because usually all are accepted.
    if (others.nonEmpty && tried(connection, changes, others).exists(_.isDefined))
      others.foreach { case (field, column) =>
        tried(connection, changes, Seq(field -> column)).flatten.headOption
          .filterNot(_ => isUnknown(field, column))
          .foreach(said => throw wrongType(field, column, said))
      }
  }

  /** Problems that do not depend on values. */
  private def checkKinds(field: StructField, column: JdbcColumn): Unit = {
    try JdbcUtils.getJdbcType(field.dataType, dialect)
    catch {
      case NonFatal(_) =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UPSERT.SPARK_TYPE",
          "column" -> field.name,
          "type" -> field.dataType.sql
        )
    }
    if (field.dataType.isInstanceOf[StringType] && NoText.contains(column.jdbcType))
      throw wrongType(field, column, "Some texts are not valid values of it")
  }

  private def checkKey(
      connection: Connection,
      changes: NetChanges,
      field: StructField,
      column: JdbcColumn
  ): Unit = {
    val values = ProbeValues.of(field.dataType)
    if (values.nonEmpty)
      staged(connection, changes, Seq(field -> column), values.map(Seq(_))) { (statements, failures) =>
        if (failures.forall(_.isDefined) && !isUnknown(field, column))
          throw wrongType(field, column, failures.head.get)
        equal(connection, statements, column).foreach { case (one, other) =>
          throw StreamJoinErrors.analysis(
            field.dataType match {
              case _: StringType => "STREAMJOIN_UPSERT.KEY_TEXTS"
              case TimestampType => "STREAMJOIN_UPSERT.KEY_TIMES"
              case _ => "STREAMJOIN_UPSERT.KEY_VALUES"
            },
            "found" -> (if (one == other) s"${text(values(one))} for NULL"
                        else s"${text(values(one))} and ${text(values(other))} for the same"),
            "column" -> column.name,
            "type" -> column.typeName,
            "table" -> table,
            "field" -> field.name
          )
        }
      }
  }

  /**
   * The numbers of two values that are equal in the staging table, or of a value that is null
   * there.
   */
  private def equal(
      connection: Connection,
      statements: JdbcStatements,
      column: JdbcColumn
  ): Option[(Int, Int)] = {
    val (key, number, staging) = (statements.columns.head, statements.attempt, statements.staging)
    val nulls = s"SELECT $number FROM $staging WHERE $key IS NULL ORDER BY $number"
    val pairs =
      s"SELECT a.$number, b.$number FROM $staging a, $staging b WHERE a.$key = b.$key AND a.$number < b.$number ORDER BY 1, 2"
    try
      database
        .rows(connection, nulls)(row => (row.getInt(1), row.getInt(1)))
        .headOption
        .orElse(database.rows(connection, pairs)(row => (row.getInt(1), row.getInt(2))).headOption)
    catch {
      case error: SQLException =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UPSERT.KEY_NOT_COMPARABLE",
          "column" -> column.name,
          "type" -> column.typeName,
          "table" -> table,
          "error" -> error.getMessage
        )
    }
  }

  /** The database's response to one value of each column, written as one row. */
  private def tried(
      connection: Connection,
      changes: NetChanges,
      columns: Seq[(StructField, JdbcColumn)]
  ): Seq[Option[String]] = {
    val row = columns.map { case (field, _) =>
      field.dataType match {
        case _: ArrayType => Seq.empty
        case other => ProbeValues.of(other).headOption.orNull
      }
    }
    staged(connection, changes, columns, Seq(row))((_, failures) => failures)
  }

  private def staged[T](
      connection: Connection,
      changes: NetChanges,
      columns: Seq[(StructField, JdbcColumn)],
      rows: Seq[Seq[Any]]
  )(body: (JdbcStatements, Seq[Option[String]]) => T): T = {
    val names = columns.map(_._2.name)
    val markers = JdbcNames.markers(names)
    val staging = stagingOf(numbers.next())
    // Left by a driver that died here.
    database.dropStaging(connection, staging, markers)
    val statements = JdbcStatements(
      dialect,
      database.kind,
      table,
      staging,
      names.map(dialect.quoteIdentifier),
      Nil,
      dialect.quoteIdentifier(markers.change),
      dialect.quoteIdentifier(markers.attempt)
    )
    database.execute(connection, statements.createStaging)
    try {
      val schema = StructType(columns.map(_._1.copy(nullable = true)))
        .add(JdbcStatements.Change, IntegerType)
        .add(JdbcStatements.Attempt, LongType)
      val writer = new StagingWriter(staging, statements.insertStaged, schema, dialect, options)
      val values = rows.zipWithIndex.map { case (row, number) =>
        Row.fromSeq(row ++ Seq[Any](JdbcStatements.Came, number.toLong))
      }
      val session = changes.rows.sparkSession
      // One task writes the rows, in this order.
      val frame = session.createDataFrame(java.util.List.of(values: _*), schema).coalesce(1)
      val failures = session.sparkContext
        .runJob(frame.rdd, (each: Iterator[Row]) => writer.tryEach(each))
        .flatten
        .toSeq
      body(statements, failures)
    } finally
      try database.execute(connection, dialect.dropTable(staging))
      catch { case error: SQLException => logWarning(s"The table $staging could not be dropped", error) }
  }

  private def wrongType(field: StructField, column: JdbcColumn, said: String) = StreamJoinErrors.analysis(
    "STREAMJOIN_UPSERT.COLUMN_TYPE",
    "column" -> column.name,
    "table" -> table,
    "type" -> column.typeName,
    "wanted" -> field.dataType.sql,
    "field" -> field.name,
    "said" -> said
  )
}

private object JdbcColumnChecks {
  private val Numbers = Set(
    Types.TINYINT,
    Types.SMALLINT,
    Types.INTEGER,
    Types.BIGINT,
    Types.REAL,
    Types.FLOAT,
    Types.DOUBLE,
    Types.NUMERIC,
    Types.DECIMAL
  )
  private val Times =
    Set(Types.DATE, Types.TIME, Types.TIMESTAMP, Types.TIME_WITH_TIMEZONE, Types.TIMESTAMP_WITH_TIMEZONE)
  private val NoText = Numbers ++ Times ++ Set(Types.BIT, Types.BOOLEAN)
  private val Bytes = Set(Types.BINARY, Types.VARBINARY, Types.LONGVARBINARY)

  /**
   * A database-specific type, such as `UUID`, `JSONB` or an enumeration, whose values are written
   * as text. The accepted texts are unknown here.
   */
  private def isUnknown(field: StructField, column: JdbcColumn) =
    field.dataType.isInstanceOf[StringType] && !NoText(column.jdbcType) &&
      (!Bytes(column.jdbcType) || column.typeName.equalsIgnoreCase("UUID"))

  private def text(value: Any) = value match {
    case bytes: Array[Byte] => bytes.map(byte => f"$byte%02X").mkString("X'", "", "'")
    case text: String =>
      text.map(char => if (char < 128) char.toString else f"\\u${char.toInt}%04x").mkString("'", "", "'")
    case other => other.toString
  }
}
