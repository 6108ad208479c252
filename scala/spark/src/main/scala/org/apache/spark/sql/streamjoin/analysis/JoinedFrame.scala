package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.{DataFrame, Row}

/** A DataFrame that is a plain join, `left.join(right, ...)`, from which another join is made. */
private[streamjoin] object JoinedFrame {

  /**
   * Replaces the join.
   *
   * @param change
   *   takes the resolved join and, for a join on names, the projection that Spark puts above it
   */
  def changed(joined: DataFrame)(change: (Join, Option[Project]) => LogicalPlan): DataFrame =
    rewritten(joined) {
      case names @ Project(_, join: Join) => change(join, Some(names))
      case join: Join => change(join, None)
      case other => throw new IllegalArgumentException(s"no join: $other")
    }

  def rewritten(frame: DataFrame)(change: LogicalPlan => LogicalPlan): DataFrame = {
    val classic = frame.asInstanceOf[ClassicDataset[Row]]
    ClassicDataset.ofRows(classic.sparkSession, change(classic.queryExecution.analyzed))
  }
}
