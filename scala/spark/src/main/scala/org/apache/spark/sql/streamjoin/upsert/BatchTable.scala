package org.apache.spark.sql.streamjoin.upsert

import java.sql.{Connection, SQLException}

import scala.util.Using

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
import org.apache.spark.sql.jdbc.JdbcDialect
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types.StringType

/**
 * The table `streamjoin_batches` of a database: the last batch of each query, written in the
 * transaction that applies the batch. Whoever sees the batch's rows sees its number.
 */
final private[upsert] class BatchTable(dialect: JdbcDialect, target: String) {
  import BatchTable._

  private val table = JdbcStatements.beside(target, Name)
  private def quoted(name: String) = dialect.quoteIdentifier(name)
  private val query = quoted("query")
  private val batch = quoted("batch")
  private val planned = quoted("planned_ms")

  /** Creates the table if there is none. */
  def create(connection: Connection, exists: String => Boolean): Unit = if (!exists(table)) {
    val text = JdbcUtils.getJdbcType(StringType, dialect).databaseTypeDefinition
    val id = if (text.startsWith("VARCHAR2")) "VARCHAR2(36)" else "VARCHAR(36)"
    val number = JdbcStatements.longType(dialect)
    val sql =
      s"CREATE TABLE $table ($query $id NOT NULL PRIMARY KEY, $batch $number NOT NULL, $planned $number NOT NULL)"
    try Using.resource(connection.createStatement())(_.executeUpdate(sql))
    // Another query may have created it in between.
    catch { case error: SQLException => if (!exists(table)) throw error }
  }

  /** The last batch of a query, if there was one. */
  def last(connection: Connection, of: UpsertBatch): Option[UpsertBatch] =
    Using.resource(connection.prepareStatement(s"SELECT $batch, $planned FROM $table WHERE $query = ?")) {
      select =>
        select.setString(1, of.query.toString)
        Using.resource(select.executeQuery()) { rows =>
          Option.when(rows.next())(UpsertBatch(of.query, rows.getLong(1), rows.getLong(2)))
        }
    }

  /**
   * Writes the batch within a transaction. The row stays locked until its end: of two drivers
   * that run the query, one waits and then finds that the batch is there.
   */
  def record(connection: Connection, before: Option[UpsertBatch], now: UpsertBatch): Unit = {
    val sql = before match {
      case Some(_) => s"UPDATE $table SET $batch = ?, $planned = ? WHERE $query = ? AND $batch = ?"
      case None => s"INSERT INTO $table ($batch, $planned, $query) VALUES (?, ?, ?)"
    }
    val count = Using.resource(connection.prepareStatement(sql)) { write =>
      write.setLong(1, now.number)
      write.setLong(2, now.plannedMs)
      write.setString(3, now.query.toString)
      before.foreach(known => write.setLong(4, known.number))
      write.executeUpdate()
    }
    if (count != 1)
      throw refused(
        target,
        now,
        "another run of the query has written a batch while this one went on",
        TwoDrivers
      )
  }
}

private[upsert] object BatchTable {
  val Name = "streamjoin_batches"

  private val TwoDrivers = "Let one driver run the query, and start it again there."

  /**
   * Whether the target has the batch already.
   *
   * @param last
   *   the last batch that it has of the query
   */
  def has(target: String, last: Option[UpsertBatch], batch: UpsertBatch): Boolean = last match {
    // The first batch, or a query that has written somewhere else before.
    case None => false
    case Some(`batch`) => true
    case Some(known) if known.number == batch.number - 1 => false
    case Some(known) if known.number >= batch.number =>
      throw refused(
        target,
        batch,
        s"the target has batch ${known.number} of the query, which was planned at ${known.plannedMs}, this one at ${batch.plannedMs} (milliseconds since 1970)",
        "The checkpoint was put back to an earlier state. Start the query from its newest checkpoint, or empty the target and begin with a new one."
      )
    case Some(known) =>
      throw refused(
        target,
        batch,
        s"the last batch of the query that the target has is ${known.number}, so it lacks changes",
        "The target was put back to an earlier state, or the query has written elsewhere. Empty the target and start the query with a new checkpoint."
      )
  }

  /** The staging table does not have what the tasks have written. */
  def lost(
      target: String,
      batch: UpsertBatch,
      staging: String,
      wanted: Long,
      found: Long
  ): AnalysisException =
    refused(target, batch, s"$staging has $found of the $wanted rows that were written to it", TwoDrivers)

  private def refused(
      target: String,
      batch: UpsertBatch,
      problem: String,
      advice: String
  ): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_UPSERT_BATCH",
      "batch" -> batch.number.toString,
      "query" -> batch.query.toString,
      "target" -> target,
      "problem" -> problem,
      "advice" -> advice
    )
}
