package org.apache.spark.sql.streamjoin.arrangement.source

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.index.{ArrangementRef, IndexSettings}
import org.apache.spark.sql.streamjoin.arrangement.storage.Snapshot
import org.apache.spark.sql.streamjoin.base.{HadoopConf, StreamJoinErrors}
import org.apache.spark.sql.types.StructType

/**
 * Reads an arrangement.
 *
 * @param changes
 *   whether to read its changes in a stream, or its rows at a version
 */
final private[streamjoin] class ArrangementScan(
    arrangement: ArrangementRef,
    options: ArrangementOptions,
    changes: Boolean
) extends Scan
    with Batch {
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
    val newest = folder.newest
    val version = options.version.getOrElse(newest)
    if (version > newest)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NO_VERSION",
        "arrangement" -> arrangement.root,
        "version" -> version.toString,
        "newest" -> newest.toString
      )
    if (version < 0) Array.empty
    else {
      val last = folder.manifest(newest)
      last.checkRetains(version, arrangement.root, StreamJoinErrors.analysis(_, _: _*))
      val id = if (version == newest) last.id else folder.manifest(version).id
      ReadPartition.all(arrangement.meta, Snapshot.Nothing, Snapshot(version, id = Some(id)))
    }
  }

  override def createReaderFactory: PartitionReaderFactory = spec

  // Stream.

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new ArrangementStream(arrangement, options, checkpoint, () => spec)(RunVersions.of(arrangement, _))
}
