package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.{ChangedCore, RandomStory, TraceQuery}

import streamjoin.core.{Side, Trace}

/** How the first batch of a changed query runs. */
sealed private[evolve] trait Attempt
private[evolve] case object Plain extends Attempt
private[evolve] case object Repeated extends Attempt

/** It fails, and the changed query runs it again. */
private[evolve] case object Failed extends Attempt

/** It fails, and the old query continues. */
private[evolve] case object Abandoned extends Attempt

/** A query, and the settings with which it runs. */
final private[evolve] case class Setting(
    trace: Trace,
    delay: Long,
    conf: Map[String, String],
    columns: TraceQuery.Columns
)

/** A random query, its rows, and a random change of it. */
abstract private[evolve] class ChangedStory(seed: Int) {
  import ChangedStory._

  protected val choice = new scala.util.Random(seed * 31L)
  protected def one[A](of: A*): A = of(choice.nextInt(of.size))

  def random: RandomStory
  def core: ChangedCore

  /** The names of the possible changes, each with the query that it leads to. */
  protected def queries: Seq[(String, Trace)]

  /** Whether all types of the join have to keep the same columns. */
  def keepsLabels: Boolean

  /** The batch of the change. */
  val at: Int = 2 + choice.nextInt(3)

  val usesFiles: Boolean = choice.nextInt(3) == 0
  val attempt: Attempt = if (usesFiles) one(Plain, Repeated) else one(Plain, Repeated, Abandoned)

  private val store = one(stores: _*)
  lazy val isFormat1: Boolean = after.conf(format) == "1"
  private val partitions = 1 + choice.nextInt(4)

  lazy val before: Setting =
    Setting(
      random.trace,
      random.delay,
      store._2 + (StreamJoinConf.Partitions.key -> partitions.toString),
      columns(narrow = choice.nextInt(3) == 0)
    )

  private def columns(narrow: Boolean) =
    TraceQuery.Columns(Side.both.filter(_ => choice.nextInt(3) == 0).toSet, narrow)

  private lazy val change: (String, Setting) = {
    val others = Seq(
      "partitions" -> before.copy(conf =
        before.conf + (StreamJoinConf.Partitions.key -> s"${1 + (partitions + choice.nextInt(3)) % 4}")
      ),
      "delay" -> before.copy(delay = choice.between(0, 6))
    ) ++ Option.when(store._1 != "RocksDB, format 2")(
      "state store" -> before.copy(conf = before.conf ++ stores.filterNot(_ == store).head._2)
    )
    val wider = columns(narrow = false)
    val changed = queries.map { case (name, trace) => name -> before.copy(trace = trace) } ++
      Option.when(wider != before.columns)(s"columns to $wider" -> before.copy(columns = wider))
    // A change of the query, with other settings or without, or the settings alone.
    val (name, after) = one(others: _*)
    if (changed.isEmpty || choice.nextInt(4) == 0) name -> after
    else {
      val (what, query) = one(changed: _*)
      if (choice.nextInt(3) > 0) what -> query
      else s"$what and $name" -> after.copy(trace = query.trace, columns = query.columns)
    }
  }

  lazy val after: Setting = change._2

  override def toString: String =
    s"$random: ${before.columns}, ${change._1} in batch $at, ${store._1}, ${if (usesFiles) "files"
      else "foreachBatch"}, $attempt"
}

private object ChangedStory {
  private val provider = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  private val format = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key
  private val rocksDb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  private val stores: Seq[(String, Map[String, String])] = Seq(
    "default store" -> Map(provider -> classOf[HDFSBackedStateStoreProvider].getName, format -> "1"),
    "RocksDB" -> Map(provider -> rocksDb, format -> "1"),
    "RocksDB, format 2" -> Map(provider -> rocksDb, format -> "2")
  )
}
