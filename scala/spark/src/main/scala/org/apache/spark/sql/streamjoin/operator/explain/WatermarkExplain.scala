package org.apache.spark.sql.streamjoin.operator.explain

import java.time.Instant

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkId}

import streamjoin.core.{Side, Watermark}

/**
 * The watermarks of a join for EXPLAIN and the progress. All parameters but `names` are by
 * watermark key.
 *
 * @param eviction
 *   watermarks of the batch, in microseconds
 */
final private[streamjoin] class WatermarkExplain(
    sides: IndexedSeq[Side],
    watermarks: IndexedSeq[ColumnWatermark],
    times: Seq[Attribute],
    names: JoinNames,
    eviction: IndexedSeq[Long]
) {

  private val columns = names.distinctColumns(sides.zip(times))

  /** For EXPLAIN. */
  def inWords: String = sides.indices
    .map { key =>
      val value = eviction(key) match {
        case Watermark.Undefined => "none yet"
        case micros => Instant.ofEpochMilli(microsToMillis(micros)).toString
      }
      s"${columns(key)}: $value"
    }
    .mkString("watermarks ", "; ", "")

  /** The name of a key's column, qualified only if several columns of its side have that name. */
  private def keyName(key: Int): String = {
    val (side, column) = (sides(key), times(key))
    if (sides.indices.filter(sides(_) == side).count(times(_).name == column.name) == 1) column.name
    else columns(key)
  }

  /**
   * Metrics in milliseconds, by name. Until a column has a watermark, only its idleness is
   * reported.
   *
   * @param newest
   *   newest time seen, in microseconds, by origin
   * @param idleSince
   *   since when the input of a column is idle, in milliseconds
   */
  def figures(
      newest: WatermarkId => Option[Long],
      idleSince: ColumnWatermark => Option[Long]
  ): Seq[(String, Long)] = {
    val keys = eviction.indices.map(key => key -> s"${sides(key).name}.${keyName(key)}")
    val known = keys.filter { case (key, _) => eviction(key) != Watermark.Undefined }
    val received = known.map { case (key, name) => s"watermarkMs.$name" -> eviction(key) }
    val lags = for {
      (key, name) <- known
      newestTime <- watermarks(key).newest(newest)
      // Other inputs advance the watermark of an idle one beyond its own rows.
      if newestTime >= eviction(key)
    } yield s"lagMs.$name" -> (newestTime - eviction(key))
    val slowest = known.minByOption { case (key, _) => eviction(key) }.toSeq.map { case (key, name) =>
      s"holdsBackMs.$name" -> (known.map { case (other, _) => eviction(other) }.max - eviction(key))
    }
    val all = received ++ lags ++ (if (known.size == keys.size) slowest.filter(_._2 > 0) else Nil)
    val idle =
      for ((key, name) <- keys; since <- idleSince(watermarks(key))) yield s"idleSinceMs.$name" -> since
    all.map { case (name, micros) => name -> microsToMillis(micros) } ++ idle
  }
}
