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
 * written in the transaction that applies the batch. So the batch's rows and its number become
 * visible together.
 *
 * Tables of earlier versions lack the columns for the target or its id; they are added, and are
 * null until the next batch. An earlier version that writes to the table later does not change
 * them.
 */
final private[upsert] class BatchTable(database: Database, target: String) extends Logging {
  import BatchTable._

  private val dialect = database.dialect
  private def quoted(name: String) = dialect.quoteIdentifier(name)
  private val query = quoted(Query)
  private val batch = quoted(Batch)
  private val planned = quoted(Planned)
  @volatile private var found = Option.empty[String]

  /** Which of the later-added columns the table has. */
  @volatile private var added = Seq.empty[String]

  /** The first name that belongs to our table, or that is unused. */
  private def table(connection: Connection): String = found.getOrElse {
    def isOfUser(name: String) = {
      val beside = JdbcNames.beside(target, name)
      name.toLowerCase(Locale.ROOT) == JdbcNames.last(target).toLowerCase(Locale.ROOT) ||
      database.exists(connection, beside) &&
      !database.hasColumns(connection, beside, Seq(Query, Batch, Planned))
    }
    val name = JdbcNames.beside(target, JdbcNames.free(Name, isOfUser))
    added = addedIn(connection, name)
    found = Some(name)
    name
  }

  def exists(connection: Connection): Boolean = database.exists(connection, table(connection))

  private def addedIn(connection: Connection, name: String): Seq[String] =
    if (!database.exists(connection, name)) Nil
    else Added.keys.toSeq.sorted.intersect(database.columnsOf(connection, name))

  /** Creates the table if it does not exist, and adds missing columns to an older one. */
  def create(connection: Connection): Unit = if (added.size < Added.size) {
    val name = table(connection)
    // Another query may create it at the same time.
    if (!exists(connection))
      try {
        val columns =
          s"$query ${text(36)} NOT NULL PRIMARY KEY, $batch $number NOT NULL, $planned $number NOT NULL"
        val more = Added.toSeq.sorted.map { case (column, length) => s", ${quoted(column)} ${text(length)}" }
        database.execute(connection, s"CREATE TABLE $name ($columns${more.mkString})")
      } catch { case error: SQLException => if (!exists(connection)) throw error }
    else
      Added.keys.toSeq.sorted.diff(addedIn(connection, name)).foreach { column =>
        try database.execute(connection, dialect.getAddColumnQuery(name, column, text(Added(column))))
        catch {
          // Only its owner may add columns. Until then, only the batches are compared.
          case error: SQLException =>
            logWarning(s"$name has no column $column, and it could not be added", error)
        }
      }
    added = addedIn(connection, name)
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
   *   the name of the target in the database
   */
  def last(connection: Connection, of: UUID, name: String): Option[RecordedBatch] = {
    val known = recorded(connection, of)
    for (last <- known; into <- last.target)
      if (into != name.take(MaxTarget) && into != target.take(MaxTarget))
        throw rejected(
          target,
          last.batch,
          "STREAMJOIN_UPSERT_BATCH.OTHER_TARGET",
          "was" -> into,
          "column" -> Target,
          "batches" -> table(connection),
          "name" -> name
        )
    known
  }

  private def recorded(connection: Connection, id: UUID): Option[RecordedBatch] = {
    val columns = Seq(batch, planned) ++ added.map(quoted)
    val sql = s"SELECT ${columns.mkString(", ")} FROM ${table(connection)} WHERE $query = ?"
    Using.resource(connection.prepareStatement(sql)) { select =>
      select.setString(1, id.toString)
      Using.resource(select.executeQuery()) { rows =>
        Option.when(rows.next()) {
          def text(column: String) =
            Option(added.indexOf(column)).filter(_ >= 0).flatMap(at => Option(rows.getString(3 + at)))
          RecordedBatch(UpsertBatch(id, rows.getLong(1), rows.getLong(2)), text(Target), text(FilledId))
        }
      }
    }
  }

  /**
   * Writes the batch within a transaction. The row stays locked until the end of the transaction:
   * if two drivers run the query, one waits and then finds that the batch has been applied.
   *
   * @param filledId
   *   the id of the target, if it has rows after the batch; none if the batch changes nothing
   */
  def record(
      connection: Connection,
      into: String,
      filledId: Option[Option[String]],
      now: UpsertBatch
  ): Unit = {
    val known = last(connection, now.query, into)
    val before = known.map(_.batch)
    val columns = Seq(batch, planned) ++ added.map(quoted)
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
      added.zipWithIndex.foreach {
        case (Target, at) => write.setString(3 + at, into.take(MaxTarget))
        case (_, at) => write.setString(3 + at, filledId.getOrElse(known.flatMap(_.filledId)).orNull)
      }
      write.setString(columns.size + 1, now.query.toString)
      before.foreach(known => write.setLong(columns.size + 2, known.number))
      write.executeUpdate()
    }
    if (count != 1)
      throw rejected(target, now, "STREAMJOIN_UPSERT_BATCH.ANOTHER_RUN")
  }
}

/**
 * The record of a query in a target.
 *
 * @param target
 *   its name in the database
 * @param filledId
 *   the id of the table, if the batch left rows in it and the database has such ids
 */
final private[upsert] case class RecordedBatch(
    batch: UpsertBatch,
    target: Option[String],
    filledId: Option[String]
)

private[upsert] object BatchTable {
  val Name = "streamjoin_batches"
  private val Query = "query"
  private val Batch = "batch"
  private val Planned = "planned_ms"
  private val Target = "target"
  private val FilledId = "filled_id"
  private val MaxTarget = 1000

  /** The columns that tables of earlier versions lack, with their lengths. */
  private val Added = Map(Target -> MaxTarget, FilledId -> 64)

  /**
   * Whether the target already has the batch.
   *
   * @param last
   *   the query's last batch in the target
   */
  def has(target: String, last: Option[UpsertBatch], batch: UpsertBatch): Boolean = last match {
    case None if batch.number == 0 => false
    case None => throw lacks(target, batch, last)
    case Some(`batch`) => true
    case Some(known) if known.number == batch.number - 1 => false
    case Some(known) if known.number >= batch.number =>
      throw rejected(
        target,
        batch,
        "STREAMJOIN_UPSERT_BATCH.CHECKPOINT_RESTORED",
        "known" -> known.number,
        "knownAt" -> known.plannedMs,
        "plannedAt" -> batch.plannedMs
      )
    case Some(_) => throw lacks(target, batch, last)
  }

  private def lacks(target: String, batch: UpsertBatch, last: Option[UpsertBatch]): AnalysisException =
    last.fold(rejected(target, batch, "STREAMJOIN_UPSERT_BATCH.NO_BATCH", "batches" -> Name)) { known =>
      rejected(target, batch, "STREAMJOIN_UPSERT_BATCH.TARGET_RESTORED", "known" -> known.number)
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
      // It would start with batch 0.
      case None => last.foreach(_ => has(target, last, UpsertBatch(query, 0, 0)))
    }

  /** The target had rows after the last batch, but now it is another table without rows. */
  def emptied(target: String, batch: UpsertBatch): AnalysisException =
    rejected(target, batch, "STREAMJOIN_UPSERT_BATCH.CREATED_AGAIN")

  /** The staging table does not contain the rows that the tasks have written. */
  def lost(
      target: String,
      batch: UpsertBatch,
      staging: String,
      wanted: Long,
      found: Long
  ): AnalysisException =
    rejected(
      target,
      batch,
      "STREAMJOIN_UPSERT_BATCH.STAGING",
      "staging" -> staging,
      "found" -> found,
      "wanted" -> wanted
    )

  private def rejected(target: String, batch: UpsertBatch, condition: String, parameters: (String, Any)*) =
    StreamJoinErrors.analysis(
      condition,
      parameters ++ Seq("batch" -> batch.number, "query" -> batch.query, "target" -> target): _*
    )
}
