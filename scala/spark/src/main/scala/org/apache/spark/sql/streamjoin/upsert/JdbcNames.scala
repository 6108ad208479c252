package org.apache.spark.sql.streamjoin.upsert

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Locale, UUID}

/**
 * The names that an upsert uses in a database. They never collide with the user's names: a column
 * name is used only if the target has no such column, tables are created only if they do not exist,
 * and both tables of a statement have an alias, which hides the names of all tables.
 */
private[upsert] object JdbcNames {

  /** The aliases of the target and the staging table in statements. */
  val Target = "streamjoin_target"
  val Staged = "streamjoin_staged"

  /** The first unused name among `name`, `name_1`, `name_2`, ... */
  def free(name: String, isTaken: String => Boolean): String =
    (Iterator(name) ++ Iterator.from(1).map(number => s"${name}_$number")).dropWhile(isTaken).next()

  /** A name that no column of a table has, ignoring case. */
  def besides(columns: Seq[String])(name: String): String = {
    val taken = columns.map(_.toLowerCase(Locale.ROOT)).toSet
    free(name, taken)
  }

  /** The columns that mark a staging table. */
  def markers(columns: Seq[String]): Markers =
    Markers(besides(columns)(JdbcStatements.Change), besides(columns)(JdbcStatements.Attempt))

  /**
   * The staging table of a batch. Its name is unique to the query and has at most 63 characters.
   */
  def staging(target: String, batch: UpsertBatch): String =
    beside(target, s"streamjoin_${batch.query.toString.replace("-", "")}_${batch.number}")

  /** A staging table of `start()` with a checkpoint. */
  def stagingOfStart(target: String, checkpoint: String, number: Int): String = {
    val of = UUID.nameUUIDFromBytes(checkpoint.getBytes(UTF_8))
    beside(target, s"streamjoin_${of.toString.replace("-", "")}_${number}_start")
  }

  /** A table in the same schema as another one: the part before the last unquoted dot stays. */
  def beside(table: String, name: String): String = table.take(lastDot(table) + 1) + name

  /** The unqualified name of the table, without quotes. */
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
 *   whether a row was added
 * @param attempt
 *   the number of the task attempt that wrote a row
 */
final private[upsert] case class Markers(change: String, attempt: String) {
  def names: Seq[String] = Seq(change, attempt)
}
