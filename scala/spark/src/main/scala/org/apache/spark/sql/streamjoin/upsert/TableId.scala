package org.apache.spark.sql.streamjoin.upsert

/** A query with parameters. */
final private[upsert] case class Asked(sql: String, parameters: Seq[String])

/**
 * The database's id of a table, which distinguishes it from another table that gets its name later.
 * A table that was restored from a dump, or that replaced another one together with its rows, also
 * has another id.
 */
private[upsert] object TableId {
  import Database._

  /**
   * The query for the id of a table. Other databases have no such id, or it has not been tested.
   *
   * @param parts
   *   its catalog, schema and name in the database
   */
  def of(kind: String, table: String, parts: Seq[String]): Option[Asked] = kind match {
    case Postgres =>
      Some(Asked("SELECT CAST(CAST(CAST(CAST(? AS text) AS regclass) AS oid) AS text)", Seq(table)))
    case MySql | MariaDb =>
      // When it was created or last altered, in seconds.
      val sql =
        "SELECT UNIX_TIMESTAMP(create_time) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
      Some(Asked(sql, Seq(parts.head, parts.last)))
    case Derby =>
      val sql =
        "SELECT t.tableid FROM sys.systables t JOIN sys.sysschemas s ON t.schemaid = s.schemaid WHERE s.schemaname = ? AND t.tablename = ?"
      Some(Asked(sql, parts.tail))
    case _ => None
  }
}
