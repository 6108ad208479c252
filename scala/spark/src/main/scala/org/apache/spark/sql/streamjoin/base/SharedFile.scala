package org.apache.spark.sql.streamjoin.base

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** The data files that the jar shares with the Python package. */
private[base] object SharedFile {

  /** The entries of the JSON object in a file, in its order. */
  def entries(name: String): Seq[(String, JsonNode)] = {
    val in = getClass.getResourceAsStream(s"/streamjoin/$name")
    assert(in != null, s"streamjoin/$name is missing from the jar")
    try entries(new ObjectMapper().readTree(in))
    finally in.close()
  }

  def entries(json: JsonNode): Seq[(String, JsonNode)] =
    json.properties().asScala.toSeq.map(entry => entry.getKey -> entry.getValue)
}
