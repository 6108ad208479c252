package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, Manifest}

/** Recently read manifests. */
final private[index] class ManifestCache {
  private val Kept = 256

  private val cache = new mutable.LinkedHashMap[(String, UUID, Long), Manifest]

  def clear(): Unit = synchronized(cache.clear())

  def get(arrangement: ArrangementRef, version: Long, folder: ArrangementFolder): Manifest = {
    val key = (arrangement.root, arrangement.meta.id, version)
    synchronized(cache.get(key)).getOrElse {
      val read = folder.manifest(version)
      synchronized {
        cache.put(key, read)
        while (cache.size > Kept) cache -= cache.head._1
      }
      read
    }
  }
}
