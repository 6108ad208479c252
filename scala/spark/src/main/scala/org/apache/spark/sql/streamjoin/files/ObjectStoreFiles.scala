package org.apache.spark.sql.streamjoin.files

import java.io.{FileNotFoundException, IOException}
import java.util.concurrent.ConcurrentHashMap

import scala.language.existentials
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/**
 * Manages the files of a checkpoint on an object store, such as S3 with `s3a:`. There a file
 * appears completely when its stream is closed, or never if the stream is aborted. So it is written
 * under its final name. Spark's default writes a temporary file and renames it, which an object
 * store implements by copying; and if two drivers rename to the same name, each believes that it
 * was first.
 *
 * A file that must not replace another is created by the store's conditional write (S3:
 * `If-None-Match`), so that exactly one of two writers wins. If the store has none, the file is
 * checked before and after the write, and the log says so.
 */
final private[files] class ObjectStoreFiles(root: Path, hadoopConf: Configuration)
    extends CheckpointFileManager
    with Logging {
  import ObjectStoreFiles._

  private val fs = root.getFileSystem(hadoopConf)

  private val isConditional = fs.hasPathCapability(root, Conditional)
  if (!isConditional && warned.add(fs.getUri.toString))
    logWarning(
      s"${fs.getUri} has no conditional writes: if two drivers run one query, both may write the same file of its checkpoint"
    )

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    if (!overwriteIfPossible && !isConditional) rejectExisting(path)
    val builder = fs.createFile(path)
    builder.overwrite(overwriteIfPossible)
    if (overwriteIfPossible) builder.opt(WithoutChecks, true)
    else if (isConditional) builder.must(Conditional, true)
    new Output(builder.build(), path, overwriteIfPossible)
  }

  private def rejectExisting(path: Path): Unit =
    if (fs.exists(path)) throw alreadyExists(path)

  private def alreadyExists(path: Path) = new FileAlreadyExistsException(s"$path already exists")

  private class Output(out: FSDataOutputStream, path: Path, mayReplace: Boolean)
      extends CancellableFSDataOutputStream(out) {
    private var isOver = false

    override def close(): Unit = if (!isOver) {
      isOver = true
      if (!mayReplace && !isConditional)
        try rejectExisting(path)
        catch {
          case NonFatal(failed) =>
            out.abort()
            throw failed
        }
      try super.close()
      catch {
        // Stores report a failed condition in different ways. Other failures end the query as well.
        case failed: IOException if !mayReplace && fs.exists(path) =>
          throw alreadyExists(path).initCause(failed)
      }
    }

    override def cancel(): Unit = if (!isOver) {
      isOver = true
      out.abort()
    }
  }

  override def open(path: Path): FSDataInputStream = fs.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = fs.listStatus(path, filter)
  override def mkdirs(path: Path): Unit = fs.mkdirs(path, FsPermission.getDirDefault): Unit
  override def exists(path: Path): Boolean = fs.exists(path)
  override def isLocal: Boolean = false

  override def delete(path: Path): Unit =
    try fs.delete(path, true): Unit
    catch { case _: FileNotFoundException => }

  override def createCheckpointDirectory(): Path = {
    val qualified = fs.makeQualified(root)
    mkdirs(qualified)
    qualified
  }
}

private[files] object ObjectStoreFiles {

  private val Conditional = Options.CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE

  /** For S3A; others ignore it. It writes without checking whether a file or a folder exists. */
  private val WithoutChecks = "fs.s3a.create.performance"

  /** The stores whose lack of conditional writes was logged. */
  private val warned = ConcurrentHashMap.newKeySet[String]()

  /** Whether the file system at a path creates files atomically and can abort them. */
  def areAt(path: Path, hadoopConf: Configuration): Boolean =
    try path.getFileSystem(hadoopConf).hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM)
    catch { case NonFatal(_) => false } // Spark's manager fails with the reason.
}
