package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.{DataFrame, Row}

/** A DataFrame that is made of another one by a change of its analyzed plan. */
private[streamjoin] object RewrittenFrame {
  def of(frame: DataFrame)(change: LogicalPlan => LogicalPlan): DataFrame = {
    val classic = frame.asInstanceOf[ClassicDataset[Row]]
    // The settings are those of the frame's session, whichever is active.
    classic.sparkSession.withActive {
      ClassicDataset.ofRows(classic.sparkSession, change(classic.queryExecution.analyzed))
    }
  }

  /**
   * The same for a plain join, `left.join(right, ...)`.
   *
   * @param call
   *   what the user wrote, for errors
   * @param change
   *   takes the resolved join and, for a join on names, the projection that Spark puts above it
   */
  def ofJoin(call: String, joined: DataFrame)(
      change: (Join, Option[Project]) => LogicalPlan
  ): DataFrame = of(joined) {
    case names @ Project(_, join: Join) => change(join, Some(names))
    case join: Join => change(join, None)
    case _ =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NOT_A_STREAM",
        "call" -> call,
        "wanted" -> "two streams",
        "found" -> "an input is a table",
        "advice" -> "Join a stream with a table by a plain join."
      )
  }
}
