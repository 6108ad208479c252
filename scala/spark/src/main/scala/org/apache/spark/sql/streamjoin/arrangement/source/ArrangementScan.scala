package org.apache.spark.sql.streamjoin.arrangement.source

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.index.{ArrangementRef, IndexSettings}
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, Manifest, Snapshot}
import org.apache.spark.sql.streamjoin.base.{HadoopConf, StreamJoinErrors}
import org.apache.spark.sql.types.StructType

/**
 * Reads an arrangement.
 *
 * @param changes
 *   whether to read its changes in a stream, or its rows at a version
 * @param newest
 *   its newest version when the rows are read; shared by all scans of a query
 */
final private[streamjoin] class ArrangementScan(
    val arrangement: ArrangementRef,
    options: ArrangementOptions,
    changes: Boolean,
    val newest: NewestVersion
) extends Scan
    with Batch {

  /** This scan with the newest version that other scans see. */
  def at(newest: NewestVersion): ArrangementScan = new ArrangementScan(arrangement, options, changes, newest)

  override def readSchema: StructType =
    if (changes) ChangesTable.schema(arrangement.meta.schema) else arrangement.meta.schema

  override def description: String = s"streamjoin ${arrangement.root}"

  private def spec: ReadSpec = ReadSpec(
    arrangement,
    changes,
    IndexSettings.of(SQLConf.get),
    HadoopConf.of(SparkSession.active)
  )

  // Batch.

  override def toBatch: Batch = this

  override def planInputPartitions: Array[InputPartition] = {
    val folder = options.open()
    val last = newest.in(folder)
    val lastNumber = last.fold(-1L)(_.version)
    val version = options.version.getOrElse(lastNumber)
    if (version > lastNumber)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NO_VERSION",
        "arrangement" -> arrangement.root,
        "version" -> version.toString,
        "newest" -> lastNumber.toString
      )
    last.fold(Array.empty[InputPartition]) { manifest =>
      if (version < manifest.since)
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_VERSION_GONE",
          "arrangement" -> arrangement.root,
          "version" -> version.toString,
          "oldest" -> manifest.since.toString,
          "newest" -> lastNumber.toString
        )
      val id = if (version == lastNumber) manifest.id else folder.manifest(version).id
      ReadPartition.all(arrangement.meta, Snapshot.Nothing, Snapshot(version, id = Some(id)))
    }
  }

  override def createReaderFactory: PartitionReaderFactory = spec

  // Stream.

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new ArrangementStream(arrangement, options, checkpoint, () => spec)(RunVersions.of(arrangement, _))
}

/** The newest version of an arrangement, determined on first use. */
final private[streamjoin] class NewestVersion {
  private var found: Option[Option[Manifest]] = None

  /** None before the first version. */
  def in(folder: ArrangementFolder): Option[Manifest] = synchronized {
    if (found.isEmpty) found = Some(Option(folder.newest).filter(_ >= 0).map(folder.manifest))
    found.get
  }
}
