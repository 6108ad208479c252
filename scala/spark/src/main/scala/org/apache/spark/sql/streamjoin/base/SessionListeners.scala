package org.apache.spark.sql.streamjoin.base

import scala.reflect.ClassTag

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streaming.StreamingQueryListener

/** Adds our listeners to a session's queries. */
private[streamjoin] object SessionListeners {

  /**
   * Adds a listener, unless the session has one of its class. Queries may start in several threads
   * at once; a second listener would report each of their batches twice.
   */
  def addOnce[L <: StreamingQueryListener: ClassTag](session: SparkSession)(make: => L): Unit = synchronized {
    val streams = session.streams
    val known = streams.listListeners().exists(implicitly[ClassTag[L]].runtimeClass.isInstance)
    if (!known) streams.addListener(make)
  }
}
