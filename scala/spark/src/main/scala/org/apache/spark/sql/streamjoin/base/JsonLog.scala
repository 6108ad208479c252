package org.apache.spark.sql.streamjoin.base

import java.io.{InputStream, OutputStream}

import scala.annotation.unused
import scala.reflect.ClassTag

import com.fasterxml.jackson.core.JacksonException
import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.HDFSMetadataLog
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * A folder of streamjoin in the checkpoint with numbered JSON files, each with its format version.
 */
abstract private[streamjoin] class JsonLog[T <: AnyRef: ClassTag](
    session: SparkSession,
    checkpoint: Path,
    directory: String
) extends HDFSMetadataLog[T](session.asInstanceOf[ClassicSession], new Path(checkpoint, directory).toString) {

  /** The format version, and the only one that is read unless [[readable]] has more. */
  protected def version: Int

  /** The format version of an entry: an older one if the entry has nothing that is new. */
  protected def versionOf(@unused entry: T): Int = version

  protected def readable: Set[Int] = Set(version)

  protected def toJson(entry: T, root: ObjectNode): Unit

  protected def fromJson(root: JsonNode): T

  /** The file that is being read. */
  private var file: Path = metadataPath

  override def get(number: Long): Option[T] = {
    file = batchIdToPath(number)
    super.get(number)
  }

  override protected def serialize(entry: T, out: OutputStream): Unit = {
    val root = JsonLog.mapper.createObjectNode().put("version", versionOf(entry))
    toJson(entry, root)
    out.write(JsonLog.mapper.writeValueAsBytes(root))
  }

  override protected def deserialize(in: InputStream): T = {
    val root =
      try JsonLog.mapper.readTree(in)
      catch { case damaged: JacksonException => throw unreadable(damaged.getOriginalMessage) }
    val found = Option(root.get("version")).map(_.asInt)
    if (!found.exists(readable))
      throw unreadable(s"it has version ${found.getOrElse("none")}, not $version")
    fromJson(root)
  }

  /** Writes an entry, replacing any entry with the same number. */
  protected def replace(number: Long, entry: T): Unit = {
    val out = fileManager.createAtomic(batchIdToPath(number), overwriteIfPossible = true)
    try {
      serialize(entry, out)
      out.close()
    } catch {
      case failed: Throwable =>
        out.cancel()
        throw failed
    }
  }

  protected def unreadable(reason: String): AnalysisException = JsonLog.unreadable(file, reason)
}

private[streamjoin] object JsonLog {
  private val mapper = new ObjectMapper()

  /** The error for a file that is missing or cannot be read. */
  def unreadable(file: Path, reason: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_CHECKPOINT_UNREADABLE",
      "file" -> file.toString,
      "reason" -> reason
    )
}
