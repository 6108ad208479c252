package org.apache.spark.sql.streamjoin.arrangement

import java.io.FileNotFoundException
import java.net.{URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import org.apache.hadoop.fs.Path

/**
 * Which versions readers still need. A reader that has read up to a version has an empty file of
 * that name in a folder of its own. A lease is never overwritten: the file of the new version comes
 * first, then the old one goes.
 */
final private[streamjoin] class Leases(folder: ArrangementFolder) {
  import Leases._

  private val readers = new Path(folder.root, ArrangementFolder.Readers)

  /** From now on a reader needs what comes after a version. */
  def renew(reader: String, version: Long): Unit = {
    val own = new Path(readers, reader)
    folder.fs.mkdirs(own)
    val file = new Path(own, version.toString)
    if (!folder.fs.exists(file)) folder.fs.create(file, false).close()
    // Nothing has come, but the reader has.
    else folder.fs.setTimes(file, System.currentTimeMillis(), -1)
    folder.numbersIn(own).filter(_ < version).foreach { older =>
      folder.fs.delete(new Path(own, older.toString), false)
    }
  }

  /** A reader that is not coming back. */
  def release(reader: String): Unit = folder.fs.delete(new Path(readers, reader), true): Unit

  def all: Seq[Lease] =
    try
      folder.fs.listStatus(readers).toSeq.flatMap { reader =>
        val own = reader.getPath
        // Two while it is renewed: the older one counts, and that it is being renewed.
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

  /** Removes those of readers that have not come for too long. */
  def expire(olderThanMs: Long): Unit =
    all.filter(_.sinceMs < olderThanMs).foreach(lease => release(lease.reader))
}

private[streamjoin] object Leases {

  /** @param sinceMs when it was last renewed */
  final case class Lease(reader: String, version: Long, sinceMs: Long)

  /**
   * The folder of a reader's lease: always the same for a source of a checkpoint. It says whose it
   * is, if it fits into the name of a file.
   */
  def reader(checkpointOfSource: String): String = {
    val readable = URLEncoder.encode(checkpointOfSource, UTF_8)
    if (readable.length <= 200) readable
    else UUID.nameUUIDFromBytes(checkpointOfSource.getBytes(UTF_8)).toString
  }

  /** For people: where a reader's checkpoint is. */
  def name(reader: String): String = URLDecoder.decode(reader, UTF_8)
}
