package org.apache.spark.sql.streamjoin.arrangement.maintain

import org.apache.spark.sql.streamjoin.changes.Changelog
import org.apache.spark.sql.types.StructType

/**
 * How the changes of a changelog are to be taken.
 *
 * @param isEnvelope
 *   they come from Debezium's envelope: a null in the primary key is no key, and the row before an
 *   update comes only where its key is left
 * @param hasPosition
 *   their last columns are the position in Kafka
 * @param unavailable
 *   stands for a value that was not sent
 * @param required
 *   ordinals of the columns that are never null in the table
 */
final private[streamjoin] case class LogTraits(
    isEnvelope: Boolean = false,
    hasPosition: Boolean = false,
    unavailable: Option[String] = None,
    required: Set[Int] = Set.empty
)

private[maintain] object LogTraits {
  def of(log: Changelog, schema: StructType, hasPosition: Boolean): LogTraits = LogTraits(
    log.isEnvelope,
    hasPosition,
    log.unavailable,
    schema.indices.filter(at => log.required(schema(at).name)).toSet
  )
}
