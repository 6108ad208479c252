package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.BuiltJar

/**
 * The entry point for the Python package before there is a session, or when a session lacks the
 * extension: it loads this class by name. For everything else it calls functions in a query
 * ([[front.functions.FrameFunction]], [[front.functions.TableFunction]]).
 */
object PythonApi {

  /** The version of streamjoin in this jar. */
  def version: String = BuiltJar.version

  /** The version of Spark that this jar was built for. */
  def sparkVersion: String = BuiltJar.sparkVersion

  /** Whether the extension is enabled in this session. */
  def installed(session: SparkSession): Boolean = StreamJoinExtensions.isEnabled(session)
}
