package org.apache.spark.sql.streamjoin.upsert

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Locale, UUID}

/**
 * The names that an upsert gives in a database. None is one of the user's: a column's name is taken
 * only if the target has no such column, tables are made only if there are none, and both tables of
 * a statement have an alias, which hides the names of all tables.
 */
private[upsert] object JdbcNames {

  /** In statements, the target and the staging table. */
  val Target = "streamjoin_target"
  val Staged = "streamjoin_staged"

  /** The first of `name`, `name_1`, `name_2`, ... that is free. */
  def free(name: String, isTaken: String => Boolean): String =
    (Iterator(name) ++ Iterator.from(1).map(number => s"${name}_$number")).dropWhile(isTaken).next()

  /** A name that no column of a table has, in any case. */
  def besides(columns: Seq[String])(name: String): String = {
    val taken = columns.map(_.toLowerCase(Locale.ROOT)).toSet
    free(name, taken)
  }

  /** The columns that mark a staging table. */
  def markers(columns: Seq[String]): Markers =
    Markers(besides(columns)(JdbcStatements.Change), besides(columns)(JdbcStatements.Attempt))

  /**
   * The staging table of a batch. No other query has a table of this name: 63 characters at most.
   */
  def staging(target: String, batch: UpsertBatch): String =
    beside(target, s"streamjoin_${batch.query.toString.replace("-", "")}_${batch.number}")

  /** One of the staging tables of `start()` with a checkpoint. */
  def stagingOfStart(target: String, checkpoint: String, number: Int): String = {
    val of = UUID.nameUUIDFromBytes(checkpoint.getBytes(UTF_8))
    beside(target, s"streamjoin_${of.toString.replace("-", "")}_${number}_start")
  }

  /** A table beside another one: what is before the last dot that is not quoted stays. */
  def beside(table: String, name: String): String = table.take(lastDot(table) + 1) + name

  /** The table's own name, without quotes. */
  def last(table: String): String = table.drop(lastDot(table) + 1).filterNot("\"`[]".contains(_))

  private def lastDot(table: String): Int = {
    var quote = Option.empty[Char]
    var dot = -1
    table.zipWithIndex.foreach { case (char, at) =>
      quote match {
        case Some(open) => if (char == open) quote = None
        case None if char == '"' || char == '`' => quote = Some(char)
        case None if char == '[' => quote = Some(']')
        case None => if (char == '.') dot = at
      }
    }
    dot
  }
}

/**
 * @param change
 *   says whether a row came
 * @param attempt
 *   has the number of the task attempt that wrote a row
 */
final private[upsert] case class Markers(change: String, attempt: String) {
  def names: Seq[String] = Seq(change, attempt)
}
