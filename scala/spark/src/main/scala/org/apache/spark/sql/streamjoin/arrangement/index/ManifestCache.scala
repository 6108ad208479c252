package org.apache.spark.sql.streamjoin.arrangement.index

import java.lang.ref.SoftReference
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  BlockFile,
  ChangedColumns,
  Description,
  Manifest,
  Restored,
  StoredRows,
  VersionId
}

/**
 * Recently read manifests. All tasks of a batch need the manifests of the versions that the batch
 * spans, so the first task reads each of them once. A manifest in memory may belong to a version
 * that has since been removed and whose number another version now has, so a request contains the
 * version's id.
 *
 * @param most
 *   the approximate number of bytes of all recent manifests
 * @param mostIds
 *   how many versions' predecessors are remembered
 */
final private[index] class ManifestCache(
    most: Long = ManifestCache.MostBytes,
    mostIds: Int = ManifestCache.MostIds
) {
  import ManifestCache._

  private val recent = new RecentManifests(most)

  /**
   * The long lines that were read last, by arrangement, first and last version. All tasks of a
   * batch need the same line, and its manifests may take more memory than is kept for recent ones.
   */
  private val lines = new mutable.LinkedHashMap[LineKey, SoftReference[IndexedSeq[Manifest]]]
  private val reading = Array.fill(Readers)(new Object)
  private val readingLine = Array.fill(Readers)(new Object)

  /** The id of the previous version, by the id of a version. It never changes. */
  private val predecessors = new mutable.LinkedHashMap[UUID, UUID]

  /** By arrangement and name, because a description never changes. */
  private val descriptions = new ConcurrentHashMap[(String, UUID, String), Description]

  def clear(): Unit = {
    recent.clear()
    descriptions.clear()
    synchronized(predecessors.clear())
    lines.synchronized(lines.clear())
  }

  /** Converts the rows of a version for a reader, if they have other columns. */
  def storedRows(
      arrangement: ArrangementRef,
      manifest: Manifest,
      folder: ArrangementFolder
  ): Option[StoredRows] = {
    val meta = arrangement.meta
    def stored = described(arrangement, manifest, folder).schema
    Option.unless(!meta.isOfRows || ChangedColumns.areSame(stored, meta.schema)) {
      new StoredRows(arrangement.root, stored, meta.schema)
    }
  }

  /** The columns and keys in the files of a version. */
  def described(arrangement: ArrangementRef, manifest: Manifest, folder: ArrangementFolder): Description =
    descriptions.computeIfAbsent(
      (arrangement.root, arrangement.meta.id, manifest.description.getOrElse("")),
      _ => folder.descriptionOf(manifest)
    )

  /** Forgets the manifests of an arrangement, because its files are different now. */
  def forget(arrangement: ArrangementRef): Unit = recent.forget(arrangement.root)

  /**
   * The manifest of a version.
   *
   * @throws org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException
   *   if it is missing, or another version has its number
   */
  def get(arrangement: ArrangementRef, of: VersionId, folder: ArrangementFolder): Manifest = {
    def cached = recent.get(key(arrangement, of.number)).filter(_.id == of.id)
    val found = cached.getOrElse {
      reading(Math.floorMod(of.number, Readers)).synchronized {
        cached.getOrElse(read(arrangement, of.number, folder))
      }
    }
    if (found.id != of.id) throw Restored.inTask(arrangement.root, of.number, folder.newest)
    found
  }

  /**
   * The manifest that currently has a number. The one in memory cannot be trusted: a restore may
   * have replaced it with another one that follows the same version.
   */
  def current(arrangement: ArrangementRef, number: Long, folder: ArrangementFolder): Manifest =
    read(arrangement, number, folder)

  /** The manifest that has a number, at or before an existing version. */
  def upTo(
      arrangement: ArrangementRef,
      number: Long,
      version: VersionId,
      folder: ArrangementFolder
  ): Manifest = recent
    .get(key(arrangement, number))
    .filter(known => isOrFollows(arrangement, version, known.versionId, folder))
    .getOrElse(read(arrangement, number, folder))

  /**
   * The manifests from a number up to a version, each followed by its successor. They are read
   * backwards, because each names the one before it.
   */
  def line(
      arrangement: ArrangementRef,
      from: Long,
      to: VersionId,
      folder: ArrangementFolder
  ): IndexedSeq[Manifest] =
    if (to.number - from < LongLine) readLine(arrangement, from, to, folder)
    else {
      val key = (arrangement.root, arrangement.meta.id, from, to)
      def known = lines.synchronized(lines.get(key)).flatMap(line => Option(line.get))
      known.getOrElse {
        readingLine(Math.floorMod(key.hashCode, Readers)).synchronized {
          known.getOrElse(keep(key, readLine(arrangement, from, to, folder)))
        }
      }
    }

  private def keep(key: LineKey, line: IndexedSeq[Manifest]): IndexedSeq[Manifest] = lines.synchronized {
    lines.put(key, new SoftReference(line))
    while (lines.size > MostLines) lines -= lines.head._1
    line
  }

  private def readLine(
      arrangement: ArrangementRef,
      from: Long,
      to: VersionId,
      folder: ArrangementFolder
  ): IndexedSeq[Manifest] = {
    val backward = mutable.ArrayBuffer.empty[Manifest]
    if (from <= to.number) {
      backward += get(arrangement, to, folder)
      while (backward.last.version > from)
        backward += get(arrangement, before(arrangement, backward.last, folder), folder)
    }
    backward.reverseIterator.toIndexedSeq
  }

  /**
   * The previous version. If a manifest does not name it, it is the version that currently has that
   * number.
   */
  def before(arrangement: ArrangementRef, manifest: Manifest, folder: ArrangementFolder): VersionId = {
    val number = manifest.version - 1
    val known = manifest.previous.orElse(synchronized(predecessors.get(manifest.id)))
    VersionId(
      number,
      known.getOrElse {
        val found = read(arrangement, number, folder).id
        note(manifest.id, found)
        found
      }
    )
  }

  /** Whether a version is the given one or a successor of it. False if this is no longer known. */
  @tailrec
  def isOrFollows(
      arrangement: ArrangementRef,
      version: VersionId,
      earlier: VersionId,
      folder: ArrangementFolder
  ): Boolean =
    if (version.number <= earlier.number) version == earlier
    // Each step would read a manifest. A folder has one line of versions.
    else if (version.number - earlier.number > mostIds / 2)
      Seq(version, earlier).forall(of => folder.manifestOf(of.number).exists(_.id == of.id))
    else {
      val known = synchronized(predecessors.get(version.id)).map(VersionId(version.number - 1, _))
      val previous = known.orElse(
        try Some(before(arrangement, get(arrangement, version, folder), folder))
        catch { case NonFatal(_) => None }
      )
      previous match {
        case Some(found) => isOrFollows(arrangement, found, earlier, folder)
        case None => false
      }
    }

  private def key(arrangement: ArrangementRef, number: Long) =
    (arrangement.root, arrangement.meta.id, number)

  private def read(arrangement: ArrangementRef, number: Long, folder: ArrangementFolder): Manifest = {
    val read = folder.manifestOf(number).getOrElse {
      val newest = folder.newest
      throw if (newest < number) Restored.inTask(arrangement.root, number, newest) else folder.missing(number)
    }
    read.previous.foreach(note(read.id, _))
    recent.put(key(arrangement, number), read)
    read
  }

  private def note(version: UUID, previous: UUID): Unit = synchronized {
    predecessors.put(version, previous)
    while (predecessors.size > mostIds) predecessors -= predecessors.head._1
  }
}

private[index] object ManifestCache {
  type Key = (String, UUID, Long)
  private type LineKey = (String, UUID, Long, VersionId)

  /** A shorter line is read again, from recent manifests. */
  private val LongLine = 100L
  private val MostLines = 4

  /** Enough for thousands of versions that each changed a few partitions. */
  private val MostBytes = 32L << 20

  /** How many manifests can be read at the same time. */
  private val Readers = 64

  private val MostIds = 1 << 16
}

/** As many of the most recently read manifests as fit; they are small unless much has changed. */
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

  def forget(root: String): Unit = synchronized {
    kept.keys.filter(_._1 == root).toSeq.foreach(remove)
  }

  def clear(): Unit = synchronized {
    kept.clear()
    bytes = 0
  }
}

private[index] object RecentManifests {

  /** The newest ones stay, however large they are. */
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
