package org.apache.spark.sql.streamjoin.upsert

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.util.{quoteIdentifier, quoteIfNeeded}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog}
import org.apache.spark.sql.functions.{col, not}
import org.apache.spark.sql.internal.SQLConf

/**
 * A table of a format that has `MERGE`.
 *
 * The table has no record of the batches, and needs none. A `MERGE` is one commit of the table's
 * format. It sets each key to what it has after the batch, whatever the table has for it, and a
 * batch that runs again is the last one that ran. So the second run sets what is set already.
 *
 * Key columns are compared by `<=>`: outer joins have nulls in them.
 *
 * @param session
 *   of the user, whose current catalog and namespace the name is relative to
 */
final private[upsert] class MergeTarget(session: SparkSession, name: String)
    extends UpsertTarget
    with LookupCatalog {
  private val classic = session.asInstanceOf[ClassicSession]
  override protected val catalogManager: CatalogManager = classic.sessionState.catalogManager

  /** With its catalog: the session of a running query may have another current one. */
  private val table: String = classic.sessionState.sqlParser.parseMultipartIdentifier(name) match {
    case CatalogAndIdentifier(catalog, found) =>
      (catalog.name +: found.namespace.toSeq :+ found.name).map(quoteIfNeeded).mkString(".")
    case _ => name
  }

  override def check(changes: NetChanges): Unit = {
    val there = classic.table(table).schema
    changes.columns.names.find(column => !there.names.exists(SQLConf.get.resolver(_, column))).foreach {
      column => throw UpsertOptions.noColumn(table, column, there.names.toSeq)
    }
  }

  override def has(batch: UpsertBatch): Boolean = false

  override def write(changes: NetChanges, figures: Figures, batch: UpsertBatch): Unit = {
    // The columns of the changes are called c0, c1, ...: a table's column of such a name would be
    // ambiguous, so they get a longer prefix here.
    val prefix = "streamjoin_upsert_"
    val source = changes.rows.toDF(changes.rows.columns.toSeq.map(prefix + _): _*)
    val isGone = col(prefix + NetChanges.Gone)
    def value(at: Int) = col(s"${prefix}c$at")
    def set(places: Seq[Int]) =
      places.map(at => quoteIdentifier(changes.columns(at).name) -> value(at)).toMap
    val all = changes.columns.indices
    val matched = changes.keys
      .map(at => col(quoteIdentifier(changes.columns(at).name)) <=> value(at))
      .reduce(_ && _)
    val merge = source.mergeInto(table, matched).whenMatched(isGone).delete()
    val others = all.diff(changes.keys)
    val updated = if (others.isEmpty) merge else merge.whenMatched().update(set(others))
    updated.whenNotMatched(not(isGone)).insert(set(all)).merge()
  }
}
