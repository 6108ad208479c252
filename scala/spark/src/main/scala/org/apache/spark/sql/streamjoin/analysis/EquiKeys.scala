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
    case _ if from == to => true
    case (LongType, FloatType | DoubleType) | (IntegerType, FloatType) => false
    case (_: NumericType, _: NumericType) => Cast.canUpCast(from, to)
    case (DateType, TimestampType | TimestampNTZType) => true
    // Not a TIMESTAMP: there is an hour that comes twice. Texts of a collation may be equal to
    // others.
    case (_: NumericType | DateType | TimestampNTZType | BooleanType, StringType) => Cast.canUpCast(from, to)
    case _ => false
  }

  /** A stored key is that of the batch in which its row came. */
  private def isLasting(key: Expression): Boolean = key.deterministic && !BatchTime.isIn(key)
}
