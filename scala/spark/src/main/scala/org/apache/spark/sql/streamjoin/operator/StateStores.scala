package org.apache.spark.sql.streamjoin.operator

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.state.SegmentStore.{KeySchema, ValueSchema}

/** The state stores of an operator, one for each partition. Created on the driver for the tasks. */
final private[streamjoin] class StateStores(info: StatefulOperatorStateInfo, conf: SQLConf)
    extends Serializable {
  private val own = new StateStoreConf(StateStores.settings(conf))

  /** For a store that is only read: otherwise its reports would stay on the driver forever. */
  private val quiet = {
    val settings = StateStores.settings(conf)
    settings.setConf(SQLConf.STATE_STORE_COORDINATOR_REPORT_SNAPSHOT_UPLOAD_LAG, false)
    new StateStoreConf(settings)
  }

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
      own,
      hadoopConf
    )
    // A task that ends before its output has been consumed has not committed.
    TaskContext.get().addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())
    store
  }

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
      quiet,
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

  private val Changelogs = s"${RocksDBConf.ROCKSDB_SQL_CONF_NAME_PREFIX}.changelogCheckpointing.enabled"

  /**
   * RocksDB uploads a snapshot with every commit unless changelogs are enabled. They are enabled
   * here, unless the user has set them.
   */
  private def settings(conf: SQLConf): SQLConf = {
    val settings = conf.clone()
    // RocksDBConf also ignores the case of the name.
    if (!settings.getAllConfs.keys.exists(_.equalsIgnoreCase(Changelogs)))
      settings.setConfString(Changelogs, "true")
    settings
  }
}
