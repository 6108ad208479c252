package org.apache.spark.sql.streamjoin.arrangement.storage

import java.io.FileNotFoundException
import java.util.UUID

import com.fasterxml.jackson.core.JacksonException
import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.{ChecksumException, Path}

import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/**
 * `maintainer.json`: the run that maintains an arrangement. Each run writes it before its first
 * task writes. So the run that started last holds the claim, and a run that finds another run's id
 * in it fails.
 *
 * Two concurrent runs of one query are two drivers with the same checkpoint, or with copies of it.
 * If the file system does not create files atomically, each may believe that its own manifest
 * counts. The files of both survive, because neither removes what may belong to the other, see
 * [[ArrangementFolder.removeOrphans]].
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

  /** None if no run has claimed it, as before claims existed. */
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
