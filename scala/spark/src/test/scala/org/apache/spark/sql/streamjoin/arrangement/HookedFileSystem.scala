package org.apache.spark.sql.streamjoin.arrangement

import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, FileStatus, Path}
import org.apache.hadoop.util.Progressable

import org.apache.spark.sql.streamjoin.LocalFilesWithoutProcesses

/** The local file system; a test sees each call before it is made, and may let it fail. */
abstract class HookedFileSystem extends LocalFilesWithoutProcesses {

  /** Calls are named look at, list, make, open, create, rename (with the new name) and delete. */
  protected def before(call: String, path: Path): Unit

  override def getFileStatus(path: Path): FileStatus = {
    before("look at", path)
    super.getFileStatus(path)
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    before("list", path)
    super.listStatus(path)
  }

  override def mkdirs(path: Path): Boolean = {
    before("make", path)
    super.mkdirs(path)
  }

  override def open(path: Path, bufferSize: Int): FSDataInputStream = {
    before("open", path)
    super.open(path, bufferSize)
  }

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    before("create", path)
    super.create(path, overwrite, bufferSize, replication, blockSize, progress)
  }

  override def rename(from: Path, to: Path): Boolean = {
    before("rename", to)
    super.rename(from, to)
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    before("delete", path)
    super.delete(path, recursive)
  }
}
