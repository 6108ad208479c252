package org.apache.spark.sql.streamjoin.base

import java.util.{Collections, WeakHashMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.util.SerializableConfiguration

/**
 * Hadoop's settings for tasks, broadcast again only when they change: a session may get a new
 * token, which Spark's own sources also pick up from one batch to the next.
 */
private[streamjoin] object HadoopConf {

  /**
   * @param batch
   *   query and batch that last compared the settings; each batch compares them once
   */
  private case class Sent(
      batch: Option[(String, String)],
      settings: Map[String, String],
      conf: Broadcast[SerializableConfiguration]
  )

  private val sent = Collections.synchronizedMap(new WeakHashMap[SparkSession, Sent])

  def of(session: SparkSession): Broadcast[SerializableConfiguration] = {
    val now = batch(session)
    val known = Option(sent.get(session))
    known
      .filter(of => now.isDefined && of.batch == now)
      .getOrElse {
        val conf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
        val settings = settingsOf(conf)
        val current = known
          .filter(_.settings == settings)
          .fold {
            SerializableConfiguration.broadcast(session.sparkContext, conf)
          }(_.conf)
        val made = Sent(now, settings, current)
        sent.put(session, made)
        made
      }
      .conf
  }

  private def settingsOf(conf: Configuration): Map[String, String] =
    conf.iterator().asScala.map(setting => setting.getKey -> setting.getValue).toMap

  /** The query of this thread and its batch, if it runs one. */
  private def batch(session: SparkSession): Option[(String, String)] = {
    def property(name: String) = Option(session.sparkContext.getLocalProperty(name))
    property(StreamExecution.QUERY_ID_KEY).zip(property(MicroBatchExecution.BATCH_ID_KEY))
  }
}
