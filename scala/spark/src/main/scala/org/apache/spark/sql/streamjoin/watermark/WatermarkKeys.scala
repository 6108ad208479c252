package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.streamjoin.base.SourceNames

/**
 * Identifies an event-time column across runs of a query: by the name that the user gave its source
 * or, without one, by its position. Node ids change with every plan.
 *
 * @param source
 *   name from `readStream.name(...)`, which Spark keeps while
 *   `spark.sql.streaming.queryEvolution.enableSourceEvolution` is on
 */
final private[streamjoin] case class WatermarkColumn(name: String, source: Option[String])

/**
 * The event-time columns of a query, in the order of its analyzed plan.
 *
 * @param idleAfterMs
 *   time without a row after which the input is idle, in milliseconds; none if it never is
 * @param per
 *   column that identifies the partitions of the input, if each has separate bounds
 */
final private[streamjoin] case class WatermarkKeys(
    origins: IndexedSeq[WatermarkId],
    columns: IndexedSeq[WatermarkColumn],
    idleAfterMs: IndexedSeq[Option[Long]],
    per: IndexedSeq[Option[String]]
) {
  def partitioned: IndexedSeq[Boolean] = per.map(_.isDefined)

  /**
   * By key, a name that the column keeps in a changed query: that of its source, or its place among
   * the columns whose sources have no name.
   */
  lazy val lastingNames: IndexedSeq[String] =
    WatermarkId
      .occurrences(columns)
      .zipWithIndex
      .map { case ((column, occurrence), at) =>
        column.source.fold(columns.take(at).count(_.source.isEmpty).toString) { source =>
          s"$source.${column.name}${if (occurrence > 0) s" $occurrence" else ""}"
        }
      }
      .toIndexedSeq
}

private[streamjoin] object WatermarkKeys {

  /**
   * @param plan
   *   plan of the running query, which has the names of the sources; the plans of its batches do
   *   not
   */
  def of(plan: LogicalPlan): WatermarkKeys = {
    val (marks, idleAfterMs) = marksOf(plan, None).unzip
    val per =
      plan.collect { case rows: DropPunctuation => rows.mark.zip(rows.partition.map(_.name)) }.flatten.toMap
    WatermarkKeys(
      WatermarkId.number(marks.map(_.nodeId)).toIndexedSeq,
      marks.map(mark => WatermarkColumn(mark.eventTime.name, sourceOf(mark))).toIndexedSeq,
      idleAfterMs.toIndexedSeq,
      marks.map(mark => per.get(mark.nodeId)).toIndexedSeq
    )
  }

  /** Top down and left to right, each with the idle timeout of its input. */
  private def marksOf(plan: LogicalPlan, idleAfterMs: Option[Long]): Seq[(EventTimeWatermark, Option[Long])] =
    plan match {
      case IdleAfter(timeoutMs, child) => marksOf(child, Some(timeoutMs))
      case mark: EventTimeWatermark => (mark -> idleAfterMs) +: marksOf(mark.child, None)
      case other => other.children.flatMap(marksOf(_, idleAfterMs))
    }

  private def sourceOf(mark: EventTimeWatermark): Option[String] = mark.collectLeaves() match {
    case Seq(source) => SourceNames.of(source)
    case _ => None
  }
}
