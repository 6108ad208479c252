package org.apache.spark.sql.streamjoin.upsert

import java.util.concurrent.TimeUnit.SECONDS
import java.util.{Collections, Map => JMap, Properties}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.util.Utils

/**
 * Identifies a topic and its cluster. The classes of Kafka's client come with Spark's connector,
 * which the user adds, so they are called by reflection.
 */
private[upsert] object KafkaTopic extends Logging {
  private val Prefix = "kafka."
  private val Wait = 30L

  /** Without ids if the cluster does not return them: they are compared at a later `start()`. */
  def identity(options: Map[String, String]): TargetIdentity = {
    val topic = CaseInsensitiveMap(options)(UpsertOptions.Topic)
    val ids =
      try idsOf(topic, options)
      catch {
        case NonFatal(error) =>
          logWarning(s"The ids of the topic $topic and of its cluster are unknown", error)
          Map.empty[String, String]
      }
    TargetIdentity(UpsertOptions.Kafka, topic, ids + ("topic" -> topic))
  }

  private def idsOf(topic: String, options: Map[String, String]): Map[String, String] = {
    val properties = new Properties()
    // Spark preserves the case of option keys only if they start with this prefix.
    options.foreach { case (name, value) =>
      if (name.toLowerCase(java.util.Locale.ROOT).startsWith(Prefix))
        properties.put(name.drop(Prefix.length), value)
    }
    val admin = Utils.classForName[AutoCloseable]("org.apache.kafka.clients.admin.Admin")
    val client = admin.getMethod("create", classOf[Properties]).invoke(null, properties)
    try {
      val cluster = get(
        call(call(client, admin.getName, "describeCluster"), "DescribeClusterResult", "clusterId")
      )
      Map("cluster" -> cluster.toString) ++ topicId(client, admin, topic).map("topic id" -> _)
    } finally client.asInstanceOf[AutoCloseable].close()
  }

  /** A topic that does not exist has no id, and its cluster may create it. */
  private def topicId(client: AnyRef, admin: Class[_], topic: String): Option[String] =
    try {
      val described = admin
        .getMethod("describeTopics", classOf[java.util.Collection[_]])
        .invoke(client, Collections.singletonList(topic))
      val all =
        get(call(described, "DescribeTopicsResult", "allTopicNames")).asInstanceOf[JMap[String, AnyRef]]
      Some(call(all.get(topic), "TopicDescription", "topicId").toString)
    } catch { case NonFatal(_) => None }

  private def call(on: AnyRef, of: String, method: String): AnyRef = {
    val name = if (of.contains('.')) of else s"org.apache.kafka.clients.admin.$of"
    Utils.classForName[AnyRef](name).getMethod(method).invoke(on)
  }

  private def get(future: AnyRef): AnyRef =
    future.asInstanceOf[java.util.concurrent.Future[AnyRef]].get(Wait, SECONDS)
}
