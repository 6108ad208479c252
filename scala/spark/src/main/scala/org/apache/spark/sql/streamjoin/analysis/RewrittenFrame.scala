package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
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
}
