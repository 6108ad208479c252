package org.apache.spark.sql.streamjoin.arrangement.storage

import java.io.{FileNotFoundException, IOException}
import java.util.UUID

import scala.annotation.{nowarn, tailrec}
import scala.util.Try

import com.fasterxml.jackson.core.JacksonException
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{ChecksumException, FileSystem, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors, StreamJoinRuntimeException}
import org.apache.spark.sql.types.StructType

/**
 * The files of an arrangement.
 *
 * {{{
 *   <root>/meta.json                         its description, written once
 *   <root>/meta/<v>-<uuid>                   its changes from version v on: see [[Description]]
 *   <root>/maintainer.json                   the run that maintains it: see [[Claim]]
 *   <root>/caught_up.json                    progress of its query: see [[CaughtUp]]
 *   <root>/versions/<v>                      the manifest of version v, written once
 *   <root>/changes/<v>/<task>-<run>-<uuid>   rows that version v added and removed
 *   <root>/bases/<v>/<task>-<run>-<uuid>     all rows of version v - 1
 *   <root>/readers/<reader>/                 a lease: see [[LeaseFiles]]
 * }}}
 *
 * The law: version v consists of the rows of a base b <= v (or none), plus the changes of versions
 * b + 1 to v (or 0 to v). The manifests name the files of both. Tasks finish their files before the
 * driver writes the manifest, which is created atomically and never changes: a reader finds a
 * complete version or nothing. A missing or damaged file is an error and never causes fewer rows. A
 * file that no manifest names has no meaning, and a later version removes it.
 */
final private[streamjoin] class ArrangementFolder(val root: Path, hadoopConf: Configuration) {
  import ArrangementFolder._

  lazy val fs: FileSystem = root.getFileSystem(hadoopConf)
  lazy val files: CheckpointFileManager = CheckpointFileManager.create(root, hadoopConf)

  private def metaFile = new Path(root, MetaFile)
  private def versions = new Path(root, Manifest.Directory)

  def exists: Boolean = fs.exists(metaFile)

  /**
   * The first description.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if there is no arrangement, or it has another format
   */
  lazy val meta: ArrangementMeta = {
    val json =
      try readFully(metaFile)
      catch {
        case _: FileNotFoundException =>
          throw StreamJoinErrors.analysis("STREAMJOIN_NO_ARRANGEMENT", "arrangement" -> root.toString)
      }
    ArrangementMeta.fromJson(json, metaFile.toString)
  }

  /** The description as of the newest version. */
  def current: ArrangementMeta =
    Option(newest).filter(_ >= 0).fold(meta)(version => metaOf(manifest(version)))

  /** The columns and keys in the files of a version. */
  def descriptionOf(manifest: Manifest): Description =
    manifest.description.fold(Description.of(meta))(readDescription(_)(Description.fromJson))

  /** The description as of a version. */
  def metaOf(manifest: Manifest): ArrangementMeta = {
    val as = descriptionOf(manifest)
    meta.copy(
      partitions = manifest.partitions,
      schema = as.schema,
      keys = as.keys,
      addedKeys = as.keys.size - meta.keys.size,
      expires = manifest.expires
    )
  }

  /** @throws StreamJoinRuntimeException if a version may not be followed by one of this release */
  def checkWriter(manifest: Manifest): Unit =
    manifest.description.foreach(readDescription(_)(Description.checkWriter))

  /** All columns that the arrangement has or had, the oldest first. */
  def schemas: Seq[StructType] = {
    val files = list(descriptions).map(_.getName).collect { case name @ Described(version) =>
      version.toLong -> name
    }
    meta.schema +: files.sorted.map { case (_, name) =>
      readDescription(name)(Description.fromJson(_).schema)
    }
  }

  private def descriptions = new Path(root, Description.Directory)

  private def readDescription[T](name: String)(read: JsonNode => T): T = {
    val path = new Path(descriptions, name)
    readable(path)(read(mapper.readTree(readFully(path))))
      .getOrElse(throw unreadable(path, "it does not exist"))
  }

  /**
   * Writes what is different from a version on.
   *
   * @return
   *   the name of the file
   */
  def describe(version: Long, description: Description): String = {
    val name = s"$version-${UUID.randomUUID()}"
    files.mkdirs(descriptions)
    replace(s"${Description.Directory}/$name", description.toJson)
    name
  }

  /** Removes the descriptions that failed attempts at a version have left. */
  def removeDescriptions(version: Long, but: String): Unit =
    list(descriptions)
      .filter(file => file.getName != but && file.getName.startsWith(s"$version-"))
      .foreach(fs.delete(_, false))

  /** Fails if only the description is missing: it was lost, or `drop` was interrupted. */
  def checkIsEmpty(): Unit =
    if (newest >= 0) throw unreadable(metaFile, "it does not exist, although the arrangement has versions")

  /** Writes the description of the arrangement, unless it already exists. */
  def create(meta: ArrangementMeta): Unit = {
    files.mkdirs(root)
    val out = files.createAtomic(metaFile, overwriteIfPossible = false)
    try {
      out.write(meta.toJson)
      out.close()
    } catch {
      case error: Throwable =>
        out.cancel()
        if (!exists) throw error
    }
  }

  /** Replaces the description, if there is no version yet. */
  def redefine(meta: ArrangementMeta): Unit = replace(MetaFile, meta.toJson)

  /**
   * Removes all of its files. The description is removed first: from then on, the arrangement no
   * longer exists. Files that do not belong to it stay, because it may have been created in a
   * folder that already had some.
   */
  def drop(): Unit = {
    val named = Seq(MetaFile, Claim.File, CaughtUp.File)
    removeUnfinished(named: _*)
    // As long as there are versions, the next call finishes what this one has begun.
    (named ++ Seq(Description.Directory, Changes, Bases, Readers, Manifest.Directory))
      .foreach(name => delete(new Path(root, name)))
    // Checksums of removed files are not listed.
    if (list(root).isEmpty) fs.delete(root, true): Unit
  }

  /**
   * Removes a file or a folder, if it exists.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if the user may not: some file systems only say that they have removed nothing
   */
  def delete(path: Path): Unit = {
    val isRemoved =
      try fs.delete(path, true)
      catch { case denied: IOException if LeaseFiles.isDenied(denied) => false }
    if (!isRemoved && fs.exists(path))
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGEMENT_NOT_REMOVED",
        "arrangement" -> root.toString,
        "file" -> path.toString
      )
  }

  /** `exists` would also query an object store for a folder. */
  @nowarn("cat=deprecation")
  def hasVersion(version: Long): Boolean = fs.isFile(new Path(versions, version.toString))

  /**
   * When the manifest of a version was written, and its length. They differ for another version.
   */
  def stampOf(version: Long): Option[(Long, Long)] =
    try {
      val status = fs.getFileStatus(new Path(versions, version.toString))
      Some((status.getModificationTime, status.getLen))
    } catch { case _: FileNotFoundException => None }

  /** The versions that have a manifest, ascending. */
  def versionNumbers: Seq[Long] = numbersIn(versions)

  /** The newest version, or -1 before the first. */
  def newest: Long = versionNumbers.lastOption.getOrElse(-1L)

  /** The newest version, without listing all versions if a known one is not much older. */
  def newestFrom(known: Long): Long =
    if (known < 0 || !hasVersion(known)) newest else newestAfter(known)

  /** The newest version, if a known one still exists. */
  def newestAfter(known: Long): Long = farthest(known, known)

  /** Versions are consecutive: of many, only some are looked for. */
  @tailrec
  private def farthest(from: Long, there: Long): Long = {
    val step = math.max(1L, there - from)
    if (hasVersion(there + step)) farthest(from, there + step)
    else if (step > 1) farthest(there, there)
    else there
  }

  /** @throws StreamJoinRuntimeException if it is missing or damaged */
  def manifest(version: Long): Manifest = manifestOf(version).getOrElse(throw missing(version))

  private[arrangement] def missing(version: Long): StreamJoinRuntimeException =
    unreadable(new Path(versions, version.toString), "it does not exist")

  def manifestOf(version: Long): Option[Manifest] = {
    val path = new Path(versions, version.toString)
    readable(path) {
      val node = mapper.readTree(readFully(path))
      val format = Option(node.get("version")).map(_.asInt)
      if (!format.exists(Manifest.Readable))
        throw unreadable(path, ArrangementMeta.otherFormat(format, Manifest.Readable))
      Manifest.fromJson(node, meta.partitions)
    }
  }

  /** The content of a file, if it exists. */
  private def readable[T](path: Path)(read: => T): Option[T] =
    try Some(read)
    catch {
      case _: FileNotFoundException => None
      case damaged: JacksonException =>
        throw unreadable(path, damaged.getOriginalMessage)
      case _: NullPointerException => throw unreadable(path, "it is incomplete")
      case wrong: IllegalArgumentException => throw unreadable(path, wrong.getMessage)
      case _: ChecksumException => throw unreadable(path, "its checksum is wrong")
    }

  /** Removes the files of versions. */
  def remove(versions: Seq[Long]): Unit =
    // The manifest is removed last: while it exists, the next attempt finds the other files.
    for {
      old <- versions
      folder <- Seq(Changes, Bases, Manifest.Directory)
    } fs.delete(new Path(new Path(root, folder), old.toString), true)

  /** The folders of bases, ascending. */
  def baseNumbers: Seq[Long] = numbersIn(new Path(root, Bases))

  private def base(number: Long) = new Path(new Path(root, Bases), number.toString)

  /** Removes bases; the changes of their versions stay. */
  def removeBases(numbers: Seq[Long]): Unit = numbers.foreach(number => fs.delete(base(number), true))

  /** Whether all files of a base still exist, and none is truncated. */
  def hasBaseFiles(number: Long, files: Seq[BlockFile]): Boolean = {
    val lengths =
      try fs.listStatus(base(number)).map(file => file.getPath.getName -> file.getLen).toMap
      catch { case _: FileNotFoundException => Map.empty[String, Long] }
    files.forall(file => lengths.get(new Path(root, file.path).getName).contains(file.bytes))
  }

  /** Removes the files that an attempt to write a base has left, except for those that count. */
  def removeAttempt(number: Long, attempt: UUID, but: Seq[BlockFile]): Unit = {
    val kept = but.map(file => new Path(root, file.path).getName).toSet
    list(base(number))
      .filter(file => isOf(file.getName, tag(attempt)) && !kept(file.getName))
      .foreach(fs.delete(_, false))
  }

  /** The files that tasks have written for a version. */
  def filesOf(version: Long): Seq[Path] =
    Seq(Changes, Bases).flatMap(folder => list(new Path(new Path(root, folder), version.toString)))

  /** Writes a file, replacing an existing one of the same name. */
  private[arrangement] def replace(name: String, bytes: Array[Byte]): Unit = {
    val out = files.createAtomic(new Path(root, name), overwriteIfPossible = true)
    try {
      out.write(bytes)
      out.close()
    } catch {
      case error: Throwable =>
        out.cancel()
        throw error
    }
  }

  /** Removes temporary files that a killed run has left. */
  def removeUnfinished(names: String*): Unit =
    list(root)
      .filter(file => names.exists(name => file.getName.startsWith(s".$name.")))
      .foreach(fs.delete(_, false))

  /**
   * Removes the files of attempts that the manifests of their versions do not name. Files of a run
   * that is still alive elsewhere must stay: if the file system does not create files atomically, a
   * manifest may still name them. So a run removes only its own files at first. It removes those
   * that it found at its start once it has written another version: a driver that is gone writes no
   * manifest.
   *
   * @param isGone
   *   given version and name, whether no manifest will ever name the file
   */
  def removeOrphans(manifests: Seq[Manifest])(isGone: (Long, String) => Boolean): Unit = {
    val data = for {
      manifest <- manifests
      named = (manifest.changes ++ manifest.baseFiles).map(file => new Path(root, file.path).getName).toSet
      bases = manifest.bases.filter(_.manifest == manifest.version).map(ref => base(ref.folder))
      folder <- new Path(new Path(root, Changes), manifest.version.toString) +: bases
      file <- list(folder)
      if !named(file.getName) && isGone(manifest.version, file.getName)
    } yield file
    data.foreach(fs.delete(_, false))
  }

  /** Unfinished manifests, up to a version. */
  def unfinishedManifests(upTo: Long): Seq[Path] = list(versions).filter(_.getName match {
    case Unfinished(version) => version.toLong <= upTo
    case _ => false
  })

  private def list(folder: Path): Seq[Path] =
    try fs.listStatus(folder).toSeq.map(_.getPath)
    catch { case _: FileNotFoundException => Nil }

  /** The contents of a JSON file in the folder, if it exists. */
  private[arrangement] def readJson[T](name: String)(read: JsonNode => T): Option[T] = {
    val path = new Path(root, name)
    try Some(read(mapper.readTree(readFully(path))))
    catch {
      case _: FileNotFoundException => None
      case damaged @ (_: JacksonException | _: IllegalArgumentException | _: ChecksumException) =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_ARRANGEMENT_UNREADABLE",
          "file" -> path.toString,
          "reason" -> damaged.getMessage
        )
    }
  }

  private[arrangement] def readFully(path: Path): Array[Byte] = {
    val in = fs.open(path)
    try in.readAllBytes()
    finally in.close()
  }

  private[arrangement] def numbersIn(folder: Path): Seq[Long] =
    try fs.listStatus(folder).toSeq.flatMap(file => Try(file.getPath.getName.toLong).toOption).sorted
    catch { case _: FileNotFoundException => Nil }

  private def unreadable(path: Path, reason: String): StreamJoinRuntimeException =
    StreamJoinErrors.runtime("STREAMJOIN_ARRANGEMENT_UNREADABLE", "file" -> path.toString, "reason" -> reason)
}

private[streamjoin] object ArrangementFolder {
  val MetaFile = "meta.json"
  val Changes = "changes"
  val Bases = "bases"
  val Readers = "readers"

  private val mapper = new ObjectMapper()

  /** Part of the file names that marks the files of a run's tasks. */
  def tag(run: UUID): String = run.toString.take(8)

  def isOf(name: String, tag: String): Boolean = name.matches(s"\\d+-$tag-.*")

  /**
   * The name of a file that is being written, as given by Spark's checkpoint file managers and by
   * ours.
   */
  private val Unfinished = """\.(\d{1,18})\..*\.tmp""".r

  /** The name of a description, and its version. */
  private val Described = """(\d{1,18})-[-0-9a-f]{36}""".r

  /** Whether an arrangement in the folder of arrangements can have the name. */
  def isName(name: String): Boolean =
    name.nonEmpty && !name.contains(":") && !name.contains("/") && name != "." && name != ".."

  /** The folder of an arrangement, from its name or a path. */
  def path(nameOrPath: String, folder: Option[String]): Path =
    if (nameOrPath.contains("/")) new Path(nameOrPath)
    else if (!isName(nameOrPath)) {
      val example = Option(nameOrPath.replace(':', '_')).filter(isName).getOrElse("orders")
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGEMENT_NAME",
        "name" -> nameOrPath,
        "example" -> example
      )
    } else
      new Path(
        folder.getOrElse(
          throw StreamJoinErrors.analysis("STREAMJOIN_NO_ARRANGEMENTS_FOLDER", "arrangement" -> nameOrPath)
        ),
        nameOrPath
      )

  /** The qualified path of an arrangement's folder. */
  def root(nameOrPath: String): Path = {
    val path = this.path(nameOrPath, SQLConf.get.getConf(StreamJoinConf.Arrangements))
    path.getFileSystem(SparkSession.active.sessionState.newHadoopConf()).makeQualified(path)
  }

  def open(root: Path): ArrangementFolder = open(SparkSession.active, root)

  def open(session: SparkSession, root: Path): ArrangementFolder =
    new ArrangementFolder(root, session.sessionState.newHadoopConf())
}
