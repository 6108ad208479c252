package org.apache.spark.sql.streamjoin.files

import java.io.{BufferedOutputStream, FileNotFoundException, FileOutputStream, OutputStream}
import java.net.URI
import java.nio.file.attribute.{BasicFileAttributes, PosixFilePermissions}
import java.nio.file.{
  FileAlreadyExistsException => NioFileAlreadyExists,
  FileSystemException,
  FileSystems,
  Files,
  LinkOption,
  NoSuchFileException,
  NotDirectoryException,
  Path => NioPath,
  StandardCopyOption
}
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/**
 * Manages the files of a checkpoint on a local disk with JVM calls only. Without its native
 * library, Hadoop starts processes (`chmod`, `readlink`) for each file that it writes: about ten of
 * them in Spark's default file manager.
 *
 * It gives the guarantees of Spark's managers: a file appears completely or not at all, with the
 * permissions that Hadoop gives it. Like them, it does not fsync: Hadoop's local file system does
 * not fsync when a file is closed, and nothing in Spark's checkpoints calls `hsync`. Unlike them,
 * it
 *   - lets exactly one of two writers win if neither may replace the file (theirs check first, then
 *     rename);
 *   - leaves no temporary file behind when a write fails;
 *   - writes no `.name.crc`. Those from Spark's managers are checked when their file is read, and
 *     removed when it is replaced or deleted.
 */
private[streamjoin] class NioFiles(root: Path, hadoopConf: Configuration)
    extends CheckpointFileManager
    with Logging {
  import NioFiles._

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream =
    new AtomicOutput(this, local(temporary(path)), local(path), overwriteIfPossible)

  private[streamjoin] def create(file: NioPath): OutputStream = {
    // Not a channel: an interrupt of the thread, which is how a query is stopped, would close it.
    val out = new FileOutputStream(file.toFile)
    try permit(file, FsPermission.getFileDefault)
    catch {
      case NonFatal(failed) =>
        out.close()
        Files.deleteIfExists(file)
        throw failed
    }
    new BufferedOutputStream(out, BufferBytes)
  }

  private[streamjoin] def publish(temporary: NioPath, file: NioPath, overwrite: Boolean): Unit =
    try {
      if (!overwrite && Files.exists(file)) throw alreadyExists(file)
      // First, because a missing checksum does no harm, but the checksum of other contents makes
      // the file unreadable.
      Files.deleteIfExists(checksum(file))
      if (overwrite) Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE)
      else moveUnlessExists(temporary, file)
    } catch {
      case gone: NoSuchFileException => throw notFound(gone)
    }

  /** Links the file, because a rename would replace an existing one. */
  private def moveUnlessExists(temporary: NioPath, file: NioPath): Unit =
    try
      try link(file, temporary)
      catch {
        case exists: NioFileAlreadyExists => throw exists
        case gone: NoSuchFileException => throw gone
        // This file system has no hard links: check and rename, as Spark's managers do.
        case _: UnsupportedOperationException | _: FileSystemException => Files.move(temporary, file)
      }
    catch {
      case _: NioFileAlreadyExists => throw alreadyExists(file)
    }

  private[streamjoin] def link(file: NioPath, temporary: NioPath): Unit =
    Files.createLink(file, temporary): Unit

  /** Uses Hadoop's own streams, which start no process. */
  override def open(path: Path): FSDataInputStream = {
    val files = if (Files.exists(checksum(local(path)))) hadoops else hadoops.getRawFileSystem
    files.open(path)
  }

  private lazy val hadoops = {
    val files = new LocalFileSystem
    files.initialize(Root, hadoopConf)
    files
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val found =
      try
        Using.resource(Files.newDirectoryStream(local(path))) { children =>
          children.asScala
            .map(_.getFileName.toString)
            .filterNot(isChecksum)
            // Not parsed as a URI: a name may have a colon.
            .map(name => new Path(qualified(path), new Path(null, null, name)))
            .toArray
        }
      catch {
        case _: NotDirectoryException => Array(qualified(path))
        case gone: NoSuchFileException => throw notFound(gone)
      }
    found.filter(filter.accept).flatMap(status)
  }

  /** None if the file has been deleted meanwhile. */
  private def status(path: Path): Option[FileStatus] =
    try {
      val of = Files.readAttributes(local(path), classOf[BasicFileAttributes])
      Some(new FileStatus(of.size, of.isDirectory, 1, BlockBytes, of.lastModifiedTime.toMillis, path))
    } catch {
      case _: NoSuchFileException => None
    }

  override def mkdirs(path: Path): Unit = makeFolder(local(path))

  private def makeFolder(folder: NioPath): Unit = if (!Files.isDirectory(folder)) {
    Option(folder.getParent).foreach(makeFolder)
    try {
      Files.createDirectory(folder)
      permit(folder, FsPermission.getDirDefault)
    } catch {
      // Another writer has just created it, or it is a file.
      case _: NioFileAlreadyExists => if (!Files.isDirectory(folder)) throw alreadyExists(folder)
    }
  }

  private def permit(file: NioPath, default: FsPermission): Unit = if (HasPermissions) {
    val permission = default.applyUMask(FsPermission.getUMask(hadoopConf))
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permission.toString)): Unit
  }

  override def exists(path: Path): Boolean = Files.exists(local(path))

  override def delete(path: Path): Unit =
    try {
      val file = local(path)
      // First, as in publish.
      Files.deleteIfExists(checksum(file))
      deleteAll(file)
    } catch {
      // As in Spark's managers, files that cannot be deleted stay.
      case failed: FileSystemException => logWarning(s"Could not delete $path", failed)
    }

  private def deleteAll(file: NioPath): Unit = {
    // Links are not followed: their targets stay.
    if (Files.isDirectory(file, LinkOption.NOFOLLOW_LINKS))
      try Using.resource(Files.newDirectoryStream(file))(_.asScala.foreach(deleteAll))
      catch { case _: NoSuchFileException => }
    Files.deleteIfExists(file): Unit
  }

  override def isLocal: Boolean = true

  override def createCheckpointDirectory(): Path = {
    mkdirs(root)
    qualified(root)
  }
}

private[files] object NioFiles {
  private val Root = URI.create("file:///")
  private val BufferBytes = 64 * 1024

  /** Hadoop's default block size. */
  private val BlockBytes = 32L * 1024 * 1024

  private val HasPermissions = FileSystems.getDefault.supportedFileAttributeViews.contains("posix")

  def local(path: Path): NioPath = NioPath.of(qualified(path).toUri.getPath)

  private def qualified(path: Path): Path = path.makeQualified(Root, new Path(sys.props("user.dir")))

  /** The temporary name that Spark's managers use, in the same folder. */
  private def temporary(path: Path): Path = {
    val task = Option(TaskContext.get()).fold("")(context => s".TID${context.taskAttemptId()}")
    new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}$task.tmp")
  }

  /** Hadoop's hidden checksum file; Spark's own `name.crc` is a file like any other. */
  private def checksum(file: NioPath): NioPath = file.resolveSibling(s".${file.getFileName}.crc")
  private def isChecksum(name: String): Boolean = name.startsWith(".") && name.endsWith(".crc")

  private def alreadyExists(file: NioPath) = new FileAlreadyExistsException(s"$file already exists")
  private def notFound(gone: NoSuchFileException) =
    new FileNotFoundException(s"${gone.getFile} does not exist").initCause(gone)
}

/** Writes a temporary file, and publishes it under its name when it is closed. */
final private class AtomicOutput(files: NioFiles, temporary: NioPath, file: NioPath, overwrite: Boolean)
    extends CancellableFSDataOutputStream(files.create(temporary)) {

  private var ended = false

  override def close(): Unit = end {
    underlyingStream.close()
    files.publish(temporary, file, overwrite)
  }

  override def cancel(): Unit = end {
    try underlyingStream.close()
    catch { case NonFatal(_) => }
  }

  private def end(how: => Unit): Unit = synchronized {
    if (!ended) {
      ended = true
      try how
      finally Files.deleteIfExists(temporary)
    }
  }
}
