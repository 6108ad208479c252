package org.apache.spark.sql.streamjoin.upsert

import java.sql.Connection

import scala.util.Using

/**
 * A unique index of a PostgreSQL table, in its SQL.
 *
 * @param columns
 *   all columns of the table that it reads
 * @param expressions
 *   the indexed columns, quoted if necessary, or expressions
 * @param predicate
 *   the condition on the rows that it contains, if not all
 */
final private[upsert] case class UniqueIndex(
    columns: Set[String],
    expressions: Seq[String],
    predicate: Option[String],
    isOfColumns: Boolean,
    nullsAreEqual: Boolean
)

private[upsert] object UniqueIndex {

  /** Only indexes that are checked for each row, not at the end of a transaction. */
  def of(connection: Connection, table: String): Seq[UniqueIndex] =
    Using.resource(connection.prepareStatement(Sql)) { select =>
      select.setString(1, table)
      Using.resource(select.executeQuery()) { rows =>
        def texts(at: Int) = rows.getArray(at).getArray.asInstanceOf[Array[String]].toSeq
        Iterator
          .continually(rows)
          .takeWhile(_.next())
          .map { row =>
            val predicate = Option(row.getString(3))
            UniqueIndex(texts(1).toSet, texts(2), predicate, row.getBoolean(4), row.getBoolean(5))
          }
          .toList
      }
    }

  // The column for equal nulls was added in PostgreSQL 15.
  private val Sql =
    """SELECT
      |  ARRAY(
      |    SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND (
      |      a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) OR a.attnum IN (
      |        SELECT d.refobjsubid FROM pg_depend d
      |        WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
      |        AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid
      |        AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)))),
      |  ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, false) FROM generate_series(1, i.indnkeyatts) n ORDER BY n),
      |  pg_get_expr(i.indpred, i.indrelid),
      |  i.indexprs IS NULL,
      |  coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
      |FROM pg_index i
      |WHERE i.indrelid = CAST(CAST(? AS text) AS regclass) AND i.indisunique AND i.indimmediate AND i.indisvalid
      |ORDER BY i.indexrelid""".stripMargin
}
