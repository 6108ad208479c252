package org.apache.spark.sql.streamjoin.files

import java.nio.file.InvalidPathException

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.local.LocalFs

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinConf

/**
 * Manages the files of checkpoints: with [[NioFiles]] on a local disk, with [[ObjectStoreFiles]] on
 * an object store, and with Spark's own choice everywhere else. Spark creates it from its class
 * name in `spark.sql.streaming.checkpointFileManagerClass`.
 */
final class AtomicCheckpointFileManager(path: Path, hadoopConf: Configuration) extends CheckpointFileManager {
  import AtomicCheckpointFileManager._

  private[files] val files: CheckpointFileManager =
    // A session that switches streamjoin off later still has the setting.
    if (!hadoopConf.getBoolean(StreamJoinConf.Enabled.key, true)) sparks(path, hadoopConf)
    else if (isLocalDisk(path, hadoopConf)) new NioFiles(path, hadoopConf)
    else if (ObjectStoreFiles.areAt(path, hadoopConf)) new ObjectStoreFiles(path, hadoopConf)
    else sparks(path, hadoopConf)

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream =
    files.createAtomic(path, overwriteIfPossible)
  override def open(path: Path): FSDataInputStream = files.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = files.list(path, filter)
  override def mkdirs(path: Path): Unit = files.mkdirs(path)
  override def exists(path: Path): Boolean = files.exists(path)
  override def delete(path: Path): Unit = files.delete(path)
  override def isLocal: Boolean = files.isLocal
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
  override def close(): Unit = files.close()
}

private[streamjoin] object AtomicCheckpointFileManager {

  /**
   * The setting for the manager of checkpoint files. Hadoop's configuration contains it, as it
   * contains all settings of the session.
   */
  val Setting: String = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key

  private def isLocalDisk(path: Path, conf: Configuration): Boolean = {
    val scheme = Option(path.toUri.getScheme).getOrElse(FileSystem.getDefaultUri(conf).getScheme)
    scheme == "file" &&
    // Users may have configured another file system for `file:`.
    conf.get("fs.AbstractFileSystem.file.impl", classOf[LocalFs].getName) == classOf[LocalFs].getName &&
    isRepresentable(path)
  }

  /**
   * Some locales cannot represent every file name (`sun.jnu.encoding`); Hadoop then writes question
   * marks.
   */
  private def isRepresentable(path: Path): Boolean =
    Try(NioFiles.local(path)).fold(error => !error.isInstanceOf[InvalidPathException], _ => true)

  /** Spark's default manager. */
  private def sparks(path: Path, conf: Configuration): CheckpointFileManager = {
    val unset = new Configuration(conf)
    unset.unset(Setting)
    CheckpointFileManager.create(path, unset)
  }
}
