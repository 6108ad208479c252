package org.apache.spark.sql.streamjoin.arrangement

import java.io.FileNotFoundException
import java.util.UUID

import com.fasterxml.jackson.core.JacksonException
import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.{ChecksumException, Path}

import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/**
 * `maintainer.json`: which run maintains an arrangement. Each run writes it before its first task
 * does, so the one that began last has it, and one that finds another's name in it ends.
 *
 * Two runs of one query at once are two drivers with one checkpoint, or with copies of one. Where a
 * file system does not create a file in one step, each of them may take the manifest that it has
 * written for the one that counts. What keeps the files of either is that none removes what may be
 * the other's, see [[ArrangementFolder.removeOrphans]].
 */
final private[streamjoin] case class Claim(query: UUID, run: UUID)

private[streamjoin] object Claim {
  val File = "maintainer.json"
  private val mapper = new ObjectMapper()

  def write(folder: ArrangementFolder, claim: Claim): Unit = {
    val node = mapper.createObjectNode().put("version", ArrangementMeta.Format)
    node.put("query", claim.query.toString).put("run", claim.run.toString)
    folder.replace(File, mapper.writeValueAsBytes(node))
  }

  /** None where no run has claimed it, as before there were claims. */
  def read(folder: ArrangementFolder): Option[Claim] = {
    val path = new Path(folder.root, File)
    try {
      val node = mapper.readTree(folder.readFully(path))
      def id(name: String) = UUID.fromString(node.required(name).asText)
      Some(Claim(id("query"), id("run")))
    } catch {
      case _: FileNotFoundException => None
      case damaged @ (_: JacksonException | _: IllegalArgumentException | _: ChecksumException) =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_ARRANGEMENT_UNREADABLE",
          "file" -> path.toString,
          "reason" -> damaged.getMessage
        )
    }
  }
}
