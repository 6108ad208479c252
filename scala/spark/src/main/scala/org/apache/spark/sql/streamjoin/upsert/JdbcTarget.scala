package org.apache.spark.sql.streamjoin.upsert

import java.sql.Connection
import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution.datasources.jdbc.{JdbcOptionsInWrite, JdbcUtils}
import org.apache.spark.sql.functions.{col, lit, when}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types.{IntegerType, LongType}

/**
 * A table of a database.
 *
 * Tasks write the rows of a batch into a staging table, each in its own transaction. Then the
 * driver applies them to the target and writes the number of the batch into `streamjoin_batches`,
 * in a single transaction. A batch that is already recorded is not applied again.
 *
 * A task may run twice, or fail after its transaction, so each attempt has a number. The driver
 * applies the rows of those attempts whose result Spark has accepted.
 *
 * The staging table has the number of the batch in its name. If a driver dies, it leaves the table
 * behind, and the same batch, which is the first one to run again, removes it.
 */
final private[upsert] class JdbcTarget(parameters: Map[String, String]) extends UpsertTarget with Logging {
  Database.check(CaseInsensitiveMap(parameters)(UpsertOptions.Url))
  private val options = new JdbcOptionsInWrite(parameters)
  private val table = options.table
  private val database = new Database(options)
  private val dialect = database.dialect
  private val batches = new BatchTable(database, table)

  override def check(changes: NetChanges, checkpoint: String): Unit = database.withConnection { connection =>
    val found = foundIn(columnsIn(connection, changes), changes)
    val stagingOf = JdbcNames.stagingOfStart(table, checkpoint, _)
    new JdbcColumnChecks(database, options, table, stagingOf).check(connection, changes, found)
  }

  override def identity(changes: NetChanges): TargetIdentity = database.withConnection { connection =>
    TargetIdentity(
      UpsertOptions.Jdbc,
      tableIn(connection),
      Map("url" -> JdbcTarget.withoutSecrets(options.url))
    )
  }

  override def keepsBatches: Boolean = true

  override def verify(checkpoint: UpsertCheckpoint): Unit = database.withConnection { connection =>
    checkpoint.query.foreach { query =>
      val last =
        if (batches.exists(connection)) batches.last(connection, query, tableIn(connection)) else None
      BatchTable.verify(table, query, last.map(_.batch), checkpoint)
      for (known <- last; before <- known.filledId; now <- idIn(connection))
        if (before != now && database.isEmpty(connection, table)) throw BatchTable.emptied(table, known.batch)
    }
  }

  override def has(batch: UpsertBatch): Boolean = database.withConnection { connection =>
    batches.create(connection)
    val last = batches.last(connection, batch.query, tableIn(connection)).map(_.batch)
    val isThere = BatchTable.has(table, last, batch)
    if (isThere) database.dropStaging(connection, JdbcNames.staging(table, batch), markersIn(connection))
    isThere
  }

  override def write(changes: NetChanges, counts: ChangeCounts, batch: UpsertBatch): Unit = {
    val (statements, markers) = database.withConnection(prepare(_, changes, counts, batch))
    if (!counts.isEmpty)
      try {
        // The driver has no connection meanwhile: a database may end one that is idle for long.
        val attempts = stage(changes, statements)
        database.withConnection(applyStaged(_, counts, statements, attempts, batch))
      } finally dropStaging(statements.staging, markers)
  }

  /** Creates the staging table, unless there is nothing to write into it. */
  private def prepare(
      connection: Connection,
      changes: NetChanges,
      counts: ChangeCounts,
      batch: UpsertBatch
  ): (JdbcStatements, Markers) = {
    val prepared @ (statements, markers) = statementsOf(connection, changes, batch)
    // Left by an earlier attempt at the batch.
    database.dropStaging(connection, statements.staging, markers)
    if (counts.isEmpty) applyStaged(connection, counts, statements, Nil, batch)
    else database.execute(connection, statements.createStaging)
    prepared
  }

  private def statementsOf(
      connection: Connection,
      changes: NetChanges,
      batch: UpsertBatch
  ): (JdbcStatements, Markers) = {
    val there = columnsIn(connection, changes)
    val columns = foundIn(there, changes).map(_.name)
    val keys = changes.keys
    val markers = JdbcNames.markers(there.map(_.name))
    val (own, others) =
      if (database.kind == Database.Postgres) uniqueIn(connection, keys.map(columns).toSet)
      else (None, Nil)
    val statements = JdbcStatements(
      dialect,
      database.kind,
      table,
      JdbcNames.staging(table, batch),
      columns.map(dialect.quoteIdentifier),
      keys,
      dialect.quoteIdentifier(markers.change),
      dialect.quoteIdentifier(markers.attempt),
      replaces = own.isDefined,
      unique = others
    )
    (statements, markers)
  }

  private def applyStaged(
      connection: Connection,
      counts: ChangeCounts,
      of: JdbcStatements,
      attempts: Seq[Attempt],
      batch: UpsertBatch
  ): Unit = {
    val filledId = Option.when(!counts.isEmpty)(if (counts.upserts > 0) idIn(connection) else None)
    val statements = of.copy(attempts = attempts.map(_.id))
    val begin = System.nanoTime()
    if (attempts.nonEmpty) statements.analyzeStaged.foreach(database.execute(connection, _))
    database.transaction(connection) {
      batches.record(connection, tableIn(connection), filledId, batch)
      if (attempts.nonEmpty) {
        checkStaged(connection, statements, attempts.map(_.rows).sum, batch)
        statements.applyStaged(counts.nullKeys).foreach(database.execute(connection, _))
      }
    }
    val changed = counts.upserts + counts.deletes
    logInfo(s"Applied $changed changes to $table in ${NANOSECONDS.toMillis(System.nanoTime() - begin)} ms")
  }

  /** At the latest, it is removed when the batch runs again. */
  private def dropStaging(staging: String, markers: Markers): Unit =
    try database.withConnection(database.dropStaging(_, staging, markers))
    catch { case NonFatal(error) => logWarning(s"The table $staging could not be dropped", error) }

  /** A driver with an older copy of the checkpoint may have created a table of the same name. */
  private def checkStaged(
      connection: Connection,
      statements: JdbcStatements,
      wanted: Long,
      batch: UpsertBatch
  ): Unit = {
    val found = database.rows(connection, statements.countStaged)(_.getLong(1)).head
    if (found != wanted) throw BatchTable.lost(table, batch, statements.staging, wanted, found)
  }

  private def stage(changes: NetChanges, statements: JdbcStatements): Seq[Attempt] = {
    val change = when(col(NetChanges.Gone), lit(JdbcStatements.Gone)).otherwise(lit(JdbcStatements.Came))
    val rows = changes.rows.select(changes.named :+ change.as(JdbcStatements.Change): _*)
    val schema = changes.columns
      .add(JdbcStatements.Change, IntegerType)
      .add(JdbcStatements.Attempt, LongType)
    val writer = new StagingWriter(statements.staging, statements.insertStaged, schema, dialect, options)
    val run = ThreadLocalRandom.current().nextInt(Int.MaxValue)
    // Limits the number of concurrent connections to the user's setting.
    val limited = options.numPartitions.filter(_ < rows.rdd.getNumPartitions).fold(rows)(rows.coalesce(_))
    rows.sparkSession.sparkContext
      .runJob(limited.rdd, (context: TaskContext, each: Iterator[Row]) => writer(run)(context, each))
      .toSeq
      .filter(_.rows > 0)
  }

  private def columnsIn(connection: Connection, changes: NetChanges): Seq[JdbcColumn] = {
    if (!database.exists(connection, table)) {
      val columns = JdbcUtils.schemaString(dialect, changes.columns, SQLConf.get.caseSensitiveAnalysis)
      val keys = changes.keyNames.map(dialect.quoteIdentifier).mkString(", ")
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_UPSERT.NO_TABLE",
        "table" -> table,
        "columns" -> columns,
        "keys" -> keys
      )
    }
    database.select(connection, dialect.getSchemaQuery(table))(JdbcColumn.of)
  }

  /** The columns of the changes in the target, where their names may differ in case. */
  private def foundIn(there: Seq[JdbcColumn], changes: NetChanges): Seq[JdbcColumn] =
    changes.columns.names.toSeq.map { name =>
      there.find(_.name == name).orElse(there.find(of => SQLConf.get.resolver(of.name, name))).getOrElse {
        throw UpsertOptions.noColumn(table, name, there.map(_.name))
      }
    }

  private def markersIn(connection: Connection): Markers =
    JdbcNames.markers(database.columnsOf(connection, table))

  /** The name of the target in the database, or else as given by the user. */
  private def tableIn(connection: Connection): String = {
    val parts = partsIn(connection)
    if (parts.last.isEmpty) table else parts.filter(_.nonEmpty).mkString(".")
  }

  /** The catalog, the schema and the name of the target, if the database returns them. */
  private def partsIn(connection: Connection): Seq[String] =
    database.select(connection, dialect.getSchemaQuery(table)) { rows =>
      val found = rows.getMetaData
      Seq(found.getCatalogName(1), found.getSchemaName(1), found.getTableName(1)).map(Option(_).getOrElse(""))
    }

  private def idIn(connection: Connection): Option[String] =
    TableId.of(database.kind, table, partsIn(connection)).flatMap(database.first(connection, _))

  /** The unique index that `ON CONFLICT` uses, and the others that may reject its inserts. */
  private def uniqueIn(connection: Connection, key: Set[String]): (Option[UniqueIndex], Seq[UniqueIndex]) = {
    val (own, others) = UniqueIndex
      .of(connection, table)
      .partition(index => index.isOfColumns && index.predicate.isEmpty && index.columns == key)
    (own.headOption, others)
  }
}

private[upsert] object JdbcTarget {

  /** A URL without parameters, user and password. */
  def withoutSecrets(url: String): String = url
    .takeWhile(char => char != '?' && char != ';')
    // MySQL's `(host=h,password=p)`, and the first property of DB2, `/db:password=p`.
    .replaceAll("(?i)\\b(user|password)=[^,)]*", "$1=")
    // A password may contain `@`.
    .replaceFirst("//[^/]*@", "//@")
    .replaceFirst("thin:.*@", "thin:@")
}

/** A column of a table: its name, and its type in the database and in [[java.sql.Types]]. */
final private[upsert] case class JdbcColumn(name: String, typeName: String, jdbcType: Int)

private[upsert] object JdbcColumn {
  def of(rows: java.sql.ResultSet): Seq[JdbcColumn] = {
    val found = rows.getMetaData
    (1 to found.getColumnCount).map { at =>
      JdbcColumn(found.getColumnLabel(at), found.getColumnTypeName(at), found.getColumnType(at))
    }
  }
}
