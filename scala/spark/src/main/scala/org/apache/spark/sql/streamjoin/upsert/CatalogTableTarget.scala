package org.apache.spark.sql.streamjoin.upsert

import scala.annotation.tailrec
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.util.{quoteIdentifier, quoteIfNeeded}
import org.apache.spark.sql.classic.{MergeIntoWriter, SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog, Table}
import org.apache.spark.sql.execution.CommandExecutionMode
import org.apache.spark.sql.functions.{col, not}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.{Row, SparkSession}

/**
 * A table of a format with `MERGE`.
 *
 * The table has no record of the batches and does not need one. A `MERGE` is one commit of the
 * table's format. It sets each key to its row after the batch, whatever the table contains, and
 * only the last batch can run again. So a second run changes nothing. For the same reason, a failed
 * `MERGE` can be retried: another writer may have changed the table, or the session's catalog may
 * have had an older state of it.
 *
 * Key columns are compared with `<=>`, because outer joins produce nulls in them.
 *
 * @param session
 *   the user's session; the name is relative to its current catalog and namespace
 */
final private[upsert] class CatalogTableTarget(session: SparkSession, name: String)
    extends UpsertTarget
    with LookupCatalog {
  import CatalogTableTarget._

  private val classic = session.asInstanceOf[ClassicSession]
  override protected val catalogManager: CatalogManager = classic.sessionState.catalogManager

  /** Includes the catalog, because the session of a running query may have another current one. */
  private val table: String = classic.sessionState.sqlParser.parseMultipartIdentifier(name) match {
    case CatalogAndIdentifier(catalog, found) =>
      (catalog.name +: found.namespace.toSeq :+ found.name).map(quoteIfNeeded).mkString(".")
    case _ => name
  }

  override def check(changes: NetChanges, checkpoint: String): Unit = {
    // A caching catalog may still contain a dropped table.
    classic.catalog.refreshTable(table)
    val there = classic.table(table).schema
    changes.columns.names.find(column => !there.names.exists(SQLConf.get.resolver(_, column))).foreach {
      column => throw UpsertOptions.noColumn(table, column, there.names.toSeq)
    }
    // Planned but not run, as by EXPLAIN: the table may not support MERGE, or not these types.
    try
      classic.sessionState
        .executePlan(merge(changes).mergeCommand(), CommandExecutionMode.SKIP)
        .executedPlan: Unit
    catch {
      case NonFatal(error) =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UPSERT.MERGE",
          "table" -> table,
          "error" -> messageOf(error)
        )
    }
  }

  override def identity(changes: NetChanges): TargetIdentity =
    TargetIdentity(UpsertOptions.Table, table, Try(loaded).toOption.flatten.map(idsOf).getOrElse(Map.empty))

  override def has(batch: UpsertBatch): Boolean = false

  override def write(changes: NetChanges, counts: ChangeCounts, batch: UpsertBatch): Unit =
    // Even a MERGE of no rows would be a commit.
    if (!counts.isEmpty)
      attempt(Attempts) {
        // The entry in a caching catalog may be older than the table.
        changes.rows.sparkSession.catalog.refreshTable(table)
        merge(changes).merge()
      }

  private def merge(changes: NetChanges): MergeIntoWriter[Row] = {
    // The columns of the changes are called c0, c1, ...: a table's column of such a name would be
    // ambiguous, so they get a prefix here that no column of the table begins with.
    val there = changes.rows.sparkSession.table(table).schema.names
    val prefix =
      JdbcNames.free("streamjoin_upsert", name => there.exists(_.toLowerCase.startsWith(name))) + "_"
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
    updated.whenNotMatched(not(isGone)).insert(set(all)).asInstanceOf[MergeIntoWriter[Row]]
  }

  private def loaded: Option[Table] = classic.sessionState.sqlParser.parseMultipartIdentifier(table) match {
    case CatalogAndIdentifier(catalog, found) => Some(catalog.asTableCatalog.loadTable(found))
    case _ => None
  }

  /** By reflection, because neither format is on our class path. */
  private def idsOf(table: Table): Map[String, String] = {
    def text(value: => Any): Option[String] =
      Try(Option(value)).toOption.flatten.map(_.toString).filter(_.nonEmpty)
    def call(on: AnyRef, method: String): AnyRef = on.getClass.getMethod(method).invoke(on)
    val isDelta = "delta".equalsIgnoreCase(table.properties.get("provider"))
    Map(
      // Spark's own, from 4.1 on.
      "id" -> text(call(table, "id")),
      "Iceberg id" -> text(call(call(table, "table"), "uuid")),
      "Delta id" -> (if (isDelta) text(classic.sql(s"DESCRIBE DETAIL $name").select("id").head().get(0))
                     else None)
    ).collect { case (id, Some(value)) => id -> value }
  }
}

private[upsert] object CatalogTableTarget extends Logging {

  /** The total number of attempts at a `MERGE`. */
  private val Attempts = 4

  private val ChangedMeanwhile = "INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS"
  private val Passing = "Commit|Concurrent|Conflict|Validation".r

  /** Runs the body up to the given number of times, as long as the failure may be temporary. */
  @tailrec def attempt(times: Int)(body: => Unit): Unit = {
    val failure =
      try {
        body
        None
      } catch {
        case NonFatal(error) if times > 1 && mayPass(error) => Some(error)
      }
    if (failure.isDefined) {
      logWarning("A MERGE failed and is retried", failure.get)
      attempt(times - 1)(body)
    }
  }

  /**
   * Whether another attempt may succeed, according to the names that formats give to commit errors.
   * An error caused by the rows is permanent.
   */
  private def mayPass(error: Throwable): Boolean = causes(error).exists {
    case changed: SparkThrowable if Option(changed.getCondition).exists(_.startsWith(ChangedMeanwhile)) =>
      true
    case other => Passing.findFirstIn(other.getClass.getSimpleName).isDefined
  }

  private def causes(error: Throwable): Seq[Throwable] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).toSeq

  private def messageOf(error: Throwable): String =
    causes(error).flatMap(cause => Option(cause.getMessage)).headOption.getOrElse(error.toString)
}
