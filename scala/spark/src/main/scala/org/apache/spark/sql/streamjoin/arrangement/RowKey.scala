package org.apache.spark.sql.streamjoin.arrangement

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.types.StructType

/**
 * The key of a row in an index: its columns, with -0.0 as 0.0, and their hash as Spark's shuffle
 * has it.
 *
 * @param ordinals
 *   of the key's columns in the rows
 */
final private[streamjoin] class RowKey(schema: StructType, ordinals: Seq[Int], partitions: Int) {
  private val attributes = toAttributes(schema)
  private val columns = ordinals.map(attributes).map(RowKey.normalized)
  private val projection = UnsafeProjection.create(columns, attributes)
  private val hashOf = RowKey.Hash(columns, attributes)
  private val keyAttributes = toAttributes(StructType(ordinals.map(schema)))
  private val hashOfColumns = RowKey.Hash(keyAttributes, keyAttributes)

  /** Reused by the next call. */
  def of(row: UnsafeRow): UnsafeRow = projection(row)

  def hash(row: UnsafeRow): Int = hashOf(row)

  /** The same hash, of the key alone. */
  def hashOfKey(key: UnsafeRow): Int = hashOfColumns(key)

  def partition(row: UnsafeRow): Int = RowKey.partition(hash(row), partitions)
}

private[streamjoin] object RowKey {

  def normalized(column: Expression): Expression = NormalizeFloatingNumbers.normalize(column)

  def partition(hash: Int, partitions: Int): Int = Math.floorMod(hash, partitions)

  /** The hash by which Spark's shuffle places rows (`HashPartitioning`). */
  final case class Hash(columns: Seq[Expression], input: Seq[Attribute]) {
    private val projection = UnsafeProjection.create(new Murmur3Hash(columns) :: Nil, input)

    def apply(row: UnsafeRow): Int = projection(row).getInt(0)
  }
}
