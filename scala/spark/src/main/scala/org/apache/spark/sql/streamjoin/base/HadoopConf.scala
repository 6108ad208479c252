package org.apache.spark.sql.streamjoin.base

import java.util.{Collections, WeakHashMap}

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.util.SerializableConfiguration

/**
 * Hadoop's settings for tasks, sent to the executors once for a session: a query has one of its
 * own.
 */
private[streamjoin] object HadoopConf {
  private val sent =
    Collections.synchronizedMap(new WeakHashMap[SparkSession, Broadcast[SerializableConfiguration]])

  def of(session: SparkSession): Broadcast[SerializableConfiguration] = sent.computeIfAbsent(
    session,
    _ =>
      SerializableConfiguration.broadcast(
        session.sparkContext,
        session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
      )
  )
}
