package org.apache.spark.sql.streamjoin.arrangement.storage

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * `<arrangement>/meta/<v>-<uuid>`: how an arrangement differs from `meta.json`, from version v on.
 * The manifests of these versions name the file. It is written before them and never changes.
 *
 * It states which version of the format is needed at least, to read the arrangement or to continue
 * it. A jar that supports a lower one rejects it, so a later release can add something that older
 * jars may ignore when they read.
 *
 * @param schema
 *   columns of the rows
 * @param keys
 *   key columns of each index
 */
final private[streamjoin] case class Description(schema: StructType, keys: Seq[Seq[String]]) {
  def toJson: Array[Byte] = {
    val root = Description.mapper.createObjectNode()
    root.put("version", Description.Format).put("spark", SPARK_VERSION)
    root.put("minimum_reader", Description.Supported).put("minimum_writer", Description.Supported): ObjectNode
    root.set[JsonNode]("schema", Description.mapper.readTree(schema.json))
    val list = root.putArray("keys")
    keys.foreach(key => key.foldLeft(list.addArray())(_.add(_)))
    Description.mapper.writerWithDefaultPrettyPrinter.writeValueAsBytes(root)
  }
}

private[streamjoin] object Description {
  def of(meta: ArrangementMeta): Description = Description(meta.schema, meta.keys)

  val Directory = "meta"

  /** The format of the file. */
  val Format = 1

  /** The version of an arrangement's format that this version of streamjoin reads and writes. */
  val Supported = 2

  private val mapper = new ObjectMapper()

  /** @throws IllegalArgumentException if this version of streamjoin may not read the arrangement */
  def fromJson(root: JsonNode): Description = {
    checkSupports(root, "reader", "read")
    Description(
      DataType.fromJson(root.get("schema").toString).asInstanceOf[StructType].asNullable,
      root.get("keys").elements().asScala.map(_.elements().asScala.map(_.asText).toSeq).toSeq
    )
  }

  /**
   * @throws IllegalArgumentException if this version of streamjoin may not continue the arrangement
   */
  def checkWriter(root: JsonNode): Unit = checkSupports(root, "writer", "continue")

  private def checkSupports(root: JsonNode, who: String, does: String): Unit = {
    val least = root.get(s"minimum_$who").asInt
    if (least > Supported)
      throw new IllegalArgumentException(
        s"a version of streamjoin that supports format $least is needed to $does the arrangement, and this one " +
          s"supports formats up to $Supported: use the version that has written it, or a newer one"
      )
  }
}
