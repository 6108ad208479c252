package org.apache.spark.sql.streamjoin.arrangement

import java.io.FileNotFoundException
import java.util.UUID

import com.fasterxml.jackson.core.JacksonException
import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.{ChecksumException, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.read.streaming.{ReadLimit, SupportsAdmissionControl}
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinErrors}

/**
 * `caught_up.json`: whether the maintaining query has reached the end of its sources, as of a
 * version. A manifest says whether its batch took all available data ([[Manifest.tookAll]]); if
 * batches are limited, only a trigger without data tells. A new run resets it, because much may
 * have arrived since.
 */
final private[streamjoin] case class CaughtUp(version: Long, isSo: Boolean)

private[streamjoin] object CaughtUp {
  val File = "caught_up.json"
  private val mapper = new ObjectMapper()

  /** Whether the newest version has all data that the sources had when it was written, or later. */
  def holds(folder: ArrangementFolder): Boolean = {
    val newest = folder.newest
    read(folder).filter(_.version >= newest) match {
      case Some(said) => said.isSo
      case None => newest >= 0 && folder.manifestOf(newest).exists(_.tookAll)
    }
  }

  private def read(folder: ArrangementFolder): Option[CaughtUp] =
    try {
      val node = mapper.readTree(folder.readFully(new Path(folder.root, File)))
      Some(CaughtUp(node.required("number").asLong, node.required("caught_up").asBoolean))
    } catch {
      case _: FileNotFoundException => None
      case damaged @ (_: JacksonException | _: IllegalArgumentException | _: ChecksumException) =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_ARRANGEMENT_UNREADABLE",
          "file" -> new Path(folder.root, File).toString,
          "reason" -> damaged.getMessage
        )
    }

  def write(folder: ArrangementFolder, said: CaughtUp): Unit = {
    val node = mapper.createObjectNode().put("version", ArrangementMeta.Format)
    node.put("number", said.version).put("caught_up", said.isSo)
    folder.replace(File, mapper.writeValueAsBytes(node))
  }

  /** Whether the current batch of a query has all data that its sources had when it was planned. */
  def tookAll(session: SparkSession, query: UUID): Boolean =
    RunningQuery.of(session, query).exists { micro =>
      val batch = micro.getLatestExecutionContext()
      batch.endOffsets.forall {
        case (changes: ArrangementStream, end) => changes.isLatest(end)
        case (source: SupportsAdmissionControl, end) =>
          source.getDefaultReadLimit == ReadLimit.allAvailable() ||
          batch.latestOffsets.get(source).exists(_.json == end.json)
        case _ => true
      }
    }
}
