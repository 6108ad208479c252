package org.apache.spark.sql.streamjoin.arrangement.storage

import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * The description of an arrangement when it was created: `meta.json`. A query has a copy with its
 * own columns and number of partitions.
 *
 * @param schema
 *   columns of its rows, without the operation or number of copies
 * @param keys
 *   key columns of each index, by name; the first is the primary key of a changelog
 * @param partitions
 *   number of partitions of each index; each manifest says the number of its files
 * @param input
 *   how rows arrive, see [[InputKind]]
 * @param time
 *   column with the time of a row's last change, if there is one
 * @param order
 *   column that decides between changes of the same time, if there is one
 * @param isOfRows
 *   false for an index whose rows are not those of the arrangement; their columns never change
 * @param addedKeys
 *   how many keys were added later; they are the last ones
 * @param expires
 *   whether rows are removed because of their age
 */
final private[streamjoin] case class ArrangementMeta(
    id: UUID,
    schema: StructType,
    keys: Seq[Seq[String]],
    partitions: Int,
    input: InputKind,
    time: Option[String],
    order: Option[String] = None,
    isOfRows: Boolean = true,
    addedKeys: Int = 0,
    expires: Boolean = false
) {
  def keyOrdinals(index: Int): Seq[Int] = keys(index).map(schema.fieldIndex)

  /** How many keys it had when it was created. */
  def firstKeys: Int = keys.size - addedKeys

  /** The number of an index in files: that of deletions follows those of the first keys. */
  def number(index: Int): Int = if (index < firstKeys) index else index + 1

  /** Whether files with another description have the same columns, keys and partitions. */
  def isWrittenLike(other: ArrangementMeta): Boolean = partitions == other.partitions &&
    keys == other.keys && ChangedColumns.areSame(schema, other.schema)

  def keysInWords: String = keys.map(_.mkString("[", ", ", "]")).mkString(", ")

  def toJson: Array[Byte] = {
    val root = ArrangementMeta.mapper.createObjectNode()
    root.put("version", ArrangementMeta.Format).put("spark", SPARK_VERSION).put("id", id.toString)
    root.set[JsonNode]("schema", ArrangementMeta.mapper.readTree(schema.json))
    val list = root.putArray("keys")
    keys.foreach(key => key.foldLeft(list.addArray())(_.add(_)))
    root.put("partitions", partitions).put("input", input.name)
    time.foreach(root.put("time", _): ObjectNode)
    order.foreach(root.put("order", _): ObjectNode)
    if (expires) root.put("expires", true): Unit
    ArrangementMeta.mapper.writerWithDefaultPrettyPrinter.writeValueAsBytes(root)
  }
}

private[streamjoin] object ArrangementMeta {

  /** The format of `meta.json`. */
  val Format = 1

  /** Why a file of a format that this version does not know cannot be read. */
  def otherFormat(found: Option[Int], known: Set[Int]): String =
    found.filter(_ > known.max).fold(s"it has format ${found.getOrElse("none")}") { newer =>
      s"it has format $newer, and this version of streamjoin reads formats up to ${known.max}: " +
        "use the version that has written it, or a newer one"
    }

  private val mapper = new ObjectMapper()

  /** @throws org.apache.spark.sql.AnalysisException if it is damaged or has another format */
  def fromJson(json: Array[Byte], root: String): ArrangementMeta = {
    def unreadable(reason: String) =
      StreamJoinErrors.analysis("STREAMJOIN_ARRANGEMENT_UNREADABLE", "file" -> root, "reason" -> reason)
    val node =
      try mapper.readTree(json)
      catch { case damaged: Exception => throw unreadable(damaged.getMessage) }
    val format = Option(node.get("version")).map(_.asInt)
    if (!format.contains(Format))
      throw unreadable(otherFormat(format, Set(Format)))
    try
      ArrangementMeta(
        UUID.fromString(node.get("id").asText),
        DataType.fromJson(node.get("schema").toString).asInstanceOf[StructType].asNullable,
        node.get("keys").elements().asScala.map(_.elements().asScala.map(_.asText).toSeq).toSeq,
        node.get("partitions").asInt,
        InputKind.of(node.get("input").asText),
        Option(node.get("time")).map(_.asText),
        Option(node.get("order")).map(_.asText),
        expires = node.path("expires").asBoolean(false)
      )
    catch {
      case _: NullPointerException => throw unreadable("it is incomplete")
      case wrong: Exception => throw unreadable(wrong.getMessage)
    }
  }
}

/** How rows arrive in an arrangement. */
sealed private[streamjoin] trait InputKind {
  def name: String
}

private[streamjoin] object InputKind {

  /** Rows that are added and stay. */
  case object Appended extends InputKind { val name = "append" }

  /** Rows that are inserted, updated and deleted by the primary key. */
  case object Changelog extends InputKind { val name = "changelog" }

  /** Rows with a number of copies that are added, or removed if it is negative. */
  case object Updates extends InputKind { val name = "updates" }

  def of(name: String): InputKind = Seq(Appended, Changelog, Updates)
    .find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"no kind of input: $name"))
}
