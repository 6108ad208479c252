package org.apache.spark.sql.streamjoin.base

import java.util.Properties

/** The versions that the jar on the class path was built with. */
object BuiltJar {
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
}
