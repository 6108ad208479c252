package org.apache.spark.sql.streamjoin.inspect

import org.apache.spark.sql.execution.streaming.ProcessingTimeTrigger
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.exec.QueriesByName

/** How often a query starts a batch. */
private[inspect] object QueryTrigger {

  /** In milliseconds; none if its batches start by something other than the clock. */
  def intervalMs(query: StreamingQuery): Option[Long] = QueriesByName.execution(query) match {
    case execution: MicroBatchExecution =>
      execution.trigger match {
        case ProcessingTimeTrigger(millis) => Some(millis)
        case _ => None
      }
    case _ => None
  }
}
