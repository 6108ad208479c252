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
 * Tables of earlier versions have no column for the target, or for its id; they are added, and are
 * null until the next batch. An earlier version that writes to the table after that leaves them
 * alone.
 */
final private[upsert] class BatchTable(database: Database, target: String) extends Logging {
  import BatchTable._

  private val dialect = database.dialect
  private def quoted(name: String) = dialect.quoteIdentifier(name)
  private val query = quoted(Query)
  private val batch = quoted(Batch)
  private val planned = quoted(Planned)
  @volatile private var found = Option.empty[String]

  /** Which of the columns that came later the table has. */
  @volatile private var added = Seq.empty[String]

  /** The first of these names that has our table, or none of the user's. */
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
    Added.keys.toSeq.sorted.filter(column => database.hasColumns(connection, name, Seq(column)))

  /** Creates the table if there is none, and gives an older one the columns that it lacks. */
  def create(connection: Connection): Unit = if (added.size < Added.size) {
    val name = table(connection)
    // Another query may do the same in between.
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
          // Only its owner may. The batches alone are compared until then.
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
   *   the target as the database has it
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
   * Writes the batch within a transaction. The row stays locked until its end: of two drivers that
   * run the query, one waits and then finds that the batch is there.
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
 * What a target has recorded of a query.
 *
 * @param target
 *   its name, as the database has it
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

  /** The columns that tables of earlier versions lack, and their lengths. */
  private val Added = Map(Target -> MaxTarget, FilledId -> 64)

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
      // It would begin with batch 0.
      case None => last.foreach(_ => has(target, last, UpsertBatch(query, 0, 0)))
    }

  /** The target had rows after the last batch, and is another table without any now. */
  def emptied(target: String, batch: UpsertBatch): AnalysisException =
    rejected(target, batch, "STREAMJOIN_UPSERT_BATCH.CREATED_AGAIN")

  /** The staging table does not have what the tasks have written. */
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
