package org.apache.spark.sql.streamjoin.monitor

import org.apache.spark.scheduler.SparkListenerEvent

/**
 * The figures of a batch for Spark's event log. Spark's `JsonProtocol` writes it by the names of
 * the class and the field, and logs that exist have them: neither may change.
 *
 * @param figures
 *   a line of JSON, of [[FiguresJson]]
 */
final private[streamjoin] case class SparkListenerStreamJoinFigures(figures: String)
    extends SparkListenerEvent
