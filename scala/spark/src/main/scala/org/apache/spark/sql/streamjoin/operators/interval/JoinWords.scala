package org.apache.spark.sql.streamjoin.operators.interval

import java.time.Instant

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, Origin}

import streamjoin.core.Watermark

/**
 * What a join says of itself, in EXPLAIN and in the progress.
 *
 * @param eviction
 *   the watermarks of the batch by key, in microseconds
 */
final private[interval] class JoinWords(
    join: JoinPlan,
    times: Seq[Attribute],
    names: JoinNames,
    eviction: IndexedSeq[Long]
) {

  /**
   * The column of a key as it is called on its side: by its name, with its alias where several have
   * that name.
   */
  def keyName(key: Int): String = {
    val (side, column) = (join.sides(key), times(key))
    if (join.keys(side).count(times(_).name == column.name) == 1) column.name else names.column(side, column)
  }

  /**
   * In milliseconds, by name; nothing of a column that has no watermark yet.
   *
   * @param newest
   *   the newest time that has come, in microseconds, by origin
   * @param idleSince
   *   in milliseconds, of a column whose input is idle
   */
  def figures(
      newest: Origin => Option[Long],
      idleSince: ColumnWatermark => Option[Long]
  ): Seq[(String, Long)] = {
    val keys = eviction.indices.map(key => key -> s"${join.sides(key).name}.${keyName(key)}")
    val known = keys.filter { case (key, _) => eviction(key) != Watermark.Undefined }
    val received = known.map { case (key, name) => s"watermarkMs.$name" -> eviction(key) }
    val lags = for {
      (key, name) <- known
      newestTime <- join.watermarks(key).newest(newest)
      // That of an idle input is carried by the others, beyond its own rows.
      if newestTime >= eviction(key)
    } yield s"lagMs.$name" -> (newestTime - eviction(key))
    val slowest = known.minByOption { case (key, _) => eviction(key) }.toSeq.map { case (key, name) =>
      s"holdsBackMs.$name" -> (known.map { case (other, _) => eviction(other) }.max - eviction(key))
    }
    val all = received ++ lags ++ (if (known.size == keys.size) slowest.filter(_._2 > 0) else Nil)
    val idle =
      for ((key, name) <- keys; since <- idleSince(join.watermarks(key))) yield s"idleSinceMs.$name" -> since
    all.map { case (name, micros) => name -> microsToMillis(micros) } ++ idle
  }

  def description(
      leftKeys: Seq[Expression],
      rightKeys: Seq[Expression],
      condition: Option[Expression],
      tasks: Int
  ): Seq[String] = {
    val equality = leftKeys.zip(rightKeys).map { case (l, r) => s"${names.text(l)} = ${names.text(r)}" }
    val watermarks = times.zipWithIndex.map { case (column, key) =>
      val value = eviction(key) match {
        case Watermark.Undefined => "none yet"
        case micros => Instant.ofEpochMilli(microsToMillis(micros)).toString
      }
      s"${names.column(join.sides(key), column)}: $value"
    }
    Seq(
      join.joinType.name,
      if (equality.isEmpty) "no equality" else equality.mkString("equality ", " AND ", ""),
      names.bounds(join, times).mkString("bounds ", "; ", ""),
      condition.map(names.text).fold("no other condition")("condition " + _),
      watermarks.mkString("watermarks ", "; ", ""),
      routing(tasks)
    )
  }

  private def routing(tasks: Int): String = join.routing match {
    case Routing.ByKey => s"routing by hash of the equality over $tasks tasks, one state store each"
    case Routing.Spread(side) =>
      s"routing without an equality: ${names.name(side.other)} spread over $tasks tasks, one state store each; " +
        s"${names.name(side)} sent to all of them and kept in the first one's store"
    case Routing.OneTask =>
      "routing of a full outer join without an equality: all rows to one task, with one state store"
  }
}
