package org.apache.spark.sql.streamjoin.watermark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import streamjoin.core.Watermark

/**
 * How old the rows are that operators may emit from their state, for the output watermarks of
 * columns whose rows stay by a value that they carry ([[streamjoin.core.TimeBounds.lowestNeeded]]).
 * In microseconds, by ordinal of an operator and watermark key.
 *
 * The law: no row that an operator has in state once batch N has run is below
 * {{{
 *   D(N) = max(D(N - 1), min(lowest time in state after batch N - 1, W(N - 1)))
 * }}}
 * because it was there before batch N, or came with it and was not late. So no row that is emitted
 * after batch N is below `min(W(N), D(N))`: it comes from state, or arrives later. D never goes
 * back. It is stored with the watermarks of its batch, so a replay has the same one; a restart that
 * lacks it continues with the one before.
 *
 * @param judged
 *   by the watermarks that decide which rows are late, of each input by its own
 * @param carried
 *   by those for eviction, which other inputs advance while one is idle
 */
final private[streamjoin] case class LowestKept(
    judged: Map[(Int, Int), Long] = Map.empty,
    carried: Map[(Int, Int), Long] = Map.empty
) {
  import LowestKept._

  /** After a batch whose state is known. */
  def after(states: Seq[InState]): LowestKept = LowestKept(
    raised(judged, states.map(of => of.key -> math.min(of.lowest, of.judged))),
    raised(carried, states.map(of => of.key -> math.min(of.lowest, of.carried)))
  )

  /** Without some operators, of which nothing is known any longer. */
  def without(ordinals: Int => Boolean): LowestKept = LowestKept(
    judged.filterNot { case ((ordinal, _), _) => ordinals(ordinal) },
    carried.filterNot { case ((ordinal, _), _) => ordinals(ordinal) }
  )
}

private[streamjoin] object LowestKept {
  val none: LowestKept = LowestKept()

  /**
   * The state of an operator after a batch.
   *
   * @param key
   *   ordinal and watermark key
   * @param lowest
   *   in microseconds; `Long.MaxValue` if no row is kept
   * @param judged
   *   the watermark below which rows of the next batch are late
   * @param carried
   *   the watermark with which the batch has evicted rows
   */
  final case class InState(key: (Int, Int), lowest: Long, judged: Long, carried: Long)

  private def raised(known: Map[(Int, Int), Long], now: Seq[((Int, Int), Long)]): Map[(Int, Int), Long] =
    now.foldLeft(known) { case (all, (key, time)) =>
      val highest = all.get(key).fold(time)(math.max(_, time))
      if (highest == Watermark.Undefined) all else all.updated(key, highest)
    }

  /** The times by carried watermarks are stored where they differ. */
  def toJson(entry: LowestKept, root: ObjectNode): Unit = {
    val all = (entry.judged.keySet ++ entry.carried.keySet).toSeq.sorted
    if (all.nonEmpty) {
      val array = root.putArray(Name)
      all.foreach { case key @ (ordinal, column) =>
        val node = array.addObject().put("operator", ordinal).put("column", column)
        val (judged, carried) = (entry.judged.get(key), entry.carried.get(key))
        judged.foreach(node.put("timeMicros", _))
        carried.filterNot(judged.contains).foreach(node.put("carriedMicros", _))
      }
    }
  }

  def fromJson(root: JsonNode): LowestKept = {
    val all = root.path(Name).elements().asScala.toSeq.map { node =>
      def time(name: String) = Option(node.get(name)).map(_.asLong)
      val judged = time("timeMicros")
      ((node.path("operator").asInt, node.path("column").asInt), judged, time("carriedMicros").orElse(judged))
    }
    LowestKept(
      all.collect { case (key, Some(time), _) => key -> time }.toMap,
      all.collect { case (key, _, Some(time)) => key -> time }.toMap
    )
  }

  private val Name = "lowestKept"
}
