package org.apache.spark.sql.streamjoin.upsert

import org.apache.spark.sql.functions.{col, when}
import org.apache.spark.sql.types.{DataType, IntegralType, LongType}

/**
 * A compacted topic: the message key is the key as JSON, and the value is the row as JSON, or null
 * if the row was removed.
 *
 * The topic has no record of the batches and does not need one. The current value of a key is the
 * last one written. A batch has each key once, and only the last batch can run again, so a second
 * run writes the same values after those of the first: in both cases, a reader that has reached the
 * end sees the state after the batch. Kafka's partitioner always puts a key into the same
 * partition, as long as the number of partitions does not change.
 */
final private[upsert] class KafkaTarget(options: Map[String, String]) extends UpsertTarget {

  /** The records are built as in a batch, so types that JSON does not support are found here. */
  override def check(changes: NetChanges, checkpoint: String): Unit = records(changes).collect(): Unit

  /**
   * Includes the key: if a record got another one, such as the same columns in another order, the
   * earlier record of its row would stay.
   */
  override def identity(changes: NetChanges): TargetIdentity = {
    val key = changes.keys.map(changes.columns(_)).map { field =>
      s"${field.name} ${KafkaTarget.inJson(field.dataType).sql}"
    }
    val topic = KafkaTopic.identity(options)
    topic.copy(ids = topic.ids + ("key" -> key.mkString(", ")))
  }

  override def has(batch: UpsertBatch): Boolean = false

  override def write(changes: NetChanges, counts: ChangeCounts, batch: UpsertBatch): Unit =
    if (!counts.isEmpty) records(changes).write.format("kafka").options(options).save()

  private def records(changes: NetChanges) = changes.rows
    .select(
      changes.keyJson.as("key"),
      when(!col(NetChanges.Gone), changes.rowJson).as("value")
    )
}

private object KafkaTarget {

  /** Integers of all types are the same in JSON. */
  private def inJson(dataType: DataType): DataType = dataType match {
    case _: IntegralType => LongType
    case other => other
  }
}
