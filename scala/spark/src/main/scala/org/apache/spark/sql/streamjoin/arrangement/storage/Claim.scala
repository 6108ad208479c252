package org.apache.spark.sql.streamjoin.arrangement.storage

import java.util.UUID

import com.fasterxml.jackson.databind.ObjectMapper

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
  def read(folder: ArrangementFolder): Option[Claim] = folder.readJson(File) { node =>
    def id(name: String) = UUID.fromString(node.required(name).asText)
    Claim(id("query"), id("run"))
  }
}
