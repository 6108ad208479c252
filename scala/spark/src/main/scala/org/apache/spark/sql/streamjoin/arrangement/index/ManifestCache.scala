package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, BlockFile, Manifest}

/**
 * Recently read manifests. The tasks of a batch all need those of the versions that it spans, so
 * each is read once, by the first of them.
 */
final private[index] class ManifestCache {
  import ManifestCache._

  private val recent = new RecentManifests(MostBytes)
  private val reading = Array.fill(Readers)(new Object)

  def clear(): Unit = recent.clear()

  def get(arrangement: ArrangementRef, version: Long, folder: ArrangementFolder): Manifest = {
    val key = (arrangement.root, arrangement.meta.id, version)
    recent.get(key).getOrElse {
      reading(Math.floorMod(version, Readers)).synchronized {
        recent.get(key).getOrElse {
          val read = folder.manifest(version)
          recent.put(key, read)
          read
        }
      }
    }
  }
}

private[index] object ManifestCache {
  type Key = (String, UUID, Long)

  /** Thousands of versions that each changed a few partitions. */
  private val MostBytes = 32L << 20

  /** How many manifests can be read at the same time. */
  private val Readers = 64
}

/** The manifests that were read last, as many as fit; they are small unless much has changed. */
final private[index] class RecentManifests(most: Long) {
  import RecentManifests._

  private val kept = new mutable.LinkedHashMap[ManifestCache.Key, Manifest]
  private var bytes = 0L

  def get(key: ManifestCache.Key): Option[Manifest] = synchronized(kept.get(key))

  def put(key: ManifestCache.Key, manifest: Manifest): Unit = synchronized {
    remove(key)
    kept.put(key, manifest)
    bytes += sizeOf(manifest)
    while (bytes > most && kept.size > Fewest) remove(kept.head._1)
  }

  private def remove(key: ManifestCache.Key): Unit =
    kept.remove(key).foreach(manifest => bytes -= sizeOf(manifest))

  def clear(): Unit = synchronized {
    kept.clear()
    bytes = 0
  }
}

private[index] object RecentManifests {

  /** However large, the newest ones stay. */
  private val Fewest = 8

  private val ManifestBytes = 1000L
  private val FileBytes = 300L
  private val BlockBytes = 64L

  /** Approximate bytes in memory. */
  def sizeOf(manifest: Manifest): Long = {
    def bytes(files: Seq[BlockFile]) = files.iterator.map(FileBytes + BlockBytes * _.blocks.size).sum
    ManifestBytes + bytes(manifest.changes) + bytes(manifest.baseFiles)
  }
}
