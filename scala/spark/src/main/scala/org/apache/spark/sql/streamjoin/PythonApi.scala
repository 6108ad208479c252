package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.SparkSession

import streamjoin.{Arrangement, StreamInputs, StreamJoin}

/**
 * Where the Python package enters: it loads this class by its name, asks for the versions, and then
 * calls the Scala API.
 */
object PythonApi {

  /** The version of streamjoin in this jar. */
  def version: String = BuildInfo.version

  /** The version of Spark that this jar was built for. */
  def sparkVersion: String = BuildInfo.sparkVersion

  /** Whether the extension is enabled in this session. */
  def installed(session: SparkSession): Boolean = BuildInfo.isEnabled(session)

  /** Joins. */
  def joins: StreamJoin.type = StreamJoin

  /** What a query declares about its streams. */
  def inputs: StreamInputs.type = StreamInputs

  /** Arrangements. */
  def arrangements: Arrangement.type = Arrangement
}
