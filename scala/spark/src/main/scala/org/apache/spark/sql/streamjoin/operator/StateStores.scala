package org.apache.spark.sql.streamjoin.operator

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.state.SegmentStore.{KeySchema, ValueSchema}

/**
 * The state stores of an operator, one for each partition. Made on the driver, for its tasks.
 *
 * @param provider
 *   class of their provider, if it is not that of the settings
 * @param firstBatch
 *   the batch whose state is version 0 of the stores
 */
final private[streamjoin] class StateStores(
    info: StatefulOperatorStateInfo,
    val firstBatch: Long,
    conf: SQLConf,
    provider: Option[String] = None
) extends Serializable {
  def partitions: Int = info.numPartitions

  /** The same stores, before anything was written. */
  def empty: StateStores =
    new StateStores(info.copy(storeVersion = 0, stateStoreCkptIds = None), firstBatch, conf, provider)

  private val validatesCommits = conf.getConf(SQLConf.STATE_STORE_COMMIT_VALIDATION_ENABLED)

  private val writing = {
    val settings = StateStores.settings(conf, provider)
    // Spark takes a version for the number of a batch.
    if (firstBatch != 0) {
      settings.setConf(SQLConf.STATE_STORE_COORDINATOR_REPORT_SNAPSHOT_UPLOAD_LAG, false)
      settings.setConf(SQLConf.STATE_STORE_COMMIT_VALIDATION_ENABLED, false)
    }
    new StateStoreConf(settings)
  }

  private val reading = StateStores.toRead(StateStores.settings(conf, provider), info)

  def id(partition: Int): StateStoreProviderId =
    StateStoreProviderId(info, partition, StateStoreId.DEFAULT_STORE_NAME)

  /**
   * The store of a task's partition, at the version that the batch starts from. Changes that are
   * not committed are discarded.
   */
  def open(partition: Int, hadoopConf: Configuration): StateStore = {
    val store = StateStore.get(
      id(partition),
      KeySchema,
      ValueSchema,
      NoPrefixKeyStateEncoderSpec(KeySchema),
      info.storeVersion,
      info.getStateStoreCkptId(partition).map(_.head),
      None,
      useColumnFamilies = false,
      writing,
      hadoopConf
    )
    // A task that ends before its output has been consumed has not committed.
    TaskContext.get().addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())
    store
  }

  /**
   * Reports the commit of a batch, for which `foreachBatch` waits. Stores whose versions have the
   * numbers of batches report it themselves.
   *
   * @param version
   *   the committed version of the store
   */
  def reportCommit(partition: Int, version: Long, hadoopConf: Configuration): Unit =
    if (firstBatch != 0 && validatesCommits)
      StateStore.reportCommitToCoordinator(version + firstBatch, id(partition).storeId, hadoopConf)

  /** Reads the store of another partition, at the version that the batch starts from. */
  def read(partition: Int, hadoopConf: Configuration)(
      use: ReadStateStore => Unit
  ): Unit = {
    val opened = openToRead(partition, hadoopConf)
    try use(opened.store)
    finally opened.close()
  }

  /** Reads the store of another partition; the caller has to close it. */
  def openToRead(partition: Int, hadoopConf: Configuration): StateStores.Opened = {
    val provider = StateStoreProvider.createAndInit(
      // A fresh run id gives a separate provider: the partition's own task may run in this process,
      // and a store serves one task at a time.
      id(partition).copy(queryRunId = UUID.randomUUID()),
      KeySchema,
      ValueSchema,
      NoPrefixKeyStateEncoderSpec(KeySchema),
      useColumnFamilies = false,
      reading,
      new Configuration(hadoopConf),
      useMultipleValuesPerKey = false,
      None
    )
    try
      StateStores.Opened(
        provider,
        provider.getReadStore(info.storeVersion, info.getStateStoreCkptId(partition).map(_.head))
      )
    catch {
      case failed: Throwable =>
        provider.close()
        throw failed
    }
  }
}

private[streamjoin] object StateStores {

  /** A store with the provider that was created for it. */
  final case class Opened(provider: StateStoreProvider, store: ReadStateStore) extends AutoCloseable {
    override def close(): Unit =
      try store.release()
      finally provider.close()
  }

  /**
   * For stores that are only read: in the format in which they were written, with ids or without,
   * and without reports of snapshots, which would stay on the driver forever.
   *
   * @param settings
   *   are changed
   */
  def toRead(settings: SQLConf, info: StatefulOperatorStateInfo): StateStoreConf = {
    settings.setConf(SQLConf.STATE_STORE_COORDINATOR_REPORT_SNAPSHOT_UPLOAD_LAG, false)
    settings.setConf(
      SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION,
      if (info.stateStoreCkptIds.isDefined) 2 else 1
    )
    new StateStoreConf(settings)
  }

  private val Changelogs = s"${RocksDBConf.ROCKSDB_SQL_CONF_NAME_PREFIX}.changelogCheckpointing.enabled"

  /**
   * RocksDB uploads a snapshot with every commit unless changelogs are enabled. They are enabled
   * here, unless the user has set them.
   */
  private def settings(conf: SQLConf, provider: Option[String]): SQLConf = {
    val settings = conf.clone()
    provider.foreach(settings.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, _))
    // RocksDBConf also ignores the case of the name.
    if (!settings.getAllConfs.keys.exists(_.equalsIgnoreCase(Changelogs)))
      settings.setConfString(Changelogs, "true")
    settings
  }
}
