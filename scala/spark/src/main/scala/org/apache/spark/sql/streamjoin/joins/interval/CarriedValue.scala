package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block.BlockHelper
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types.{DataType, TimestampType}

import streamjoin.core.Watermark

/**
 * A value that decides how long its row is kept. If it cannot be computed, as when a sum of
 * timestamps overflows, the row is kept as long as a row may be: plain Spark computes the value
 * only for pairs with equal keys, so a row without a match must not fail the query.
 *
 * It is a conditional expression, because Spark computes what other expressions have in common
 * before all of them: outside of them, a failure would not be caught.
 *
 * @param time
 *   event time of the row
 * @param max
 *   longest distance of the value from that time, in microseconds
 * @param cuts
 *   whether a value further away is cut
 */
final private[streamjoin] case class CarriedValue(
    value: Expression,
    time: Option[Expression],
    max: Option[Long],
    cuts: Boolean
) extends ConditionalExpression {
  override def children: Seq[Expression] = value +: time.toSeq
  override def nullable: Boolean = true
  override def dataType: DataType = TimestampType
  override def prettyName: String = "carried_value"

  override def alwaysEvaluatedInputs: Seq[Expression] = Nil
  override def branchGroups: Seq[Seq[Expression]] = Nil
  override def withNewAlwaysEvaluatedInputs(inputs: Seq[Expression]): CarriedValue = this

  override def eval(input: InternalRow): Any = {
    val computed =
      try value.eval(input)
      catch { case _: Exception => latest(input) }
    computed match {
      case micros: Long if cuts => math.min(micros, latest(input))
      case other => other
    }
  }

  private def latest(input: InternalRow): Long = time.map(_.eval(input)) match {
    case Some(from: Long) => Watermark.postponed(from, -max.get)
    case _ => Long.MaxValue
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val computed = value.genCode(ctx)
    val from = time.map(_.genCode(ctx))
    val latest = ctx.freshName("latest")
    val own = if (cuts) s"Math.min(${computed.value}, $latest)" else computed.value.toString
    val limit = from.fold("Long.MAX_VALUE") { of =>
      s"${of.isNull} ? Long.MAX_VALUE : ${CarriedValue.later(of.value.toString, max.get)}"
    }
    val before = from.fold[Block](EmptyBlock)(_.code)
    ev.copy(code = code"""
      $before
      long $latest = $limit;
      boolean ${ev.isNull} = false;
      long ${ev.value} = $latest;
      try {
        ${computed.code}
        ${ev.isNull} = ${computed.isNull};
        if (!${ev.isNull}) ${ev.value} = $own;
      } catch (Exception e) {
        ${ev.isNull} = false;
      }""")
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): CarriedValue =
    copy(value = children.head, time = children.lift(1))
}

private[interval] object CarriedValue {
  private val Arithmetic = Watermark.getClass.getName.stripSuffix("$")

  /** In Java: a time and some microseconds, no later than the last time. */
  def later(time: String, micros: Long): String = s"$Arithmetic.postponed($time, ${-micros}L)"
}

/**
 * Whether a time of one side is at most the longest lifetime after a time of the other; if strict,
 * less than that.
 */
final private[streamjoin] case class WithinLifetime(
    left: Expression,
    right: Expression,
    micros: Long,
    strict: Boolean
) extends BinaryExpression
    with Predicate {
  override def prettyName: String = "within_lifetime"
  override def nullIntolerant: Boolean = true

  private def sign: String = if (strict) "<" else "<="

  override def sql: String = s"(${left.sql} $sign ${right.sql} + $micros microseconds)"

  override protected def nullSafeEval(time: Any, from: Any): Any = {
    val (own, last) = (time.asInstanceOf[Long], Watermark.postponed(from.asInstanceOf[Long], -micros))
    if (strict) own < last else own <= last
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    defineCodeGen(ctx, ev, (time, from) => s"$time $sign ${CarriedValue.later(from, micros)}")

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): WithinLifetime =
    copy(left = newLeft, right = newRight)
}
