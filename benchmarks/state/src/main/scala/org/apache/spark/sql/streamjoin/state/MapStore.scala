package org.apache.spark.sql.streamjoin.state

import java.util.{HashMap => JHashMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** A state store that is a map and nothing else; all versions are one. */
final private[state] class MapStore extends StateStore {
  private val values = new JHashMap[UnsafeRow, UnsafeRow]

  override def id: StateStoreId = StateStoreId("memory", 0, 0)
  override def version: Long = 0
  override def get(key: UnsafeRow, family: String): UnsafeRow = values.get(key)
  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit =
    values.put(key.copy(), value.copy()): Unit
  override def remove(key: UnsafeRow, family: String): Unit = values.remove(key): Unit
  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] =
    new StateStoreIterator(
      values.asScala.iterator.map { case (key, value) => new UnsafeRowPair(key, value) },
      () => ()
    )
  override def commit(): Long = 0
  override def abort(): Unit = ()
  override def release(): Unit = ()
  override def hasCommitted: Boolean = true
  override def metrics: StateStoreMetrics = StateStoreMetrics(0, 0, Map.empty)

  private def unused = throw new UnsupportedOperationException("the engine does not use it")
  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = unused
  override def prefixScan(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] = unused
  def allColumnFamilyNames: Set[String] = unused
  def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] = unused
  def prefixScanWithMultiValues(
      prefix: UnsafeRow,
      family: String
  ): StateStoreIterator[UnsafeRowPair] = unused
  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = unused
  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = unused
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = unused
  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = unused
  override def createColFamilyIfAbsent(
      family: String,
      keySchema: StructType,
      valueSchema: StructType,
      encoder: KeyStateEncoderSpec,
      multiple: Boolean,
      internal: Boolean
  ): Unit = unused
  override def removeColFamilyIfExists(family: String): Boolean = unused
}
