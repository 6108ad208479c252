package org.apache.spark.sql.streamjoin.monitor

import org.apache.spark.scheduler.SparkListenerEvent

/**
 * The figures of a batch for Spark's event log. Spark's `JsonProtocol` writes the names of the
 * class and the field, and existing logs contain them, so neither may change.
 *
 * @param figures
 *   a line of JSON, from [[FiguresJson]]
 */
final private[streamjoin] case class SparkListenerStreamJoinFigures(figures: String)
    extends SparkListenerEvent
