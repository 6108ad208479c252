package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Cast, CollationKey, Expression}
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.streamjoin.time.BatchTime
import org.apache.spark.sql.types._

/** The two sides of an equality, as keys by which rows are kept and found. */
private[streamjoin] object EquiKeys {

  /**
   * Strings of a collation by their collation keys, which Spark puts in for columns only
   * (RewriteCollationJoin).
   */
  def comparable(left: Expression, right: Expression): (Expression, Expression) =
    if (left.dataType.isInstanceOf[StringType] && !UnsafeRowUtils.isBinaryStable(left.dataType))
      (CollationKey(left), CollationKey(right))
    else (left, right)

  /** Equal keys have equal bytes, and are the same in every batch. */
  def areLasting(left: Expression, right: Expression): Boolean = {
    val keys = comparable(left, right)
    UnsafeRowUtils.isBinaryStable(keys._1.dataType) && Seq(left, right).forall(isLasting)
  }

  /** Of a value that was cast there is one that it can have been. */
  def isOneToOne(from: DataType, to: DataType): Boolean = (from, to) match {
    case (LongType, FloatType | DoubleType) | (IntegerType, FloatType) => false
    // An hour that comes twice.
    case (TimestampType, _: StringType) => false
    case _ => Cast.canUpCast(from, to)
  }

  /** A stored key is that of the batch in which its row came. */
  private def isLasting(key: Expression): Boolean = key.deterministic && !BatchTime.isIn(key)
}
