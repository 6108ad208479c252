package streamjoin

import java.time.Duration
import java.util.{List => JList, Map => JMap}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.base.TextArgument
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

/**
 * An arrangement: the rows of a stream, indexed by one key or several, which one query maintains
 * and any number of queries share.
 */
object Arrangement {

  /** Opens an arrangement by its name in `spark.streamjoin.arrangements`, or by its path. */
  def forName(spark: SparkSession, nameOrPath: String): Arrangement = new Arrangement(spark, nameOrPath)

  /**
   * A query that maintains an arrangement; [[ArrangementWriter]].
   *
   * {{{
   * Arrangement.maintain(changes, "orders").key("order_id").key("customer_id").op("op")
   *   .writeStream.option("checkpointLocation", "...").start()
   * }}}
   */
  def maintain(df: DataFrame, nameOrPath: String): ArrangementWriter = new ArrangementWriter(df, nameOrPath)

  /** A table that a stream looks up; [[LookUpTable]]. */
  def table(spark: SparkSession, nameOrPath: String): LookUpTable = new LookUpTable(spark, nameOrPath)

  private def state(spark: SparkSession, nameOrPath: String): Row =
    spark.sql(s"SELECT * FROM sj_arrangements(${TextArgument.sql(nameOrPath)})").head()
}

/** An existing arrangement. What changes in it is read again on each call. */
final class Arrangement private[streamjoin] (spark: SparkSession, nameOrPath: String) {
  private val first = Arrangement.state(spark, nameOrPath)

  /** Its name in the folder of arrangements. */
  val name: String = first.getAs[String]("name")

  /** Its folder. */
  val path: String = first.getAs[String]("path")

  /** The columns of each index; the first is the primary key of a changelog. */
  val keys: Seq[Seq[String]] =
    first.getAs[scala.collection.Seq[scala.collection.Seq[String]]]("keys").map(_.toSeq).toSeq

  /** The columns of its rows. */
  def schema: StructType = spark.read.format("streamjoin").load(path).schema

  /** The oldest readable version and the newest; none before the first. */
  def versions: Option[(Long, Long)] = {
    val row = now()
    Option.unless(row.isNullAt(row.fieldIndex("newest_version")))(
      (row.getAs[Long]("oldest_version"), row.getAs[Long]("newest_version"))
    )
  }

  /** The number of rows in the newest version, counting copies. */
  def rows: Long = now().getAs[Long]("rows")

  /** The size of the files that the newest version needs. */
  def bytes: Long = now().getAs[Long]("bytes")

  /**
   * Its readers, the slowest first: `name` (of the query, or null), `id`, `version`,
   * `versions_behind` and `since`, a row for each.
   */
  def readers: Seq[Row] = now().getAs[scala.collection.Seq[Row]]("readers").toSeq

  /**
   * Ends the lease of a reader that will not come back, by its id in [[readers]]. If it does come
   * back, it may be refused with `STREAMJOIN_ARRANGEMENT_RETENTION`.
   */
  def release(reader: String): Unit =
    spark
      .sql(s"SELECT * FROM sj_release_reader(${TextArgument.sql(path)}, ${TextArgument.sql(reader)})")
      .collect(): Unit

  /** Removes the arrangement with all of its files; refused while it has readers. */
  def drop(): Unit = drop(force = false)

  /** The same; if forced, its readers fail from then on. Refused while its query runs. */
  def drop(force: Boolean): Unit =
    spark.sql(s"SELECT * FROM sj_drop_arrangement(${TextArgument.sql(path)}, $force)").collect(): Unit

  /** The rows of the newest version at the time when they are read, as a batch. */
  def toDF(): DataFrame = spark.read.format("streamjoin").load(path)

  /** The rows of a version, as a batch. */
  def toDF(version: Long): DataFrame =
    spark.read.format("streamjoin").option("version", version).load(path)

  /**
   * The changes as a stream, with `_version` (in which a row came or went) and `_diff` (how many
   * copies came, or went where it is negative).
   */
  def changes(): DataFrame = changes(Map.empty[String, String])

  /** The same, with the options `maxVersionsPerTrigger` and `maxRowsPerTrigger`. */
  def changes(options: Map[String, String]): DataFrame =
    spark.readStream.format("streamjoin").options(options).load(path)

  /** The same. */
  def changes(options: JMap[String, String]): DataFrame = changes(options.asScala.toMap)

  /** A table that a stream looks up. */
  def asTable: LookUpTable = new LookUpTable(spark, path)

  override def toString: String =
    s"Arrangement $name at $path, keys ${keys.map(_.mkString("[", ", ", "]")).mkString(", ")}"

  private def now(): Row = Arrangement.state(spark, path)
}

/**
 * How a stream becomes an arrangement. Each batch is a version, shared by all keys. Without [[op]]
 * and [[diff]], rows are added and stay.
 */
final class ArrangementWriter private[streamjoin] (df: DataFrame, nameOrPath: String) {
  private var keys = Seq.empty[Seq[String]]
  private var notSent = Arrangements.NotSent
  private var opColumn, diffColumn, timeColumn, orderColumn, kept = Option.empty[String]

  /** Adds an index, by the columns of its key. The first is the primary key of a changelog. */
  @varargs def key(column: String, more: String*): ArrangementWriter = key((column +: more).asJava)

  /** The same, as a list. */
  def key(columns: JList[String]): ArrangementWriter = set(keys :+= columns.asScala.toSeq)

  /** The column with the operation of a changelog: `insert`, `update` or `delete`. */
  def op(column: String): ArrangementWriter = set { opColumn = Some(column) }

  /** The column with the number of copies that come, or go where it is negative. */
  def diff(column: String): ArrangementWriter = set { diffColumn = Some(column) }

  /** The column that orders the rows of a key over all batches: an older row does not count. */
  def time(column: String): ArrangementWriter = set { timeColumn = Some(column) }

  /**
   * The column that orders rows with the same time, or all if there is no [[time]], such as a
   * position in a log.
   */
  def order(column: String): ArrangementWriter = set { orderColumn = Some(column) }

  /**
   * How long rows are kept: those whose [[time]] is longer ago go with the next batch, as if they
   * were deleted. Another start may say another length.
   */
  def ttl(length: String): ArrangementWriter = set { kept = Some(length) }

  /** The same. */
  def ttl(length: Duration): ArrangementWriter = ttl(Durations.text(length))

  /**
   * The text, or the bytes of it, that stands for a value that was not sent: a row keeps the one
   * that it has. Without this call it is Debezium's, `__debezium_unavailable_value`.
   */
  def unavailable(placeholder: String): ArrangementWriter = set { notSent = Some(placeholder) }

  /** Takes values as they are sent. */
  def asSent: ArrangementWriter = set { notSent = None }

  /** The writer of the query, which is started as any other. */
  def writeStream: DataStreamWriter[Row] =
    toDF().writeStream.format("streamjoin").option("path", nameOrPath)

  private[streamjoin] def toDF(): DataFrame =
    Arrangements.arrange(df, nameOrPath, keys, opColumn, diffColumn, timeColumn, orderColumn, kept, notSent)

  private def set(change: => Unit): ArrangementWriter = {
    change
    this
  }
}

/**
 * A table that a stream looks up: `stream.join(table, ...)`, inner or left outer, by the columns of
 * one of the arrangement's keys. A row meets the table as it is in its batch. The query keeps no
 * row.
 */
final class LookUpTable private[streamjoin] (spark: SparkSession, nameOrPath: String) {
  private var options = Map("streamjoin.table" -> "true")

  /** Looks up the version before the newest one. */
  def previous(): LookUpTable = option("asOf", "previous")

  /** A new query waits until the arrangement has this version. */
  def atLeast(version: Long): LookUpTable = option("atLeast", version.toString)

  /** A new query waits until the maintaining query has come to the end of its sources. */
  def caughtUp(): LookUpTable = option("atLeast", "caught up")

  /**
   * For how long in event time a row that was emitted without a match may get one. Outer joins
   * only.
   */
  def rematch(length: String): LookUpTable = option("rematch", length)

  /** The same. */
  def rematch(length: Duration): LookUpTable = rematch(Durations.text(length))

  /** The right side of the join. */
  def toDF(): DataFrame = spark.read.format("streamjoin").options(options).load(nameOrPath)

  private def option(name: String, value: String): LookUpTable = {
    options += name -> value
    this
  }
}
