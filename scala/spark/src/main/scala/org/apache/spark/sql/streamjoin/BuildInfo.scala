package org.apache.spark.sql.streamjoin

import java.util.Properties

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.rules.batch.RecognizeJoins

/** What is on the class path, and whether a session uses it. */
object BuildInfo {
  private lazy val versions: Properties = {
    val properties = new Properties
    val in = getClass.getResourceAsStream("/streamjoin/version.properties")
    assert(in != null, "streamjoin/version.properties is missing from the jar")
    try properties.load(in)
    finally in.close()
    properties
  }

  /** The version of streamjoin in this jar. */
  def version: String = versions.getProperty("version")

  /** The version of Spark that this jar was built for. */
  def sparkVersion: String = versions.getProperty("spark")

  /** Whether the extension is enabled in a session. */
  def isEnabled(session: SparkSession): Boolean = session match {
    case classic: ClassicSession =>
      classic.sessionState.optimizer.preCBORules.exists(_.isInstanceOf[RecognizeJoins])
    case _ => false
  }
}
