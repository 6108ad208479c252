package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.execution.streaming.state.{HDFSBackedStateStoreProvider, StateStore}

/** Spark's default provider, with [[ReadCounting]]. */
class ReadCountingProvider extends HDFSBackedStateStoreProvider {
  override def getStore(
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore =
    ReadCounting.counted(super.getStore(version, uniqueId, forceSnapshotOnCommit, loadEmpty))
}
