package org.apache.spark.sql.streamjoin.upsert

import java.sql.{Connection, SQLException}
import java.util.concurrent.ThreadLocalRandom

import scala.collection.mutable
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.datasources.jdbc.{JdbcOptionsInWrite, JdbcUtils}
import org.apache.spark.sql.functions.{col, lit, when}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.jdbc.{JdbcDialect, JdbcDialects}
import org.apache.spark.sql.types.{IntegerType, LongType, StructType}

/**
 * A table of a database.
 *
 * Tasks write the rows of a batch into a staging table, each in a transaction of its own. Then the
 * driver, in one transaction, applies them to the target and writes the number of the batch into
 * `streamjoin_batches`. Either both are there or none; a batch that is there is not applied again.
 *
 * A task may run twice, or fail after its transaction, so each attempt has a number. The driver
 * applies the rows of those attempts whose result Spark has counted.
 *
 * The staging table has the number of the batch in its name. A driver that died leaves it behind,
 * and the same batch, which is the first one to run again, removes it.
 */
final private[upsert] class JdbcTarget(parameters: Map[String, String]) extends UpsertTarget with Logging {
  import JdbcTarget._

  private val options = new JdbcOptionsInWrite(parameters)
  private val table = options.table
  private val dialect = JdbcDialects.get(options.url)
  private val kind = JdbcStatements.kindOf(options.url)
  private val batches = new BatchTable(dialect, table)

  override def check(changes: NetChanges): Unit = withConnection { connection =>
    columnsIn(connection, changes)
  }

  override def has(batch: UpsertBatch): Boolean = withConnection { connection =>
    batches.create(connection, exists(connection, _))
    val isThere = BatchTable.has(table, batches.last(connection, batch), batch)
    if (isThere) drop(connection, stagingOf(batch))
    isThere
  }

  override def write(changes: NetChanges, figures: Figures, batch: UpsertBatch): Unit = withConnection {
    connection =>
      val columns = columnsIn(connection, changes)
      val staging = stagingOf(batch)
      val keys = changes.keys
      val empty = JdbcStatements(
        dialect,
        table,
        staging,
        columns.map(dialect.quoteIdentifier),
        keys,
        Nil,
        replaces = kind == Postgres && uniqueIn(connection).contains(keys.map(columns).toSet)
      )
      // Of an earlier attempt at the batch.
      drop(connection, staging)
      try {
        val attempts =
          if (figures.upserts + figures.deletes == 0) Nil
          else {
            empty.createStaging(kind).foreach(execute(connection, _))
            stage(changes, empty)
          }
        val statements = empty.copy(attempts = attempts.map(_.id))
        transaction(connection) {
          batches.record(connection, batches.last(connection, batch), batch)
          if (attempts.nonEmpty) {
            checkStaged(connection, statements, attempts.map(_.rows).sum, batch)
            statements.applyStaged(figures.nullKeys).foreach(execute(connection, _))
          }
        }
      } finally
        // It is removed at the latest when the batch runs again.
        try drop(connection, staging)
        catch { case NonFatal(error) => logWarning(s"The table $staging could not be dropped", error) }
  }

  private def withConnection[T](body: Connection => T): T =
    Using.resource(dialect.createConnectionFactory(options)(OnDriver))(body)

  /** A driver with an older copy of the checkpoint may have made a table of the same name. */
  private def checkStaged(
      connection: Connection,
      statements: JdbcStatements,
      wanted: Long,
      batch: UpsertBatch
  ): Unit = {
    val found = Using.resource(connection.createStatement()) { count =>
      Using.resource(count.executeQuery(statements.countStaged)) { rows =>
        rows.next()
        rows.getLong(1)
      }
    }
    if (found != wanted) throw BatchTable.lost(table, batch, statements.staging, wanted, found)
  }

  private def stage(changes: NetChanges, statements: JdbcStatements): Seq[Attempt] = {
    val change = when(col(NetChanges.Gone), lit(JdbcStatements.Gone)).otherwise(lit(JdbcStatements.Came))
    val rows = changes.rows.select(changes.named :+ change.as(JdbcStatements.Change): _*)
    val schema = changes.columns
      .add(JdbcStatements.Change, IntegerType)
      .add(JdbcStatements.Attempt, LongType)
    val write = new StagingWriter(
      statements.staging,
      statements.insertStaged,
      schema,
      dialect,
      options,
      ThreadLocalRandom.current().nextInt(Int.MaxValue)
    )
    // Not to use more connections at a time than the user wants.
    val limited = options.numPartitions.filter(_ < rows.rdd.getNumPartitions).fold(rows)(rows.coalesce(_))
    rows.sparkSession.sparkContext
      .runJob(limited.rdd, (context: TaskContext, each: Iterator[Row]) => write(context, each))
      .toSeq
  }

  /** The names of the columns in the target, which may differ in their case. */
  private def columnsIn(connection: Connection, changes: NetChanges): Seq[String] = {
    if (!exists(connection, table)) {
      val columns = JdbcUtils.schemaString(dialect, changes.columns, SQLConf.get.caseSensitiveAnalysis)
      val keys = changes.keyNames.map(dialect.quoteIdentifier).mkString(", ")
      throw UpsertOptions.refused(
        s"the database has no table $table",
        s"Create it, for example: CREATE TABLE $table ($columns, PRIMARY KEY ($keys))"
      )
    }
    val there = Using.resource(connection.createStatement()) { select =>
      Using.resource(select.executeQuery(dialect.getSchemaQuery(table))) { rows =>
        val found = rows.getMetaData
        (1 to found.getColumnCount).map(found.getColumnLabel)
      }
    }
    changes.columns.names.toSeq.map { name =>
      there.find(_ == name).orElse(there.find(SQLConf.get.resolver(_, name))).getOrElse {
        throw UpsertOptions.noColumn(table, name, there)
      }
    }
  }

  /** The columns of each index that `ON CONFLICT` can go by. */
  private def uniqueIn(connection: Connection): Set[Set[String]] = {
    val found = mutable.Map.empty[Long, Set[String]].withDefaultValue(Set.empty)
    Using.resource(connection.prepareStatement(UniqueInPostgres)) { select =>
      select.setString(1, table)
      Using.resource(select.executeQuery()) { rows =>
        while (rows.next()) found(rows.getLong(1)) += rows.getString(2)
      }
    }
    found.values.toSet
  }

  private def exists(connection: Connection, name: String): Boolean =
    JdbcUtils.tableExists(connection, new JdbcOptionsInWrite(options.url, name, parameters))

  private def drop(connection: Connection, name: String): Unit =
    if (exists(connection, name)) JdbcUtils.dropTable(connection, name, options)

  private def execute(connection: Connection, sql: String): Unit =
    Using.resource(connection.createStatement()) { statement =>
      logDebug(sql)
      statement.setQueryTimeout(options.queryTimeout)
      statement.executeUpdate(sql)
    }

  private def transaction(connection: Connection)(body: => Unit): Unit = {
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

  private def stagingOf(batch: UpsertBatch): String = {
    val id = s"${batch.query} $table".hashCode.toHexString
    JdbcStatements.beside(table, s"streamjoin_${id}_${batch.number}")
  }
}

private object JdbcTarget {
  private val OnDriver = -1
  private val Postgres = "postgresql"

  private val UniqueInPostgres =
    """SELECT i.indexrelid, a.attname FROM pg_index i
      |CROSS JOIN LATERAL generate_series(0, i.indnkeyatts - 1) n
      |JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]
      |WHERE i.indrelid = CAST(CAST(? AS text) AS regclass) AND i.indisunique AND i.indimmediate AND i.indisvalid
      |AND i.indpred IS NULL AND i.indexprs IS NULL""".stripMargin
}

/** An attempt of a task that has written rows. */
final private case class Attempt(id: Long, rows: Long)

/**
 * Writes a partition into the staging table.
 *
 * @param run
 *   a random number, as task attempts have the same numbers in every application
 */
final private class StagingWriter(
    staging: String,
    insert: String,
    schema: StructType,
    dialect: JdbcDialect,
    options: JdbcOptionsInWrite,
    run: Int
) extends Serializable {
  def apply(context: TaskContext, rows: Iterator[Row]): Attempt = {
    val id = run.toLong << Integer.SIZE | (context.taskAttemptId() & 0xffffffffL)
    var count = 0L
    val tagged = rows.map { row =>
      count += 1
      Row.fromSeq(row.toSeq :+ id)
    }
    JdbcUtils.savePartition(
      staging,
      tagged,
      schema,
      insert,
      options.batchSize,
      dialect,
      options.isolationLevel,
      options
    )
    Attempt(id, count)
  }
}
