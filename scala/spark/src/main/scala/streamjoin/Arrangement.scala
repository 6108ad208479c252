package streamjoin

import java.time.Duration
import java.util.{List => JList, Map => JMap}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.streamjoin.ScalaApi.{ask, invoke}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

/**
 * Opens, maintains and looks up arrangements. An arrangement holds the rows of a stream, indexed by
 * one or more keys. One query maintains it, and any number of queries share it.
 */
object Arrangement {

  /**
   * Opens an existing arrangement, given its name in `spark.streamjoin.arrangements` or its path.
   */
  def forName(spark: SparkSession, nameOrPath: String): Arrangement = new Arrangement(spark, nameOrPath)

  /**
   * Returns a builder for the query that maintains an arrangement; see [[ArrangementWriter]].
   *
   * {{{
   * Arrangement.maintain(changes, "orders").key("order_id").key("customer_id").op("op")
   *   .writeStream.option("checkpointLocation", "...").start()
   * }}}
   */
  def maintain(df: DataFrame, nameOrPath: String): ArrangementWriter = new ArrangementWriter(df, nameOrPath)

  /** Returns an arrangement as a table that a stream looks up; see [[LookUpTable]]. */
  def table(spark: SparkSession, nameOrPath: String): LookUpTable = new LookUpTable(spark, nameOrPath)

  private def state(spark: SparkSession, nameOrPath: String): Row =
    ask(spark, "sj_arrangements", nameOrPath).head()
}

/** An existing arrangement. Versions, rows, bytes and readers are read again on each call. */
final class Arrangement private[streamjoin] (spark: SparkSession, nameOrPath: String) {
  private val first = Arrangement.state(spark, nameOrPath)

  /** The name of the arrangement in the folder of arrangements. */
  val name: String = first.getAs[String]("name")

  /** The path of the arrangement's folder. */
  val path: String = first.getAs[String]("path")

  /** The columns of each index. For a changelog, the first one is the primary key. */
  val keys: Seq[Seq[String]] =
    first.getAs[scala.collection.Seq[scala.collection.Seq[String]]]("keys").map(_.toSeq).toSeq

  /** The schema of the arrangement's rows. */
  def schema: StructType = spark.read.format("streamjoin").load(path).schema

  /**
   * The oldest readable version and the newest version. None before the first version is written.
   */
  def versions: Option[(Long, Long)] = {
    val row = now()
    Option.unless(row.isNullAt(row.fieldIndex("newest_version")))(
      (row.getAs[Long]("oldest_version"), row.getAs[Long]("newest_version"))
    )
  }

  /** The number of rows in the newest version, counting copies. */
  def rows: Long = now().getAs[Long]("rows")

  /** The size in bytes of the files that the newest version needs. */
  def bytes: Long = now().getAs[Long]("bytes")

  /**
   * The readers of the arrangement, the slowest first. Each row has `name` (of the query, or null),
   * `id`, `version`, `versions_behind` and `since`.
   */
  def readers: Seq[Row] = now().getAs[scala.collection.Seq[Row]]("readers").toSeq

  /**
   * Ends the lease of a reader that will not return. If the reader does return, it may be rejected
   * with `STREAMJOIN_ARRANGEMENT_RETENTION`.
   *
   * @param reader
   *   the reader's id in [[readers]]
   */
  def release(reader: String): Unit =
    ask(spark, "sj_release_reader", path, reader).collect(): Unit

  /** Removes the arrangement and all of its files. Fails while it has readers or its query runs. */
  def drop(): Unit = drop(force = false)

  /**
   * Removes the arrangement and all of its files. Fails while its query runs.
   *
   * @param force
   *   removes it even if it has readers; their queries then fail
   */
  def drop(force: Boolean): Unit =
    ask(spark, "sj_drop_arrangement", path, force).collect(): Unit

  /** Returns the rows as a batch DataFrame. Each read sees the newest version at that time. */
  def toDF(): DataFrame = spark.read.format("streamjoin").load(path)

  /** Returns the rows of the given version as a batch DataFrame. */
  def toDF(version: Long): DataFrame =
    spark.read.format("streamjoin").option("version", version).load(path)

  /**
   * Returns the changes as a stream. Two columns are added: `_version`, the version in which a row
   * was added or removed, and `_diff`, the number of copies added, or removed if it is negative.
   */
  def changes(): DataFrame = changes(Map.empty[String, String])

  /**
   * Returns the changes as a stream, with the columns `_version` and `_diff`.
   *
   * @param options
   *   `maxVersionsPerTrigger` and `maxRowsPerTrigger` limit the size of a batch
   */
  def changes(options: Map[String, String]): DataFrame =
    spark.readStream.format("streamjoin").options(options).load(path)

  /** Returns the changes as a stream with the given options, for Java. */
  def changes(options: JMap[String, String]): DataFrame = changes(options.asScala.toMap)

  /** Returns the arrangement as a table that a stream looks up. */
  def asTable: LookUpTable = new LookUpTable(spark, path)

  override def toString: String =
    s"Arrangement $name at $path, keys ${keys.map(_.mkString("[", ", ", "]")).mkString(", ")}"

  private def now(): Row = Arrangement.state(spark, path)
}

/**
 * Configures the query that turns a stream into an arrangement. Each batch writes one version,
 * which all keys share. Without [[op]] and [[diff]], rows are only added.
 */
final class ArrangementWriter private[streamjoin] (df: DataFrame, nameOrPath: String) {
  private var keys = Seq.empty[Seq[String]]
  private var arguments = Map[String, Any]("path" -> nameOrPath)

  /**
   * Adds an index on the given key columns. For a changelog, the first index is the primary key.
   */
  @varargs def key(column: String, more: String*): ArrangementWriter = key((column +: more).asJava)

  /** Adds an index on the given key columns. */
  def key(columns: JList[String]): ArrangementWriter = {
    keys :+= columns.asScala.toSeq
    set("keys" -> keys)
  }

  /** Sets the column with the operation of a changelog: `insert`, `update` or `delete`. */
  def op(column: String): ArrangementWriter = set("op" -> column)

  /** Sets the column with the number of copies that are added, or removed if it is negative. */
  def diff(column: String): ArrangementWriter = set("diff" -> column)

  /**
   * Sets the column that orders the rows of a key across all batches. A row older than the last one
   * of its key is ignored.
   */
  def time(column: String): ArrangementWriter = set("time" -> column)

  /**
   * Sets the column that orders rows with the same time, such as a position in a log. Without
   * [[time]], it orders all rows of a key.
   */
  def order(column: String): ArrangementWriter = set("order" -> column)

  /**
   * Sets how long rows are kept. A row whose [[time]] is longer ago is removed with the next batch,
   * as if it had been deleted. A restarted query may use another duration.
   */
  def ttl(length: String): ArrangementWriter = set("ttl" -> length)

  /** Sets how long rows are kept after their [[time]]. */
  def ttl(length: Duration): ArrangementWriter = ttl(Durations.text(length))

  /**
   * Sets the text, or the bytes of it, that stands for a value that was not sent. The row then
   * keeps its current value. The default is that of Debezium, `__debezium_unavailable_value`.
   */
  def unavailable(placeholder: String): ArrangementWriter =
    set("unavailable" -> placeholder, "as_sent" -> false)

  /** Stores values as sent, without treating any text as a placeholder. */
  def asSent: ArrangementWriter = set("as_sent" -> true)

  /** Returns the writer of the query. Start it like any streaming query. */
  def writeStream: DataStreamWriter[Row] =
    toDF().writeStream.format("streamjoin").option("path", nameOrPath)

  /** Returns the query as a DataFrame, for [[StreamJoin.evolution]]. */
  def toDF(): DataFrame = invoke(df, "sj_arrange")(arguments.toSeq: _*)

  private def set(values: (String, Any)*): ArrangementWriter = {
    arguments ++= values
    this
  }
}

/**
 * A table that a stream looks up with `stream.join(table, ...)`. The join is inner or left outer,
 * on the columns of one of the arrangement's keys. A row is joined with the version of the table
 * that its batch sees. The query keeps no rows.
 */
final class LookUpTable private[streamjoin] (spark: SparkSession, nameOrPath: String) {
  private var options = Map("streamjoin.table" -> "true")

  /** Looks up the version before the newest one. */
  def previous(): LookUpTable = option("asOf", "previous")

  /** Makes a new query wait until the arrangement has this version. */
  def atLeast(version: Long): LookUpTable = option("atLeast", version.toString)

  /** Makes a new query wait until the maintaining query has reached the end of its sources. */
  def caughtUp(): LookUpTable = option("atLeast", "caught up")

  /**
   * Sets how long, in event time, a row that was emitted without a match may still get one. Outer
   * joins only.
   */
  def rematch(length: String): LookUpTable = option("rematch", length)

  /** Sets how long a row that was emitted without a match may still get one. */
  def rematch(length: Duration): LookUpTable = rematch(Durations.text(length))

  /** Returns the table as the right side of the join. */
  def toDF(): DataFrame = spark.read.format("streamjoin").options(options).load(nameOrPath)

  private def option(name: String, value: String): LookUpTable = {
    options += name -> value
    this
  }
}
