package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.{DateTimeUtils, UnsafeRowUtils}
import org.apache.spark.sql.streamjoin.time.BatchTime
import org.apache.spark.sql.types._

/** The two sides of an equality, as keys by which rows are stored and looked up. */
private[streamjoin] object EquiKeys {

  /**
   * Uses collation keys for collated strings. Spark inserts them for plain columns only
   * (RewriteCollationJoin).
   */
  def comparable(left: Expression, right: Expression): (Expression, Expression) =
    if (left.dataType.isInstanceOf[StringType] && !UnsafeRowUtils.isBinaryStable(left.dataType))
      (CollationKey(left), CollationKey(right))
    else (left, right)

  /** Keys that are never null, for an equality under which null equals null. */
  def nullSafe(left: Expression, right: Expression): Seq[(Expression, Expression)] = {
    // As in ExtractEquiJoinKeys.
    def value(key: Expression) = Coalesce(Seq(key, Literal.default(key.dataType)))
    Seq(value(left) -> value(right), IsNull(left) -> IsNull(right))
  }

  /** Whether equal keys have equal bytes, and a row has the same key in every batch. */
  def areLasting(left: Expression, right: Expression): Boolean = {
    val keys = comparable(left, right)
    UnsafeRowUtils.isBinaryStable(keys._1.dataType) && Seq(left, right).forall(isLasting)
  }

  /** Whether a cast maps different values to different values. */
  def isOneToOne(from: DataType, to: DataType): Boolean = (from, to) match {
    case _ if from == to => true
    case (LongType, FloatType | DoubleType) | (IntegerType, FloatType) => false
    case (_: NumericType, _: NumericType) => Cast.canUpCast(from, to)
    case (DateType, TimestampType | TimestampNTZType) => true
    // Not a TIMESTAMP: its text repeats for an hour when clocks are set back. Not a collated
    // string: different texts may be equal.
    case (_: NumericType | DateType | TimestampNTZType | BooleanType, StringType) => Cast.canUpCast(from, to)
    case _ => false
  }

  /** The property of a checkpoint with the result of [[zone]]. */
  val ZoneProperty = "time_zone_of_equality"

  /** In place of a time zone, where none matters. */
  val NoZone = "none"

  /**
   * The time zone in which keys are computed, such as the day of a timestamp; [[NoZone]] if they
   * are the same in all zones. Rows in state keep the keys that were computed in the zone of their
   * time.
   */
  def zone(keys: Seq[Expression]): String = {
    val zones = keys.flatMap(_.collect {
      case cast: Cast if Cast.needsTimeZone(cast.child.dataType, cast.dataType) => cast.timeZoneId
      case _: Cast => None
      case other: TimeZoneAwareExpression => other.timeZoneId
    })
    val ids = zones.flatten.map(DateTimeUtils.getZoneId(_).normalized.getId).distinct.sorted
    if (ids.isEmpty) NoZone else ids.mkString(", ")
  }

  /** A stored key keeps its value from the batch in which its row arrived. */
  private def isLasting(key: Expression): Boolean = key.deterministic && !BatchTime.isIn(key)
}
