package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.expressions._

/** Orders rows of both inputs by key, consistently with [[SortedRows.byKey]]. */
final private[temporal] class KeyOrder(left: InputSpec, right: InputSpec) {
  private val layouts = Seq(left, right).map(_.layout)
  private val keys = Seq(left, right).map(input => UnsafeProjection.create(input.keys, input.output))
  private val order = RowOrdering.create(
    right.keys.zipWithIndex.map { case (key, at) =>
      SortOrder(BoundReference(at, key.dataType, nullable = false), Ascending)
    },
    Nil
  )

  def isSame(a: UnsafeRow, ofA: Int, b: UnsafeRow, ofB: Int): Boolean =
    layouts(ofA).sameKey(a.getBaseObject, a.getBaseOffset, layouts(ofB), b.getBaseObject, b.getBaseOffset)

  /** @param ofA index of the input that `a` belongs to */
  def compare(a: UnsafeRow, ofA: Int, b: UnsafeRow, ofB: Int): Int = {
    val byHash = hash(a, ofA).compare(hash(b, ofB))
    if (byHash != 0) byHash
    else if (isSame(a, ofA, b, ofB)) 0
    else order.compare(keys(ofA)(a).copy(), keys(ofB)(b))
  }

  def hash(row: UnsafeRow, of: Int): Int = layouts(of).hash(row.getBaseObject, row.getBaseOffset)
}
