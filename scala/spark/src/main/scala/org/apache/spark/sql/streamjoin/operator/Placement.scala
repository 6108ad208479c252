package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/** Which partition of an operator the rows of one of its inputs are in. */
sealed private[streamjoin] trait Placement {

  /**
   * The partition of a row.
   *
   * @param types
   *   types of its fields
   * @param partitions
   *   number of partitions
   */
  def partition(types: Seq[DataType], partitions: Int): UnsafeRow => Int
}

private[streamjoin] object Placement {

  /** By the hash of some fields, as Spark's exchange has it. */
  final case class ByFields(fields: Seq[Int]) extends Placement {
    override def partition(types: Seq[DataType], partitions: Int): UnsafeRow => Int = {
      val keys = fields.map(field => BoundReference(field, types(field), nullable = true))
      val hash = UnsafeProjection.create(Seq(HashPartitioning(keys, partitions).partitionIdExpression))
      row => hash(row).getInt(0)
    }
  }

  /** In any: all tasks treat all rows alike. */
  case object Anywhere extends Placement {
    override def partition(types: Seq[DataType], partitions: Int): UnsafeRow => Int = row =>
      Math.floorMod(
        Murmur3_x86_32.hashUnsafeWords(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 42),
        partitions
      )
  }

  /** All in one. */
  final case class InTask(partition: Int) extends Placement {
    override def partition(types: Seq[DataType], partitions: Int): UnsafeRow => Int = _ => partition
  }
}
