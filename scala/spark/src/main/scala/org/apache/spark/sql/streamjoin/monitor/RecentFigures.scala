package org.apache.spark.sql.streamjoin.monitor

import org.apache.spark.sql.streamjoin.base.TableFunction
import org.apache.spark.sql.streamjoin.monitor.page.RecentBatches
import org.apache.spark.sql.types.{StringType, StructType}

/**
 * The figures of the last batches of this driver's queries, for who looks at a query that runs or
 * has just stopped.
 */
private[streamjoin] object RecentFigures {

  val Function: TableFunction =
    TableFunction("sj_figures", "SELECT * FROM sj_figures('the id or the name of a query')")
  val Schema: StructType = new StructType().add("figures", StringType, nullable = false)

  /** For `sj_figures`. */
  val all: RecentBatches = new RecentBatches

  /** For Spark's web page: of queries that it may show, and as far as it may. */
  val shown: RecentBatches = new RecentBatches(keepsSeries = true)
}
