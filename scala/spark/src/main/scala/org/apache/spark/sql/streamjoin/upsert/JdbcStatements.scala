package org.apache.spark.sql.streamjoin.upsert

import org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
import org.apache.spark.sql.jdbc.JdbcDialect
import org.apache.spark.sql.types.{IntegerType, LongType}

/**
 * The SQL of a batch: the rows of a staging table are applied to the target.
 *
 * @param table
 *   the target as the user wrote it
 * @param columns
 *   of the target, quoted
 * @param keys
 *   places of the key among them
 * @param attempts
 *   the numbers of the task attempts that Spark has counted; rows of others are left over from
 *   attempts that failed, or that ran twice
 * @param replaces
 *   whether an insert can replace the row of its key (`ON CONFLICT`)
 */
final private[upsert] case class JdbcStatements(
    dialect: JdbcDialect,
    table: String,
    staging: String,
    columns: Seq[String],
    keys: Seq[Int],
    attempts: Seq[Long],
    replaces: Boolean
) {
  import JdbcStatements._

  private val change = dialect.quoteIdentifier(Change)
  private val attempt = dialect.quoteIdentifier(Attempt)
  private val list = columns.mkString(", ")

  private def counted(of: String) =
    if (attempts.isEmpty) "1 = 0" else s"$of$attempt IN (${attempts.mkString(", ")})"

  /** Creates the staging table with the types of the target: no value is cast between the two. */
  def createStaging(kind: String): Seq[String] = {
    def add(column: String, dataType: String) = dialect.getAddColumnQuery(staging, column, dataType)
    val create = kind match {
      case "sqlserver" => s"SELECT $list INTO $staging FROM $table WHERE 1 = 0"
      case "derby" => s"CREATE TABLE $staging AS SELECT $list FROM $table WITH NO DATA"
      case "db2" => s"CREATE TABLE $staging AS (SELECT $list FROM $table) WITH NO DATA"
      case _ => s"CREATE TABLE $staging AS SELECT $list FROM $table WHERE 1 = 0"
    }
    Seq(create, add(Change, integerType(dialect)), add(Attempt, longType(dialect)))
  }

  /** Parameters: the columns, then the kind of the change and the attempt. */
  def insertStaged: String =
    s"INSERT INTO $staging ($list, $change, $attempt) VALUES (${Seq.fill(columns.size + 2)("?").mkString(", ")})"

  def countStaged: String = s"SELECT COUNT(*) FROM $staging WHERE ${counted("")}"

  /**
   * Applies the batch. Rows go before others come.
   *
   * A null equals no null in SQL, and `IS NOT DISTINCT FROM` uses no index. So there is a statement
   * for each combination of nulls that occurs in the keys of the batch: a plain equality for the
   * columns that are not null, `IS NULL` for the others.
   *
   * @param nullKeys
   *   for each combination, which columns of the key are null
   */
  def applyStaged(nullKeys: Seq[Seq[Boolean]]): Seq[String] = {
    val deletes = nullKeys.sortBy(_.map(if (_) 1 else 0).mkString).map { nulls =>
      val same = keys.zip(nulls).map {
        case (at, true) => s"s.${columns(at)} IS NULL AND $table.${columns(at)} IS NULL"
        case (at, false) => s"s.${columns(at)} = $table.${columns(at)}"
      }
      // A null in the key is no conflict, so the row before has to go.
      val which = if (replaces && !nulls.contains(true)) Seq(s"s.$change = $Gone") else Nil
      val conditions = same ++ which :+ counted("s.")
      s"DELETE FROM $table WHERE EXISTS (SELECT 1 FROM $staging s WHERE ${conditions.mkString(" AND ")})"
    }
    val insert =
      s"INSERT INTO $table ($list) SELECT $list FROM $staging WHERE $change = $Came AND ${counted("")}"
    deletes :+ (if (replaces) insert + onConflict else insert)
  }

  private def onConflict: String = {
    val others = columns.indices.diff(keys).map(columns)
    val action =
      if (others.isEmpty) "NOTHING"
      else s"UPDATE SET ${others.map(name => s"$name = EXCLUDED.$name").mkString(", ")}"
    s" ON CONFLICT (${keys.map(columns).mkString(", ")}) DO $action"
  }
}

private[upsert] object JdbcStatements {
  val Change = "streamjoin_change"
  val Attempt = "streamjoin_attempt"
  val Gone = 0
  val Came = 1

  def integerType(dialect: JdbcDialect): String =
    JdbcUtils.getJdbcType(IntegerType, dialect).databaseTypeDefinition

  def longType(dialect: JdbcDialect): String =
    JdbcUtils.getJdbcType(LongType, dialect).databaseTypeDefinition

  /** The database in a URL: `jdbc:postgresql://...`. */
  def kindOf(url: String): String = url.split(':').lift(1).getOrElse("")

  /** A table beside another one: what is before the last dot that is not quoted stays. */
  def beside(table: String, name: String): String = {
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
    table.take(dot + 1) + name
  }
}
