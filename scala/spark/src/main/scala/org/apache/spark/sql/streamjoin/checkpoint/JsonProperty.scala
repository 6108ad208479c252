package org.apache.spark.sql.streamjoin.checkpoint

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** Properties of a description as JSON: lists, and objects with lists. */
private[streamjoin] object JsonProperty {
  private val mapper = new ObjectMapper

  def newObject(): ObjectNode = mapper.createObjectNode()

  def read(text: String): JsonNode = mapper.readTree(text)

  def elements(list: JsonNode): Seq[JsonNode] = list.elements().asScala.toSeq

  def elements(text: String): Seq[JsonNode] = elements(read(text))

  def putTexts(root: ObjectNode, name: String, all: Seq[String]): Unit = {
    val array = root.putArray(name)
    all.foreach(array.add)
  }

  def putNumbers(root: ObjectNode, name: String, all: Seq[Int]): Unit = {
    val array = root.putArray(name)
    all.foreach(array.add(_))
  }

  def texts(all: Seq[String]): String = {
    val array = mapper.createArrayNode()
    all.foreach(array.add)
    array.toString
  }

  def numbers(all: Seq[Long]): String = all.mkString("[", ",", "]")
}
