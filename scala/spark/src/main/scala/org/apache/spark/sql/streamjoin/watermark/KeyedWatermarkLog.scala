package org.apache.spark.sql.streamjoin.watermark

import java.util.concurrent.{CompletableFuture, ConcurrentHashMap}

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.{JsonLog, StreamJoinErrors}
import org.apache.spark.util.ThreadUtils

/**
 * The watermarks of a batch as the checkpoint stores them, in milliseconds; `None` until there is
 * one.
 *
 * @param ordered
 *   as in [[QueryWatermarks]]
 * @param inputs
 *   by position in `columns`: state of inputs beyond the watermark
 * @param heard
 *   by position in `columns` and, for a partition, its name: time of the last row
 * @param waiting
 *   as in [[QueryWatermarks]]
 * @param received
 *   by ordinal of an operator: the watermarks that it receives, by watermark key, in microseconds.
 *   They are derived from the others and stored for tools that inspect the state.
 * @param lowestKept
 *   as in [[QueryWatermarks]]
 * @param continuity
 *   as in [[QueryWatermarks]]
 * @param newest
 *   by position in `columns`: the newest event time so far; none if there was no row, or if an
 *   older version has written the entry
 */
final private[streamjoin] case class KeyedWatermarks(
    columns: IndexedSeq[WatermarkColumn],
    millis: IndexedSeq[Option[Long]],
    ordered: Map[Int, Long] = Map.empty,
    inputs: Map[Int, InputState] = Map.empty,
    heard: Map[(Int, Option[String]), Long] = Map.empty,
    waiting: Map[Int, Long] = Map.empty,
    received: Map[Int, Seq[Option[Long]]] = Map.empty,
    lowestKept: LowestKept = LowestKept.none,
    continuity: Continuity = Continuity.none,
    newest: IndexedSeq[Option[Long]] = IndexedSeq.empty
) {

  /**
   * Maps the entry to the columns of a query. A column of a named source gets the watermark stored
   * under the same names, wherever it is in the query now; a new one has none yet. The other
   * columns are matched by their relative order.
   *
   * @return
   *   none if those other columns differ
   */
  def of(now: IndexedSeq[WatermarkColumn]): Option[KeyedWatermarks] = {
    def unnamed(columns: Seq[WatermarkColumn]) = columns.filter(_.source.isEmpty)
    val known = WatermarkId.occurrences(columns).zipWithIndex.toMap
    val before = WatermarkId.occurrences(now).map(known.get).toIndexedSeq
    Option.when(unnamed(columns) == unnamed(now))(
      KeyedWatermarks(
        now,
        before.map(_.flatMap(millis)),
        ordered,
        (for ((Some(at), key) <- before.zipWithIndex; input <- inputs.get(at)) yield key -> input).toMap,
        (for ((Some(at), key) <- before.zipWithIndex; ((`at`, part), time) <- heard)
          yield (key, part) -> time).toMap,
        waiting,
        received,
        lowestKept,
        continuity,
        before.map(_.flatMap(newest.lift(_).flatten))
      )
    )
  }
}

/**
 * `<checkpoint>/keyed-watermarks/<batch>`: the watermarks that a batch sees, written before it
 * runs, so that a replay sees the same ones.
 */
final private[streamjoin] class KeyedWatermarkLog(session: SparkSession, checkpoint: Path)
    extends JsonLog[KeyedWatermarks](session, checkpoint, KeyedWatermarkLog.Directory) {

  /** Version 2 has floors and gaps of a changed query, which an older release would ignore. */
  override protected def version: Int = 2

  override protected def versionOf(entry: KeyedWatermarks): Int = if (entry.continuity.isOfVersion2) 2 else 1

  override protected def readable: Set[Int] = Set(1, 2)

  override protected def toJson(entry: KeyedWatermarks, root: ObjectNode): Unit = {
    val keys = root.putArray("keys")
    entry.columns.indices.foreach { at =>
      val column = entry.columns(at)
      val key = keys.addObject().put("column", column.name)
      column.source.foreach(key.put("source", _))
      entry.millis(at).foreach(value => key.put("watermarkMs", value))
      entry.newest.lift(at).flatten.foreach(value => key.put("newestMs", value))
      entry.inputs.get(at).foreach { input =>
        input.since.foreach(value => key.put("idleSinceMs", value))
        input.carried.foreach(value => key.put("carriedMs", value))
        if (input.partitions.nonEmpty) {
          input.per.foreach(key.put("per", _))
          val partitions = key.putObject("partitions")
          input.partitions.toSeq.sortBy(_._1).foreach { case (name, partition) =>
            val state = partitions.putObject(name).put("watermarkMs", partition.millis)
            partition.since.foreach(value => state.put("idleSinceMs", value))
            entry.heard.get((at, Some(name))).foreach(time => state.put("heardMs", time))
          }
        }
      }
      entry.heard.get((at, None)).foreach(time => key.put("heardMs", time))
    }
    putTimes(root, "orders", entry.ordered)
    putTimes(root, "waiting", entry.waiting)
    if (entry.received.nonEmpty) {
      val operators = root.putArray("received")
      entry.received.toSeq.sortBy(_._1).foreach { case (ordinal, micros) =>
        val times = operators.addObject().put("operator", ordinal).putArray("watermarkMicros")
        micros.foreach(_.fold(times.addNull())(times.add(_)))
      }
    }
    LowestKept.toJson(entry.lowestKept, root)
    Continuity.toJson(entry.continuity, root)
  }

  /** Writes times by operator, in microseconds. */
  private def putTimes(root: ObjectNode, name: String, times: Map[Int, Long]): Unit =
    if (times.nonEmpty) {
      val array = root.putArray(name)
      times.toSeq.sorted.foreach { case (ordinal, time) =>
        array.addObject().put("operator", ordinal).put("timeMicros", time)
      }
    }

  private def times(root: JsonNode, name: String): Map[Int, Long] = root
    .path(name)
    .elements()
    .asScala
    .map(entry => number(entry.path("operator")).toInt -> number(entry.path("timeMicros")))
    .toMap

  override protected def fromJson(root: JsonNode): KeyedWatermarks = {
    val keys = root.path("keys").elements().asScala.toIndexedSeq
    val inputs = keys.map { key =>
      val partitions = key.path("partitions").properties().asScala.map { entry =>
        entry.getKey -> PartitionState(
          number(entry.getValue.path("watermarkMs")),
          optional(entry.getValue, "idleSinceMs")
        )
      }
      InputState(
        optional(key, "idleSinceMs"),
        optional(key, "carriedMs"),
        partitions.toMap,
        Option(key.get("per")).map(_.asText)
      )
    }
    val heard = keys.zipWithIndex.flatMap { case (key, at) =>
      val partitions = key.path("partitions").properties().asScala.toSeq.map { entry =>
        Option(entry.getKey) -> entry.getValue
      }
      for ((name, of) <- (None -> key) +: partitions; time <- optional(of, "heardMs"))
        yield (at, name) -> time
    }
    KeyedWatermarks(
      keys.map(key => WatermarkColumn(key.path("column").asText, Option(key.get("source")).map(_.asText))),
      keys.map(optional(_, "watermarkMs")),
      times(root, "orders"),
      inputs.zipWithIndex.collect { case (input, at) if !input.isEmpty => at -> input }.toMap,
      heard.toMap,
      times(root, "waiting"),
      root
        .path("received")
        .elements()
        .asScala
        .map { operator =>
          val micros = operator.path("watermarkMicros").elements().asScala
          number(operator.path("operator")).toInt -> micros
            .map(of => Option.unless(of.isNull)(number(of)))
            .toSeq
        }
        .toMap,
      LowestKept.fromJson(root),
      Continuity.fromJson(root),
      keys.map(optional(_, "newestMs"))
    )
  }

  private def optional(key: JsonNode, name: String): Option[Long] =
    Option(key.get(name)).filterNot(_.isNull).map(number)

  private def number(value: JsonNode): Long =
    if (value.canConvertToLong) value.asLong else throw unreadable(s"$value is not a watermark")

  /**
   * Writes the watermarks of a batch while Spark writes its own logs, because a checkpoint file
   * takes as long as everything else in a small batch. The batch must not run before the returned
   * future completes, and fails if the future failed.
   */
  def addInBackground(batch: Long, entry: KeyedWatermarks): CompletableFuture[Void] = {
    val written = CompletableFuture.runAsync(() => add(batch, entry): Unit, KeyedWatermarkLog.writers)
    val folder = metadataPath.toString
    KeyedWatermarkLog.unfinished.put(folder, written)
    written.whenComplete((_, _) => KeyedWatermarkLog.unfinished.remove(folder, written): Unit)
  }

  /** Records what a changed query begins with in the entry of its first batch. */
  def continue(batch: Long, begun: QueryWatermarks): Unit = written(batch).foreach { entry =>
    val changed = entry.copy(continuity = begun.continuity, lowestKept = begun.lowestKept)
    if (changed != entry) replace(batch, changed)
  }

  /** The watermarks of a batch as written. */
  def written(batch: Long): Option[KeyedWatermarks] = {
    awaitUnfinished()
    get(batch)
  }

  /** The watermarks of a batch, checked against the event-time columns of the query. */
  def read(batch: Long, keys: WatermarkKeys): Option[KeyedWatermarks] =
    written(batch).map(checked(_, keys))

  override def purgeAfter(batch: Long): Unit = {
    awaitUnfinished()
    super.purgeAfter(batch)
  }

  /**
   * An earlier run of the query in this process may still be writing. Its file must exist before
   * anything is read.
   */
  private def awaitUnfinished(): Unit = {
    val left = KeyedWatermarkLog.unfinished.get(metadataPath.toString)
    if (left != null) Try(left.join()): Unit
  }

  /**
   * The watermarks of a batch that has run. Without them it is unknown which rows were late for it.
   */
  def readOfLast(batch: Long, keys: WatermarkKeys): KeyedWatermarks = read(batch, keys).getOrElse(
    throw JsonLog.unreadable(batchIdToPath(batch), s"it is missing, and batch $batch has used it")
  )

  private def checked(entry: KeyedWatermarks, keys: WatermarkKeys): KeyedWatermarks =
    entry
      .of(keys.columns)
      .getOrElse(
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_WATERMARK_KEYS_CHANGED",
          "checkpoint" -> metadataPath.getParent.toString,
          "was" -> entry.columns.map(_.name).mkString(", "),
          "is" -> keys.columns.map(_.name).mkString(", ")
        )
      )
}

private[streamjoin] object KeyedWatermarkLog {
  val Directory = "keyed-watermarks"

  private lazy val writers = ThreadUtils.newDaemonCachedThreadPool("streamjoin-watermark-log")

  /** The last write of each log that may be unfinished, by folder. */
  private val unfinished = new ConcurrentHashMap[String, CompletableFuture[Void]]
}
