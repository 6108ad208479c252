package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.catalyst.plans.logical.{
  Deduplicate,
  DeduplicateWithinWatermark,
  GlobalLimit,
  LogicalPlan
}
import org.apache.spark.sql.streamjoin.analysis.WatermarkLineage
import org.apache.spark.sql.streamjoin.checkpoint.OperatorPlace
import org.apache.spark.sql.streamjoin.checkpoint.OperatorPlace.Sparks
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkId, WatermarkKeys}

/** Finds the places of our operators in an optimized query. */
private[streamjoin] object PlacesInQuery {

  /** By ordinal. */
  def of(optimized: LogicalPlan, keys: WatermarkKeys): Map[Int, OperatorPlace] = {
    val found = nodes(optimized, Sparks.None).sortBy(_._1.ordinal)
    val marks = found.foldLeft(Map.empty[Int, Set[WatermarkId]]) { case (known, (node, _)) =>
      known.updated(node.ordinal, node.watermarks.flatMap(marksOf(_, known)).toSet)
    }
    val names = keys.origins.zip(keys.lastingNames).toMap
    found.map { case (node, above) =>
      val (through, direct) = node.children.flatMap(nearest).partition(_._2)
      node.ordinal -> OperatorPlace(
        marks(node.ordinal).flatMap(names.get),
        direct.map(_._1).toSet,
        through.map(_._1).toSet,
        above
      )
    }.toMap
  }

  private def nodes(plan: LogicalPlan, above: Sparks): Seq[(StatefulNode, Sparks)] = plan match {
    case node: StatefulNode => (node -> above) +: node.children.flatMap(nodes(_, Sparks.None))
    case other =>
      val here = if (isSparks(other)) Sparks.Alone else above
      val streams = other.children.filter(_.isStreaming)
      other.children.flatMap(nodes(_, if (streams.size > 1 && here == Sparks.Alone) Sparks.Shared else here))
  }

  /** Our nearest operators, each with whether a stateful one of Spark's is above it. */
  private def nearest(plan: LogicalPlan): Seq[(Int, Boolean)] = plan match {
    case node: StatefulNode => Seq(node.ordinal -> false)
    case other =>
      other.children.flatMap(nearest).map { case (ordinal, through) =>
        ordinal -> (through || isSparks(other))
      }
  }

  /** Whether Spark keeps state for an operator. */
  private def isSparks(plan: LogicalPlan): Boolean = plan.isStreaming && (plan match {
    case _: Deduplicate | _: DeduplicateWithinWatermark | _: GlobalLimit => true
    case other => WatermarkLineage.isStateful(other)
  })

  /** @param known by ordinal, of the operators below */
  private def marksOf(column: ColumnWatermark, known: Map[Int, Set[WatermarkId]]): Set[WatermarkId] =
    column match {
      case ColumnWatermark.Marked(origin) => Set(origin)
      case ColumnWatermark.Shifted(_, shifted, _) => marksOf(shifted, known)
      case ColumnWatermark.ForSpark(output, _) => marksOf(output, known)
      case ColumnWatermark.Smallest(branches) => branches.flatMap(marksOf(_, known)).toSet
      case ColumnWatermark.Propagated(from) => from.flatMap(marksOf(_, known)).toSet
      case output: ColumnWatermark.Output => known(output.ordinal)
      case ColumnWatermark.SparkWide | ColumnWatermark.Unknown => Set.empty
    }
}
