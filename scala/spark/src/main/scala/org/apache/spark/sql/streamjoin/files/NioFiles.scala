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
 * The files of a checkpoint on a local disk, by calls of the JVM alone. Hadoop without its native
 * library starts processes (`chmod`, `readlink`) for each file that it writes, about ten of them in
 * Spark's default file manager.
 *
 * What Spark's managers promise holds here: a file appears whole or not at all, with the
 * permissions that Hadoop gives it. Like them it asks for no fsync: Hadoop's local file system does
 * none when a file is closed, and nothing in Spark's checkpoints calls `hsync`. Unlike them it
 *   - lets exactly one of two writers of a file win, who both must not replace it (theirs look
 *     first and rename then);
 *   - leaves no temporary file behind when a file cannot be written;
 *   - writes no `.name.crc`. Those that Spark's managers wrote are checked when the file is read,
 *     and removed when it is replaced or deleted.
 */
private[streamjoin] class NioFiles(root: Path, hadoopConf: Configuration)
    extends CheckpointFileManager
    with Logging {
  import NioFiles._

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream =
    new AtomicOutput(this, local(temporary(path)), local(path), overwriteIfPossible)

  private[streamjoin] def create(file: NioPath): OutputStream = {
    // Not a channel: that would be closed by an interruption of the thread, which is how a query is
    // stopped.
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
      // First: a checksum that is not there is not missed, that of another content makes a file
      // unreadable.
      Files.deleteIfExists(checksum(file))
      if (overwrite) Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE)
      else moveUnlessExists(temporary, file)
    } catch {
      case gone: NoSuchFileException => throw notFound(gone)
    }

  /** A rename replaces what is there, a hard link does not. */
  private def moveUnlessExists(temporary: NioPath, file: NioPath): Unit =
    try
      try link(file, temporary)
      catch {
        case exists: NioFileAlreadyExists => throw exists
        case gone: NoSuchFileException => throw gone
        // A file system without hard links: look and rename, as Spark's managers do.
        case _: UnsupportedOperationException | _: FileSystemException => Files.move(temporary, file)
      }
    catch {
      case _: NioFileAlreadyExists => throw alreadyExists(file)
    }

  private[streamjoin] def link(file: NioPath, temporary: NioPath): Unit =
    Files.createLink(file, temporary): Unit

  /** Hadoop's own streams, which start no process. */
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
            // A name is no URI: it may have a colon.
            .map(name => new Path(qualified(path), new Path(null, null, name)))
            .toArray
        }
      catch {
        case _: NotDirectoryException => Array(qualified(path))
        case gone: NoSuchFileException => throw notFound(gone)
      }
    found.filter(filter.accept).flatMap(status)
  }

  /** None if it has gone meanwhile. */
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
      // By another just now; or it is a file.
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
      // First: see publish.
      Files.deleteIfExists(checksum(file))
      deleteAll(file)
    } catch {
      // As in Spark's managers, where what cannot be deleted stays.
      case failed: FileSystemException => logWarning(s"Could not delete $path", failed)
    }

  private def deleteAll(file: NioPath): Unit = {
    // What a link leads to stays.
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

  /** Hadoop's default. */
  private val BlockBytes = 32L * 1024 * 1024

  private val HasPermissions = FileSystems.getDefault.supportedFileAttributeViews.contains("posix")

  def local(path: Path): NioPath = NioPath.of(qualified(path).toUri.getPath)

  private def qualified(path: Path): Path = path.makeQualified(Root, new Path(sys.props("user.dir")))

  /** The name that Spark's managers give it, in the same folder. */
  private def temporary(path: Path): Path = {
    val task = Option(TaskContext.get()).fold("")(context => s".TID${context.taskAttemptId()}")
    new Path(path.getParent, s".${path.getName}.${UUID.randomUUID}$task.tmp")
  }

  /** Hadoop's, hidden; one of Spark's own (`name.crc`) is a file like any other. */
  private def checksum(file: NioPath): NioPath = file.resolveSibling(s".${file.getFileName}.crc")
  private def isChecksum(name: String): Boolean = name.startsWith(".") && name.endsWith(".crc")

  private def alreadyExists(file: NioPath) = new FileAlreadyExistsException(s"$file already exists")
  private def notFound(gone: NoSuchFileException) =
    new FileNotFoundException(s"${gone.getFile} does not exist").initCause(gone)
}

/** Writes a temporary file, and gives it its name when it is closed. */
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
