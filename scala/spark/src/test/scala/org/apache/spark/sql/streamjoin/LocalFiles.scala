package org.apache.spark.sql.streamjoin

import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}

/**
 * Local files with neither permissions nor checksums. Hadoop without its native library starts a `chmod` for each file
 * and folder that it makes, and a batch of a few rows is mostly that.
 */
class LocalFiles extends LocalFileSystem(new FilesWithoutPermissions) {
  setWriteChecksum(false)
  setVerifyChecksum(false)
}

private class FilesWithoutPermissions extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = ()
}
