package org.apache.spark.sql.streamjoin.arrangement.storage

import java.io.{FileNotFoundException, IOException}
import java.net.{URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.AccessDeniedException
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.Try

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.security.AccessControlException

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{QueryOwner, StreamJoinConf, StreamJoinErrors}

/**
 * The versions that readers still need.
 *
 * {{{
 *   readers/<reader>/<version>      the version it has read; contains the id of the version
 *   readers/<reader>/alive-<time>   it is alive but has read nothing new: see [[LeaseRenewal]]
 *   readers/<reader>/query          the name of its query, if that has one
 * }}}
 *
 * The time of a lease is that of the newest file: an object store may ignore a time that is set.
 * The file of a new version is created before the old one is deleted. It is written once, unless
 * the arrangement was restored and now has another version of that number.
 */
final private[streamjoin] class LeaseFiles(folder: ArrangementFolder) extends Logging {
  import LeaseFiles._

  private val readers = new Path(folder.root, ArrangementFolder.Readers)

  /**
   * Records that a reader needs only the changes after a version from now on.
   *
   * @param id
   *   of the version, if it is known
   * @throws org.apache.spark.sql.AnalysisException
   *   if the reader may not write here, unless it needs no lease
   */
  def renew(reader: String, version: Long, id: Option[UUID] = None): Unit = ifPermitted(reader) {
    val own = new Path(readers, reader)
    if (!folder.fs.mkdirs(own)) throw new IOException(s"$MkdirsFailed to create $own")
    val file = new Path(own, version.toString)
    val isNew = !folder.fs.exists(file)
    if (isNew) write(file, textOf(id))
    // Later ones date from before the arrangement, or the reader, was restored.
    folder.numbersIn(own).filter(_ != version).foreach { other =>
      folder.fs.delete(new Path(own, other.toString), false)
    }
    TemporaryReaders.add(folder, reader)
    val kept = LeaseRenewal.keep(folder, reader, id.map(VersionId(version, _)))
    kept.begins.foreach(query => writeName(own, Option(query.name)))
    val isOther = !isNew && id.isDefined && !kept.isKnown && isOfOther(file, id.get)
    if (isOther) write(file, textOf(id))
    // There is no new version, but the reader is alive.
    if (kept.isDue && !isNew && !isOther) showAlive(reader)
  }

  /**
   * Keeps the lease of a reader whose query has started again, if it still has one: the run may
   * find nothing to read, or run a batch again that takes long.
   */
  def resume(reader: String): Unit = if (LeaseRenewal.isNotKept(folder, reader)) ifPermitted(reader) {
    val own = new Path(readers, reader)
    if (folder.numbersIn(own).nonEmpty) {
      LeaseRenewal.keep(folder, reader, None).begins.foreach(query => writeName(own, Option(query.name)))
      showAlive(reader)
    }
  }

  private def ifPermitted(reader: String)(body: => Unit): Unit =
    try body
    catch {
      case denied: IOException if isDenied(denied) =>
        if (SQLConf.get.getConf(StreamJoinConf.ArrangementLease) != StreamJoinConf.Optional)
          throw StreamJoinErrors.analysis(
            "STREAMJOIN_ARRANGEMENT_LEASE",
            "arrangement" -> folder.root.toString,
            "folder" -> readers.toString,
            "reason" -> denied.getMessage
          )
        if (withoutLease.add((folder.root.toString, reader)))
          logWarning(
            s"${checkpoint(reader)} reads ${folder.root} without a lease, because it has no permission to write there: " +
              s"${denied.getMessage}. It fails if it falls behind the versions that are kept for all."
          )
    }

  /** Renews the lease of a reader that has read nothing since. */
  private[storage] def showAlive(reader: String): Unit = {
    val own = new Path(readers, reader)
    val before = folder.fs.listStatus(own).toSeq.map(_.getPath).filter(_.getName.startsWith(Alive))
    val sign = new Path(own, s"$Alive${System.currentTimeMillis()}")
    if (!before.contains(sign)) {
      write(sign, "")
      before.foreach(folder.fs.delete(_, false))
    }
  }

  /** Once per run of the query, because the next run may have another name. */
  private def writeName(own: Path, name: Option[String]): Unit =
    if (nameIn(own) != name) {
      val file = new Path(own, QueryName)
      name.fold(folder.fs.delete(file, false): Unit)(write(file, _))
    }

  private def nameIn(own: Path): Option[String] =
    try Some(new String(folder.readFully(new Path(own, QueryName)), UTF_8)).filter(_.nonEmpty)
    catch { case _: FileNotFoundException => None }

  /** The name of a reader's query when it was last started, for display; none if it has no name. */
  def queryName(lease: Lease): Option[String] = nameIn(new Path(readers, lease.reader))

  private def textOf(id: Option[UUID]) = id.fold("")(_.toString)

  private def write(file: Path, text: String): Unit = {
    val out = folder.fs.create(file, true)
    try out.write(text.getBytes(UTF_8))
    finally out.close()
  }

  /**
   * Whether a reader's lease is for another version than the one with its number. Such a reader is
   * ahead of a restored arrangement, which therefore keeps nothing for it.
   */
  def isOfOther(lease: Lease): Boolean = {
    val file = new Path(new Path(readers, lease.reader), lease.version.toString)
    folder.manifestOf(lease.version).exists(manifest => isOfOther(file, manifest.id))
  }

  /** Whether a lease names another version; a lease that is being written names none. */
  private def isOfOther(file: Path, version: UUID): Boolean =
    try {
      val id = new String(folder.readFully(file), UTF_8)
      id.nonEmpty && id != version.toString
    } catch { case _: FileNotFoundException => false }

  /** Whether a running query of another user's session is the reader. */
  def isUsedByOther(session: SparkSession, lease: Lease): Boolean =
    LeaseRenewal.query(folder, lease.reader).exists { query =>
      !QueryOwner.of(session).mayFind(QueryOwner.id(query.sparkSession))
    }

  /** Removes the lease of a reader that will not return. */
  def release(reader: String): Unit = folder.delete(new Path(readers, reader))

  def all: Seq[Lease] =
    list(readers).flatMap { reader =>
      val files = list(reader.getPath)
      // During renewal the files of both versions exist: the older version stays leased, and the
      // newer timestamp counts.
      val versions = files.flatMap(file => Try(file.getPath.getName.toLong).toOption)
      versions.minOption.map(Lease(reader.getPath.getName, _, files.map(_.getModificationTime).max))
    }

  private def list(path: Path): Seq[FileStatus] =
    try folder.fs.listStatus(path).toSeq
    catch { case _: FileNotFoundException => Nil }

  /** Removes leases that have expired without renewal; returns the others. */
  def expire(olderThanMs: Long): Seq[Lease] = {
    val (expired, live) = all.partition(_.sinceMs < olderThanMs)
    expired.foreach(lease => folder.fs.delete(new Path(readers, lease.reader), true))
    live
  }
}

private[streamjoin] object LeaseFiles {
  private val Alive = "alive-"
  private val QueryName = "query"
  private val MkdirsFailed = "Mkdirs failed"

  /** Readers without a lease, by arrangement. Each of them is logged once. */
  private val withoutLease = ConcurrentHashMap.newKeySet[(String, String)]()

  /** Whether a file system says that the user may not do something. */
  def isDenied(error: IOException): Boolean = error match {
    case _: AccessControlException | _: AccessDeniedException => true
    case other =>
      val text = String.valueOf(other.getMessage)
      Seq(MkdirsFailed, "Permission denied", "Read-only file system").exists(text.contains)
  }

  /** @param sinceMs when it was last renewed, in milliseconds since the epoch */
  final case class Lease(reader: String, version: Long, sinceMs: Long)

  /**
   * The folder of a reader's lease, stable for a source of a checkpoint. It is readable if it fits
   * into a file name.
   */
  def reader(checkpointOfSource: String): String = {
    val readable = URLEncoder.encode(checkpointOfSource, UTF_8)
    if (readable.length <= 200) readable
    else UUID.nameUUIDFromBytes(checkpointOfSource.getBytes(UTF_8)).toString
  }

  /**
   * A short id of a reader, for display. It does not reveal the checkpoint, as the folder of the
   * lease would.
   */
  def id(reader: String): String = UUID.nameUUIDFromBytes(reader.getBytes(UTF_8)).toString.take(8)

  /** The readable path of a reader's checkpoint. */
  def checkpoint(reader: String): String = URLDecoder.decode(reader, UTF_8)
}
