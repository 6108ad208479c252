package org.apache.spark.sql.streamjoin.upsert

import org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
import org.apache.spark.sql.jdbc.JdbcDialect
import org.apache.spark.sql.types.LongType

/**
 * The SQL of a batch: it applies the rows of a staging table to the target.
 *
 * The cost of each statement depends on the batch, not on the target: it starts with the staging
 * table and finds the rows of the target with the index of their key. Databases need different
 * statements for this plan; those that plan a correlated `EXISTS` as a join get an `EXISTS`.
 *
 * @param table
 *   the target as the user wrote it
 * @param columns
 *   columns of the target, quoted
 * @param keys
 *   positions of the key among them
 * @param change
 *   the column of the staging table that says whether a row was added, quoted
 * @param attempt
 *   the column of the staging table with the number of the task attempt that wrote a row, quoted
 * @param attempts
 *   the numbers of the task attempts that Spark has accepted; rows of others are left over from
 *   failed or duplicate attempts
 * @param replaces
 *   whether an insert can replace the row of its key (`ON CONFLICT`)
 * @param unique
 *   other unique indexes of the target, if an insert replaces rows
 */
final private[upsert] case class JdbcStatements(
    dialect: JdbcDialect,
    kind: String,
    table: String,
    staging: String,
    columns: Seq[String],
    keys: Seq[Int],
    change: String,
    attempt: String,
    attempts: Seq[Long] = Nil,
    replaces: Boolean = false,
    unique: Seq[UniqueIndex] = Nil
) {
  import Database._
  import JdbcNames.{Staged, Target}
  import JdbcStatements._

  private val list = columns.mkString(", ")

  private def counted(of: String) =
    attempts.grouped(MostInList).map(some => s"$of$attempt IN (${some.mkString(", ")})").toSeq match {
      case Seq() => "1 = 0"
      case Seq(one) => one
      case several => several.mkString("(", " OR ", ")")
    }

  /**
   * Creates the staging table with the types of the target, so that no value is cast between the
   * two. It also gets the columns that mark it as a staging table: a table without them must not be
   * dropped.
   */
  def createStaging: String = {
    val number = kind match {
      // In MariaDB, a cast to an integer has 32 bits.
      case MySql | MariaDb => Long.MaxValue.toString
      case _ => s"CAST(0 AS ${numberType(dialect)})"
    }
    val query = s"$list, $number AS $change, $number AS $attempt"
    kind match {
      case SqlServer => s"SELECT $query INTO $staging FROM $table WHERE 1 = 0"
      case Derby => s"CREATE TABLE $staging AS SELECT $query FROM $table WITH NO DATA"
      case Db2 => s"CREATE TABLE $staging AS (SELECT $query FROM $table) WITH NO DATA"
      case _ => s"CREATE TABLE $staging AS SELECT $query FROM $table WHERE 1 = 0"
    }
  }

  /** Parameters: the columns, then the kind of the change and the attempt. */
  def insertStaged: String =
    s"INSERT INTO $staging ($list, $change, $attempt) VALUES (${Seq.fill(columns.size + 2)("?").mkString(", ")})"

  def countStaged: String = s"SELECT COUNT(*) FROM $staging WHERE ${counted("")}"

  /**
   * Tells the database how many rows were staged, if it would otherwise plan for another number.
   */
  def analyzeStaged: Option[String] = Option.when(kind == Postgres)(s"ANALYZE $staging")

  /**
   * Applies the batch. Rows are deleted before others are inserted.
   *
   * In SQL, null does not equal null, and `IS NOT DISTINCT FROM` does not use an index. So there is
   * one statement for each combination of nulls in the keys of the batch: with a plain equality for
   * the columns that are not null, and `IS NULL` for the others.
   *
   * @param nullKeys
   *   for each combination, which columns of the key are null
   */
  def applyStaged(nullKeys: Seq[Seq[Boolean]]): Seq[String] = {
    val deletes = nullKeys.sortBy(_.map(if (_) 1 else 0).mkString).map { nulls =>
      val same = keys.zip(nulls).map {
        case (at, true) => s"$Staged.${columns(at)} IS NULL AND $Target.${columns(at)} IS NULL"
        case (at, false) => s"$Staged.${columns(at)} = $Target.${columns(at)}"
      }
      // A null in the key does not cause a conflict, so the previous row has to be deleted.
      val which = if (replaces && !nulls.contains(true)) Seq(s"$Staged.$change = $Gone") else Nil
      delete((same ++ which :+ counted(s"$Staged.")).mkString(" AND "))
    }
    val insert =
      s"INSERT INTO $table ($list) SELECT $list FROM $staging WHERE $change = $Came AND ${counted("")}"
    if (replaces) deletes ++ unique.map(deleteBlocking) :+ (insert + onConflict) else deletes :+ insert
  }

  private def delete(condition: String): String = kind match {
    case Postgres => s"DELETE FROM $table $Target USING $staging $Staged WHERE $condition"
    case MySql | MariaDb =>
      // The order matters: both may scan the target, because there are no statistics of the staging
      // table.
      s"DELETE $Target FROM $staging $Staged STRAIGHT_JOIN $table $Target ON $condition"
    case H2 => s"MERGE INTO $table $Target USING $staging $Staged ON ($condition) WHEN MATCHED THEN DELETE"
    case _ =>
      val which = if (kind == SqlServer) s"$Target " else ""
      s"DELETE ${which}FROM $table $Target WHERE EXISTS (SELECT 1 FROM $staging $Staged WHERE $condition)"
  }

  /**
   * Deletes the rows of the batch whose values in another unique index are assigned to another row
   * of the batch: PostgreSQL checks such an index row by row, so rows that swap values would block
   * each other. Other rows are updated in place. A conflicting row whose key is not in the batch
   * stays, and the insert correctly fails.
   *
   * A column of the index that the changes lack keeps the value of the existing row; the value that
   * a new row will get is unknown here.
   */
  private def deleteBlocking(index: UniqueIndex): String = {
    val key = keys.map(columns)
    val values = index.expressions.indices.map(at => s"streamjoin_value$at")
    def rows(of: String, condition: Option[String]) = {
      val computed = index.expressions.zip(values).map { case (expression, name) => s"$expression AS $name" }
      val where = (condition ++ index.predicate).map(each => s"($each)")
      s"(SELECT ${(key ++ computed).mkString(", ")} FROM $of${if (where.isEmpty) ""
        else where.mkString(" WHERE ", " AND ", "")})"
    }
    val came = s"$change = $Came AND ${counted("")}"
    val own = index.columns.toSeq.sorted.map(dialect.quoteIdentifier).diff(columns)
    val coming =
      if (own.isEmpty) staging
      else {
        val all =
          (columns :+ change :+ attempt).map(name => s"$Staged.$name") ++ own.map(name => s"$Target.$name")
        val there = key.map(name => s"$Staged.$name = $Target.$name").mkString(" AND ")
        s"(SELECT ${all.mkString(", ")} FROM $staging $Staged JOIN $table $Target ON $there) streamjoin_coming"
      }
    val equal = if (index.nullsAreEqual) "IS NOT DISTINCT FROM" else "="
    val same = values.map(name => s"streamjoin_new.$name $equal streamjoin_old.$name")
    val other = key.map(name => s"streamjoin_new.$name IS DISTINCT FROM streamjoin_old.$name")
    val replaced = key.map(name => s"$Staged.$name = streamjoin_old.$name")
    val found =
      s"SELECT ${key.map(name => s"streamjoin_old.$name").mkString(", ")} FROM ${rows(coming, Some(came))} streamjoin_new " +
        s"JOIN ${rows(table, None)} streamjoin_old ON ${same.mkString(" AND ")} AND (${other.mkString(" OR ")}) " +
        s"JOIN $staging $Staged ON ${replaced.mkString(" AND ")} AND $Staged.$change = $Came AND ${counted(s"$Staged.")}"
    val deleted = key.map(name => s"$Target.$name = streamjoin_found.$name").mkString(" AND ")
    s"DELETE FROM $table $Target USING ($found) streamjoin_found WHERE $deleted"
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

  /** Oracle accepts no longer list. */
  private val MostInList = 1000

  def numberType(dialect: JdbcDialect): String =
    JdbcUtils.getJdbcType(LongType, dialect).databaseTypeDefinition
}
