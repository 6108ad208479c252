package org.apache.spark.sql.streamjoin.upsert

import org.apache.spark.sql.functions.{col, when}

/**
 * A compacted topic: its key is the key as JSON, its value the row as JSON, or null if the row has
 * gone.
 *
 * The topic has no record of the batches, and needs none. What a key has is the last value that was
 * written for it. A batch has each key once and is the last one when it runs again, so a second
 * run writes the same values after those of the first: a reader that has come to the end sees the
 * state after the batch either way. Kafka's partitioner puts a key into the same partition every
 * time, as long as the topic has as many partitions.
 */
final private[upsert] class KafkaTarget(options: Map[String, String]) extends UpsertTarget {

  /** The records are built as a batch builds them: a type that JSON cannot have is found here. */
  override def check(changes: NetChanges, checkpoint: String): Unit = records(changes).collect(): Unit

  override def identity: TargetIdentity = KafkaTopic.identity(options)

  override def has(batch: UpsertBatch): Boolean = false

  override def write(changes: NetChanges, figures: Figures, batch: UpsertBatch): Unit =
    if (!figures.isEmpty) records(changes).write.format("kafka").options(options).save()

  private def records(changes: NetChanges) = changes.rows
    .select(
      changes.keyJson.as("key"),
      when(!col(NetChanges.Gone), changes.rowJson).as("value")
    )
}
