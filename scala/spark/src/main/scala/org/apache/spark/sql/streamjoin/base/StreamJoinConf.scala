package org.apache.spark.sql.streamjoin.base

import java.util.Locale
import java.util.concurrent.TimeUnit

import org.apache.spark.internal.config.{ConfigBuilder, ConfigEntry, OptionalConfigEntry}
import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf

/**
 * The settings under `spark.streamjoin.*`; `docs/reference.md` lists them, and a test compares the
 * two.
 */
private[streamjoin] object StreamJoinConf {
  private def conf(name: String, doc: String): ConfigBuilder =
    SQLConf.buildConf(name).doc(doc).version("0.1.0")

  /** A setting with a few values, the default first, in any case. */
  private def choice(name: String, doc: String, values: String*): ConfigEntry[String] =
    conf(name, doc).stringConf
      .transform(_.toLowerCase(Locale.ROOT))
      .checkValues(values.toSet)
      .createWithDefault(values.head)

  val Enabled: ConfigEntry[Boolean] = conf(
    "spark.streamjoin.enabled",
    "Runs joins of two streams on streamjoin. If false, Spark runs all of them."
  ).booleanConf.createWithDefault(true)

  val Reject = "reject"
  val Spark = "spark"

  val Unbounded: ConfigEntry[String] = SQLConf
    .buildConf("spark.streamjoin.unbounded")
    .doc(
      "What to do with a join that streamjoin cannot run: raise an error, or let Spark's own operator run it."
    )
    .version("0.1.0")
    .stringConf
    .checkValues(Set(Reject, "refuse", Spark)) // Up to 0.1.0, `reject` was named `refuse`.
    .createWithDefault(Reject)

  val Exact = "exact"
  val Allow = "allow"

  val Evolve: ConfigEntry[String] = choice(
    "spark.streamjoin.evolve",
    "Which changes of a query a restart on its checkpoint accepts: none, those after which every row is exact, or " +
      "also those after which results become complete only later.",
    Reject,
    Exact,
    Allow
  )

  val MaxLifetime: ConfigEntry[Long] = conf(
    "spark.streamjoin.maxLifetime",
    "For a row that carries the time at which it leaves an interval join: the longest distance of that time from " +
      "the row's event time."
  ).timeConf(TimeUnit.MILLISECONDS).checkValue(_ > 0, "must be positive").createWithDefaultString("30d")

  val Fail = "fail"
  val Cut = "cut"
  val Keep = "keep"

  val BeyondMaxLifetime: ConfigEntry[String] = choice(
    "spark.streamjoin.beyondMaxLifetime",
    "What to do with a row that would stay longer than maxLifetime: fail the query, cut its time, which becomes a " +
      "part of the join condition, or keep it as long as it says.",
    Fail,
    Cut,
    Keep
  )

  val WatermarkBeforeFilter: ConfigEntry[Boolean] = conf(
    "spark.streamjoin.watermarkBeforeFilter",
    "Computes a watermark from the rows that reach withWatermark, before later filters. If false, it is computed " +
      "as in Spark, which pushes filters on other columns below it."
  ).booleanConf.createWithDefault(false)

  val Partitions: OptionalConfigEntry[Int] = conf(
    "spark.streamjoin.partitions",
    "The number of tasks and state stores of each join, and of partitions of an arrangement. If it changes, a restart " +
      "rewrites the state of the joins, and the arrangement that the query maintains has the new number from its " +
      "next version on; readers continue. If unset, a checkpoint and an arrangement keep their number, and new ones " +
      "have that of spark.sql.shuffle.partitions."
  ).intConf.checkValue(_ > 0, "must be positive").createOptional

  val MaxAccumulatedRecords: ConfigEntry[Long] = conf(
    "spark.streamjoin.maxAccumulatedRecords",
    "If the buffers of a task reach this number of rows, both sides together, the query fails before it commits."
  ).longConf.checkValue(_ > 0, "must be positive").createWithDefault(Long.MaxValue)

  val IndexMemory: ConfigEntry[Long] = conf(
    "spark.streamjoin.indexMemory",
    "The maximum memory of a task's index of its rows. Further rows stay only in the state store, and are read back " +
      "when a probe needs them."
  ).bytesConf(ByteUnit.BYTE).checkValue(_ > 0, "must be positive").createWithDefaultString("512m")

  val ExecutorIndexMemory: OptionalConfigEntry[Long] = conf(
    "spark.streamjoin.executorIndexMemory",
    "The maximum memory of all indexes of an executor together, over all tasks and queries. While it is exceeded, an " +
      "index with more than its fair share drops rows, which stay in the state store. If unset, 40 % of the heap."
  ).bytesConf(ByteUnit.BYTE).checkValue(_ > 0, "must be positive").createOptional

  val BroadcastMemory: ConfigEntry[Long] = conf(
    "spark.streamjoin.broadcastMemory",
    "For a join without an equality: the maximum memory, in each task, of the rows of the side that is sent to all " +
      "tasks. If a task needs more, the query fails before it commits."
  ).bytesConf(ByteUnit.BYTE).checkValue(_ > 0, "must be positive").createWithDefaultString("512m")

  val Count = "count"

  val LateRows: ConfigEntry[String] = conf(
    "spark.streamjoin.lateRows",
    "What to do with late rows: count them, or also keep them in the checkpoint for sj.late_rows."
  ).stringConf.checkValues(Set(Count, Keep)).createWithDefault(Count)

  val LateRowsMaxAge: ConfigEntry[Long] = conf(
    "spark.streamjoin.lateRows.maxAge",
    "How long late rows are kept."
  ).timeConf(TimeUnit.MILLISECONDS).checkValue(_ > 0, "must be positive").createWithDefaultString("7d")

  val LateRowsMaxBytes: ConfigEntry[Long] = conf(
    "spark.streamjoin.lateRows.maxBytes",
    "How many bytes of late rows are kept; beyond this size, the oldest rows are removed."
  ).bytesConf(ByteUnit.BYTE).checkValue(_ > 0, "must be positive").createWithDefaultString("1g")

  val TemporalDeletedKeysMaxAge: ConfigEntry[Long] = conf(
    "spark.streamjoin.temporal.deletedKeysMaxAge",
    "How long, in event time, a temporal join remembers that a key was deleted."
  ).timeConf(TimeUnit.MILLISECONDS).checkValue(_ >= 0, "must not be negative").createWithDefaultString("7d")

  val Arrangements: OptionalConfigEntry[String] = conf(
    "spark.streamjoin.arrangements",
    "The folder in which arrangements are found by their names."
  ).stringConf.createOptional

  val ArrangementVersions: ConfigEntry[Long] = conf(
    "spark.streamjoin.arrangements.minVersionsToRetain",
    "The minimum number of versions of an arrangement that every reader can read."
  ).longConf.checkValue(_ > 0, "must be positive").createWithDefault(100L)

  val ArrangementLeaseAge: ConfigEntry[Long] = conf(
    "spark.streamjoin.arrangements.leaseAge",
    "How long the changes that an absent reader has not seen are kept."
  ).timeConf(TimeUnit.MILLISECONDS).checkValue(_ > 0, "must be positive").createWithDefaultString("7d")

  val Required = "required"
  val Optional = "optional"

  val ArrangementLease: ConfigEntry[String] = choice(
    "spark.streamjoin.arrangements.lease",
    "Whether a reader without permission to write to the folder of an arrangement fails, or reads without a lease.",
    Required,
    Optional
  )

  val ArrangementDeletedKeysMaxAge: ConfigEntry[Long] = conf(
    "spark.streamjoin.arrangements.deletedKeysMaxAge",
    "How long an arrangement of a changelog with a time remembers when a key was deleted."
  ).timeConf(TimeUnit.MILLISECONDS).checkValue(_ > 0, "must be positive").createWithDefaultString("7d")

  val ArrangementIdleIndexAge: OptionalConfigEntry[Long] = conf(
    "spark.streamjoin.arrangements.idleIndexAge",
    "How long an index of an arrangement stays in the memory of an executor that does not use it. If unset, it " +
      "stays as long as there is enough memory."
  ).timeConf(TimeUnit.MILLISECONDS).checkValue(_ > 0, "must be positive").createOptional

  val ObserveRows: ConfigEntry[Boolean] = conf(
    "spark.streamjoin.observeRows",
    "Whether joins measure how late their rows are, how far apart matches are, and which keys are hot."
  ).booleanConf.createWithDefault(true)

  val History: OptionalConfigEntry[String] = conf(
    "spark.streamjoin.history",
    "A folder for the figures of each batch, for sj.report and sj.watch."
  ).stringConf.createOptional

  val HistoryMaxBatches: ConfigEntry[Int] = conf(
    "spark.streamjoin.history.maxBatches",
    "The minimum number of batches of a query that the history keeps."
  ).intConf.checkValue(_ > 0, "must be positive").createWithDefault(10000)

  val HistoryMaxAge: OptionalConfigEntry[Long] = conf(
    "spark.streamjoin.history.maxAge",
    "How long the history keeps the figures of a batch."
  ).timeConf(TimeUnit.MILLISECONDS).checkValue(_ > 0, "must be positive").createOptional

  val UiEnabled: ConfigEntry[Boolean] = conf(
    "spark.streamjoin.ui.enabled",
    "Shows the figures of each batch on Spark's web page, and writes them to its event log."
  ).booleanConf.createWithDefault(true)

  val UiShowKeys: ConfigEntry[Boolean] = conf(
    "spark.streamjoin.ui.showKeys",
    "Whether the figures, wherever they are shown or stored, contain the values of the keys with the most rows."
  ).booleanConf.createWithDefault(false)

  val ShareQueries: OptionalConfigEntry[Boolean] = SQLConf
    .buildStaticConf("spark.streamjoin.shareQueries")
    .doc(
      "Whether a session finds the queries of all sessions, its own first, or only its own. The default is true in a " +
        "classic application, and false if the driver serves Spark Connect. A session cannot set it."
    )
    .version("0.1.0")
    .booleanConf
    .createOptional

  val all: Seq[ConfigEntry[_]] = Seq(
    Enabled,
    Unbounded,
    Evolve,
    MaxLifetime,
    BeyondMaxLifetime,
    WatermarkBeforeFilter,
    Partitions,
    MaxAccumulatedRecords,
    IndexMemory,
    ExecutorIndexMemory,
    BroadcastMemory,
    LateRows,
    LateRowsMaxAge,
    LateRowsMaxBytes,
    TemporalDeletedKeysMaxAge,
    Arrangements,
    ArrangementVersions,
    ArrangementLeaseAge,
    ArrangementLease,
    ArrangementDeletedKeysMaxAge,
    ArrangementIdleIndexAge,
    ObserveRows,
    History,
    HistoryMaxBatches,
    HistoryMaxAge,
    UiEnabled,
    UiShowKeys,
    ShareQueries
  )

  /** Settings that affect all sessions of a server: only the server can set them. */
  private val ofServer: Seq[ConfigEntry[_]] = Seq(ExecutorIndexMemory, ArrangementIdleIndexAge)

  /** Rejects settings that would be ignored silently: unknown ones, and those of the server. */
  def checkNames(): Unit = {
    ofServer.find(SharedServer.isOverruled(_, SQLConf.get)).foreach { entry =>
      throw StreamJoinErrors.analysis("STREAMJOIN_SERVER_SETTING", "setting" -> entry.key)
    }
    val names = all.map(_.key)
    SQLConf.get.getAllConfs.keys
      .filter(_.toLowerCase(Locale.ROOT).startsWith("spark.streamjoin."))
      .find(!names.contains(_))
      .foreach { unknown =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UNKNOWN_SETTING",
          "setting" -> unknown,
          "settings" -> names.mkString(", ")
        )
      }
  }

  /**
   * The number of partitions of a new operator or arrangement.
   *
   * @param ofSpark
   *   the number for Spark's own operators
   */
  def partitions(ofSpark: Int = SQLConf.get.numShufflePartitions): Int = setPartitions.getOrElse(ofSpark)

  /** The number of partitions, if it is set. */
  def setPartitions: Option[Int] = SQLConf.get.getConf(Partitions)

  def enabled: Boolean = SQLConf.get.getConf(Enabled)
  def handsOver: Boolean = SQLConf.get.getConf(Unbounded) == Spark
  def observesRows: Boolean = SQLConf.get.getConf(ObserveRows)
  def keepsLateRows: Boolean = SQLConf.get.getConf(LateRows) == Keep
}
