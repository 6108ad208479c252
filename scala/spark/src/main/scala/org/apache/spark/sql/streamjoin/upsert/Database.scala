package org.apache.spark.sql.streamjoin.upsert

import java.sql.{Connection, ResultSet, SQLException}
import java.util.Locale

import scala.util.Using

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.datasources.jdbc.JdbcOptionsInWrite
import org.apache.spark.sql.jdbc.{JdbcDialect, JdbcDialects}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** A database that upserts can write to, with helpers for its connections. */
final private[upsert] class Database(options: JdbcOptionsInWrite) extends Logging {
  import Database._

  val kind: String = kindOf(options.url)

  /**
   * Spark has no dialect for MariaDB's own URLs, and quotes names for them in a way that MariaDB
   * rejects.
   */
  val dialect: JdbcDialect =
    JdbcDialects.get(if (kind == MariaDb) s"jdbc:$MySql:" else options.url)

  def withConnection[T](body: Connection => T): T =
    Using.resource(dialect.createConnectionFactory(options)(OnDriver))(body)

  def exists(connection: Connection, table: String): Boolean =
    try {
      select(connection, dialect.getTableExistsQuery(table))(_ => ())
      true
    } catch { case error: SQLException if dialect.isObjectNotFoundException(error) => false }

  /** The names of the columns of an existing table. */
  def columnsOf(connection: Connection, table: String): Seq[String] =
    select(connection, dialect.getSchemaQuery(table))(JdbcColumn.of).map(_.name)

  /** Whether an existing table has columns with exactly these names. */
  def hasColumns(connection: Connection, table: String, columns: Seq[String]): Boolean = {
    val there = columnsOf(connection, table)
    columns.forall(there.contains)
  }

  def isEmpty(connection: Connection, table: String): Boolean =
    select(connection, s"SELECT 1 FROM $table", maxRows = 1)(found => !found.next())

  /**
   * The first value of a query; none if it fails, for instance because the user may not read the
   * catalog.
   */
  def first(connection: Connection, asked: Asked): Option[String] =
    try
      Using.resource(connection.prepareStatement(asked.sql)) { statement =>
        asked.parameters.zipWithIndex.foreach { case (value, at) => statement.setString(at + 1, value) }
        Using.resource(statement.executeQuery())(found =>
          if (found.next()) Option(found.getString(1)) else None
        )
      }
    catch {
      case error: SQLException =>
        logDebug(asked.sql, error)
        None
    }

  /** Drops the staging table that an attempt has left, if it exists. */
  def dropStaging(connection: Connection, staging: String, markers: Markers): Unit =
    if (exists(connection, staging)) {
      if (!hasColumns(connection, staging, markers.names))
        throw StreamJoinErrors.analysis("STREAMJOIN_UPSERT.STAGING_TABLE", "table" -> staging)
      execute(connection, dialect.dropTable(staging))
    }

  /** The result of a query, row by row. */
  def rows[T](connection: Connection, sql: String)(row: ResultSet => T): Seq[T] =
    select(connection, sql)(found => Iterator.continually(found).takeWhile(_.next()).map(row).toList)

  /** @param maxRows the limit; zero means no limit */
  def select[T](connection: Connection, sql: String, maxRows: Int = 0)(body: ResultSet => T): T = {
    logDebug(sql)
    Using.resource(connection.createStatement()) { statement =>
      statement.setQueryTimeout(options.queryTimeout)
      statement.setMaxRows(maxRows)
      Using.resource(statement.executeQuery(sql))(body)
    }
  }

  def execute(connection: Connection, sql: String): Unit =
    Using.resource(connection.createStatement()) { statement =>
      logDebug(sql)
      statement.setQueryTimeout(options.queryTimeout)
      statement.executeUpdate(sql)
    }

  def transaction(connection: Connection)(body: => Unit): Unit = {
    connection.setAutoCommit(false)
    try {
      body
      connection.commit()
    } catch {
      case error: Throwable =>
        try connection.rollback()
        catch { case also: SQLException => error.addSuppressed(also) }
        throw error
    } finally connection.setAutoCommit(true)
  }
}

private[upsert] object Database {
  val Postgres = "postgresql"
  val MySql = "mysql"
  val MariaDb = "mariadb"
  val H2 = "h2"
  val Derby = "derby"
  val Db2 = "db2"
  val SqlServer = "sqlserver"
  val Oracle = "oracle"
  private val OnDriver = -1

  private val Usable = Map(
    Postgres -> "PostgreSQL",
    MySql -> "MySQL",
    MariaDb -> "MariaDB",
    H2 -> "H2",
    Derby -> "Derby",
    Db2 -> "DB2",
    SqlServer -> "SQL Server",
    Oracle -> "Oracle"
  )

  /**
   * Other databases allow only one writer at a time (SQLite), have no transactions, or need other
   * statements: an upsert would fail with an error of their driver.
   */
  def check(url: String): Unit = if (!Usable.contains(kindOf(url)))
    throw StreamJoinErrors.analysis(
      "STREAMJOIN_UPSERT.DATABASE",
      "database" -> kindOf(url),
      "known" -> Usable.values.toSeq.sorted.mkString(", ")
    )

  /** The database in a URL: `jdbc:postgresql://...`. */
  def kindOf(url: String): String = url.split(':').lift(1).getOrElse("").toLowerCase(Locale.ROOT)
}

/** A query with parameters. */
final private[upsert] case class Asked(sql: String, parameters: Seq[String])

/**
 * The database's id of a table, which distinguishes it from another table that gets its name later.
 * A table that was restored from a dump, or that replaced another one together with its rows, also
 * has another id.
 */
private[upsert] object TableId {
  import Database._

  /**
   * The query for the id of a table. Other databases have no such id, or it has not been tested.
   *
   * @param parts
   *   its catalog, schema and name in the database
   */
  def of(kind: String, table: String, parts: Seq[String]): Option[Asked] = kind match {
    case Postgres =>
      Some(Asked("SELECT CAST(CAST(CAST(CAST(? AS text) AS regclass) AS oid) AS text)", Seq(table)))
    case MySql | MariaDb =>
      // When it was created or last altered, in seconds.
      val sql =
        "SELECT UNIX_TIMESTAMP(create_time) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
      Some(Asked(sql, Seq(parts.head, parts.last)))
    case Derby =>
      val sql =
        "SELECT t.tableid FROM sys.systables t JOIN sys.sysschemas s ON t.schemaid = s.schemaid WHERE s.schemaname = ? AND t.tablename = ?"
      Some(Asked(sql, parts.tail))
    case _ => None
  }
}
