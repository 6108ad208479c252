package org.apache.spark.sql.streamjoin.upsert

import java.sql.SQLException

import org.apache.spark.TaskContext
import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.datasources.jdbc.{JdbcOptionsInWrite, JdbcUtils}
import org.apache.spark.sql.jdbc.JdbcDialect
import org.apache.spark.sql.types.StructType

/** A task attempt that has written rows. */
final private[upsert] case class Attempt(id: Long, rows: Long)

/**
 * Writes rows into a staging table.
 *
 * @param schema
 *   schema of the staging table, including the columns that mark it
 */
final private[upsert] class StagingWriter(
    staging: String,
    insert: String,
    schema: StructType,
    dialect: JdbcDialect,
    options: JdbcOptionsInWrite
) extends Serializable {

  /**
   * Writes a partition.
   *
   * @param run
   *   a random number, because task attempts have the same numbers in every application
   */
  def apply(run: Int)(context: TaskContext, rows: Iterator[Row]): Attempt = {
    val id = run.toLong << Integer.SIZE | (context.taskAttemptId() & 0xffffffffL)
    var count = 0L
    save(rows.map { row =>
      count += 1
      Row.fromSeq(row.toSeq :+ id)
    })
    Attempt(id, count)
  }

  /** Tries to write each row, and returns the reason for each row that the database rejects. */
  def tryEach(rows: Iterator[Row]): Array[Option[String]] = {
    val all = rows.toArray
    def failure(some: Seq[Row]): Option[String] =
      try {
        save(some.iterator)
        None
      } catch { case error: SQLException => Some(error.getMessage) }
    if (failure(all.toSeq).isEmpty) all.map(_ => None) else all.map(row => failure(Seq(row)))
  }

  private def save(rows: Iterator[Row]): Unit = JdbcUtils.savePartition(
    staging,
    rows,
    schema,
    insert,
    options.batchSize,
    dialect,
    options.isolationLevel,
    options
  )
}
