package org.apache.spark.sql.streamjoin.upsert

import java.sql.{Connection, SQLException}
import java.util.{Locale, UUID}

import scala.util.Using

import org.apache.spark.internal.Logging
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types.StringType

/**
 * The table `streamjoin_batches` of a database: the last batch of each query and its target,
 * written in the transaction that applies the batch. Whoever sees the batch's rows sees its number.
 *
 * Tables of earlier versions have no column for the target; it is added, and is null until the next
 * batch. An earlier version that writes to the table after that leaves the column alone.
 */
final private[upsert] class BatchTable(database: Database, target: String) extends Logging {
  import BatchTable._

  private val dialect = database.dialect
  private def quoted(name: String) = dialect.quoteIdentifier(name)
  private val query = quoted(Query)
  private val batch = quoted(Batch)
  private val planned = quoted(Planned)
  private val of = quoted(Target)
  @volatile private var found = Option.empty[String]
  @volatile private var hasTarget = false

  /** The first of these names that has our table, or none of the user's. */
  private def table(connection: Connection): String = found.getOrElse {
    def isOfUser(name: String) = {
      val beside = JdbcNames.beside(target, name)
      name.toLowerCase(Locale.ROOT) == JdbcNames.last(target).toLowerCase(Locale.ROOT) ||
      database.exists(connection, beside) &&
      !database.hasColumns(connection, beside, Seq(Query, Batch, Planned))
    }
    val name = JdbcNames.beside(target, JdbcNames.free(Name, isOfUser))
    hasTarget = database.hasColumns(connection, name, Seq(Target))
    found = Some(name)
    name
  }

  def exists(connection: Connection): Boolean = database.exists(connection, table(connection))

  /** Creates the table if there is none, and gives an older one the column that it lacks. */
  def create(connection: Connection): Unit = if (!hasTarget) {
    val name = table(connection)
    // Another query may do the same in between.
    if (!exists(connection))
      try {
        val columns =
          s"$query ${text(36)} NOT NULL PRIMARY KEY, $batch $number NOT NULL, $planned $number NOT NULL"
        database.execute(connection, s"CREATE TABLE $name ($columns, $of ${text(MaxTarget)})")
      } catch { case error: SQLException => if (!exists(connection)) throw error }
    else if (!database.hasColumns(connection, name, Seq(Target)))
      try database.execute(connection, dialect.getAddColumnQuery(name, Target, text(MaxTarget)))
      catch {
        // Only its owner may. The batches alone are compared until then.
        case error: SQLException =>
          logWarning(s"$name has no column $Target, and it could not be added", error)
      }
    hasTarget = database.hasColumns(connection, name, Seq(Target))
  }

  private def number = JdbcStatements.numberType(dialect)

  private def text(length: Int) = {
    val general = JdbcUtils.getJdbcType(StringType, dialect).databaseTypeDefinition
    s"${if (general.startsWith("VARCHAR2")) "VARCHAR2" else "VARCHAR"}($length)"
  }

  /**
   * The last batch of a query, if there was one.
   *
   * @param name
   *   the target as the database has it
   */
  def last(connection: Connection, of: UUID, name: String): Option[UpsertBatch] = {
    val known = lastWithTarget(connection, of)
    for ((batch, was) <- known; into <- was)
      if (into != name.take(MaxTarget) && into != target.take(MaxTarget))
        throw refused(
          target,
          batch,
          s"the query has written to $into so far",
          s"Start it with a new checkpoint. If $into was renamed, write the new name to the column $Target of ${table(connection)}: $name."
        )
    known.map(_._1)
  }

  private def lastWithTarget(connection: Connection, id: UUID): Option[(UpsertBatch, Option[String])] = {
    val columns = Seq(batch, planned) ++ Option.when(hasTarget)(of)
    val sql = s"SELECT ${columns.mkString(", ")} FROM ${table(connection)} WHERE $query = ?"
    Using.resource(connection.prepareStatement(sql)) { select =>
      select.setString(1, id.toString)
      Using.resource(select.executeQuery()) { rows =>
        Option.when(rows.next()) {
          val into = if (hasTarget) Option(rows.getString(3)) else None
          (UpsertBatch(id, rows.getLong(1), rows.getLong(2)), into)
        }
      }
    }
  }

  /**
   * Writes the batch within a transaction. The row stays locked until its end: of two drivers that
   * run the query, one waits and then finds that the batch is there.
   */
  def record(connection: Connection, into: String, now: UpsertBatch): Unit = {
    val before = last(connection, now.query, into)
    val columns = Seq(batch, planned) ++ Option.when(hasTarget)(of)
    val name = table(connection)
    val sql = before match {
      case Some(_) =>
        s"UPDATE $name SET ${columns.map(_ + " = ?").mkString(", ")} WHERE $query = ? AND $batch = ?"
      case None =>
        s"INSERT INTO $name (${(columns :+ query).mkString(", ")}) VALUES (${columns.map(_ => "?, ").mkString}?)"
    }
    val count = Using.resource(connection.prepareStatement(sql)) { write =>
      write.setLong(1, now.number)
      write.setLong(2, now.plannedMs)
      if (hasTarget) write.setString(3, into.take(MaxTarget))
      write.setString(columns.size + 1, now.query.toString)
      before.foreach(known => write.setLong(columns.size + 2, known.number))
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
  private val Query = "query"
  private val Batch = "batch"
  private val Planned = "planned_ms"
  private val Target = "target"
  private val MaxTarget = 1000

  private val TwoDrivers = "Let one driver run the query, and start it again there."
  private val Elsewhere =
    "The target was put back to an earlier state, or the query has written elsewhere. Empty the target and start the query with a new checkpoint."

  /**
   * Whether the target has the batch already.
   *
   * @param last
   *   the last batch that it has of the query
   */
  def has(target: String, last: Option[UpsertBatch], batch: UpsertBatch): Boolean = last match {
    case None if batch.number == 0 => false
    case None => throw lacks(target, batch, last)
    case Some(`batch`) => true
    case Some(known) if known.number == batch.number - 1 => false
    case Some(known) if known.number >= batch.number =>
      throw refused(
        target,
        batch,
        s"the target has batch ${known.number} of the query, which was planned at ${known.plannedMs}, this one at ${batch.plannedMs} (milliseconds since 1970)",
        "The checkpoint was put back to an earlier state. Start the query from its newest checkpoint, or empty the target and begin with a new one."
      )
    case Some(_) => throw lacks(target, batch, last)
  }

  private def lacks(target: String, batch: UpsertBatch, last: Option[UpsertBatch]): AnalysisException = {
    val copied = s" If the table was copied, copy its row of $Name too."
    val problem = last.fold("the target has no batch of the query") { known =>
      s"the last batch of the query that the target has is ${known.number}"
    }
    refused(target, batch, s"$problem, so it lacks changes", Elsewhere + (if (last.isEmpty) copied else ""))
  }

  /**
   * Whether a query may continue here: the target has the newest batch of the checkpoint, or, if
   * Spark has not committed that one, the batch before it.
   */
  def verify(target: String, query: UUID, last: Option[UpsertBatch], checkpoint: UpsertCheckpoint): Unit =
    checkpoint.newest match {
      case Some(newest) =>
        if (!has(target, last, newest) && checkpoint.isCommitted)
          throw lacks(target, newest, last)
      // It would begin with batch 0.
      case None => last.foreach(_ => has(target, last, UpsertBatch(query, 0, 0)))
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
