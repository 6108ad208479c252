package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.BuiltJar

/**
 * What the Python package asks of the driver before there is a session, or when one lacks the
 * extension: it loads this class by its name. Everything else it calls by functions in a query
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
