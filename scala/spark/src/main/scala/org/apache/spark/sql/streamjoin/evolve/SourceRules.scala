package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.base.SourceNames
import org.apache.spark.sql.streamjoin.checkpoint.CheckpointSources

/**
 * Whether Spark finds the sources of a query in the checkpoint: without names, by their positions,
 * so their number must not change.
 */
private[evolve] object SourceRules {

  /** @param query in which a stream that is read twice occurs twice, as in Spark */
  def change(before: CheckpointSources, query: LogicalPlan): Option[Change] = {
    val sources = query.collectLeaves().filter(_.isStreaming)
    val areNamed = before.names.isDefined && sources.forall(SourceNames.of(_).isDefined)
    Option.when(!areNamed && sources.size != before.number)(
      Change("number_of_sources", before.number.toString, sources.size.toString, Effect.Rejected(Advice))
    )
  }

  private val Advice =
    "Spark finds the sources of a checkpoint by their positions, unless all of them have names from the first batch on " +
      "(readStream.name, with spark.sql.streaming.queryEvolution.enableSourceEvolution=true and " +
      "spark.sql.streaming.offsetLog.formatVersion=2): use the sources that the query has, or start the new query with a " +
      "new checkpoint location."
}
