package org.apache.spark.sql.streamjoin.arrangement.storage

import java.io.FileNotFoundException
import java.net.{URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import org.apache.hadoop.fs.Path

/**
 * The versions that readers still need. A reader has an empty file in its own folder, named after
 * the version up to which it has read. A lease is never overwritten: the file of the new version is
 * created before the old one is deleted.
 */
final private[streamjoin] class Leases(folder: ArrangementFolder) {
  import Leases._

  private val readers = new Path(folder.root, ArrangementFolder.Readers)

  /** From now on, a reader needs only what comes after a version. */
  def renew(reader: String, version: Long): Unit = {
    val own = new Path(readers, reader)
    TemporaryReaders.add(folder, reader)
    folder.fs.mkdirs(own)
    val file = new Path(own, version.toString)
    if (!folder.fs.exists(file)) folder.fs.create(file, false).close()
    // There is no new version, but the reader is alive.
    else folder.fs.setTimes(file, System.currentTimeMillis(), -1)
    folder.numbersIn(own).filter(_ < version).foreach { older =>
      folder.fs.delete(new Path(own, older.toString), false)
    }
  }

  /** Removes the lease of a reader that will not come back. */
  def release(reader: String): Unit = folder.fs.delete(new Path(readers, reader), true): Unit

  def all: Seq[Lease] =
    try
      folder.fs.listStatus(readers).toSeq.flatMap { reader =>
        val own = reader.getPath
        // During renewal both files exist; the older version stays leased, the newer timestamp
        // counts.
        val versions = folder.numbersIn(own)
        val times = versions.flatMap { version =>
          try Some(folder.fs.getFileStatus(new Path(own, version.toString)).getModificationTime)
          catch { case _: FileNotFoundException => None }
        }
        versions.headOption.zip(times.maxOption).map { case (version, time) =>
          Lease(own.getName, version, time)
        }
      }
    catch { case _: FileNotFoundException => Nil }

  /** Removes leases that have not been renewed for too long; returns the others. */
  def expire(olderThanMs: Long): Seq[Lease] = {
    val (expired, live) = all.partition(_.sinceMs < olderThanMs)
    expired.foreach(lease => release(lease.reader))
    live
  }
}

private[streamjoin] object Leases {

  /** @param sinceMs when it was last renewed, in milliseconds since the epoch */
  final case class Lease(reader: String, version: Long, sinceMs: Long)

  /**
   * The folder of a reader's lease, always the same for a source of a checkpoint. It is readable if
   * it fits into a file name.
   */
  def reader(checkpointOfSource: String): String = {
    val readable = URLEncoder.encode(checkpointOfSource, UTF_8)
    if (readable.length <= 200) readable
    else UUID.nameUUIDFromBytes(checkpointOfSource.getBytes(UTF_8)).toString
  }

  /** The readable path of a reader's checkpoint. */
  def name(reader: String): String = URLDecoder.decode(reader, UTF_8)
}
