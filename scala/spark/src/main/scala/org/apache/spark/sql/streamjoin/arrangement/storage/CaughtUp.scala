package org.apache.spark.sql.streamjoin.arrangement.storage

import java.util.UUID

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.read.streaming.{Offset, ReadLimit, SupportsAdmissionControl}
import org.apache.spark.sql.streamjoin.base.RunningQuery

/**
 * `caught_up.json`: whether the maintaining query has reached the end of its sources, as of a
 * version. A manifest says whether its batch took all available data ([[Manifest.tookAll]]); if
 * batches are limited, only a trigger without data shows it. A new run resets the file, because
 * much data may have arrived since.
 *
 * @param id
 *   id of the version; none if written before this was recorded
 */
final private[streamjoin] case class CaughtUp(version: Long, isSo: Boolean, id: Option[UUID] = None)

private[streamjoin] object CaughtUp {
  val File = "caught_up.json"
  private val mapper = new ObjectMapper()

  /** Whether the newest version has all data that the sources had when it was written, or later. */
  def holds(folder: ArrangementFolder): Boolean = {
    val said = read(folder)
    val newest = folder.newest
    lazy val manifest = folder.manifestOf(newest)
    said.filter(of => of.version == newest && of.id.forall(id => manifest.exists(_.id == id))) match {
      case Some(of) => of.isSo
      case None => newest >= 0 && manifest.exists(_.tookAll)
    }
  }

  private def read(folder: ArrangementFolder): Option[CaughtUp] = folder.readJson(File) { node =>
    CaughtUp(
      node.required("number").asLong,
      node.required("caught_up").asBoolean,
      Option(node.get("id")).map(id => UUID.fromString(id.asText))
    )
  }

  def write(folder: ArrangementFolder, said: CaughtUp): Unit = {
    val node = mapper.createObjectNode().put("version", ArrangementMeta.Format)
    node.put("number", said.version).put("caught_up", said.isSo)
    said.id.foreach(id => node.put("id", id.toString))
    folder.replace(File, mapper.writeValueAsBytes(node))
  }

  /** Whether the current batch of a query has all data that its sources had when it was planned. */
  def tookAll(session: SparkSession, query: UUID): Boolean =
    RunningQuery.of(session, query).exists { micro =>
      val batch = micro.getLatestExecutionContext()
      batch.endOffsets.forall {
        case (source: KnowsLatestOffset, end) => source.isLatest(end)
        case (source: SupportsAdmissionControl, end) =>
          source.getDefaultReadLimit == ReadLimit.allAvailable() ||
          batch.latestOffsets.get(source).exists(_.json == end.json)
        case _ => true
      }
    }
}

/** A source that knows whether an offset is its latest. */
private[streamjoin] trait KnowsLatestOffset {
  def isLatest(end: Offset): Boolean
}
