package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.types.{DoubleType, LongType, TimestampType}

/** Generated code computes what the interpreted expression does. */
class CarriedValueSuite extends AnyFunSuite {
  private val value = BoundReference(0, TimestampType, nullable = true)
  private val time = BoundReference(1, TimestampType, nullable = true)
  private val number = BoundReference(2, LongType, nullable = true)

  private val times = Seq(Long.MinValue, -1L, 0L, 5L, 1000L, Long.MaxValue - 7, Long.MaxValue)
  private val rows: Seq[InternalRow] = for {
    one <- None +: times.map(Some(_))
    other <- None +: times.map(Some(_))
    count <- Seq(None, Some(0L), Some(3L))
  } yield InternalRow(one.map(Long.box).orNull, other.map(Long.box).orNull, count.map(Long.box).orNull)

  /** The results of expressions for some rows, by generated code and interpreted. */
  private def both(expressions: Expression*)(of: Seq[InternalRow]): (Seq[Any], Seq[Any]) = {
    val types = expressions.map(_.dataType)
    val generated =
      GenerateUnsafeProjection.generate(expressions, subexpressionEliminationEnabled = true)
    val interpreted = InterpretedUnsafeProjection.createProjection(expressions)
    (of.map(generated(_).toSeq(types)), of.map(interpreted(_).toSeq(types)))
  }

  private def agree(expressions: Expression*): Unit = {
    val (generated, interpreted) = both(expressions: _*)(rows)
    generated.indices.foreach(at => assert(generated(at) == interpreted(at), rows(at)))
  }

  /** Fails for a row whose number is 0; null if the number is null. */
  private val failing = TimestampAdd(
    "MICROSECOND",
    Cast(Divide(Literal(6.0), Cast(number, DoubleType)), LongType),
    time,
    Some("UTC")
  )

  test("a value, null or not, with and without a limit") {
    for {
      of <- Seq(value, failing, Greatest(Seq(failing, value)), Literal(null, TimestampType))
      (from, max, cuts) <- Seq(
        (None, None, false),
        (Some(time), Some(100L), false),
        (Some(time), Some(100L), true),
        (Some(time), Some(Long.MaxValue), true)
      )
    } agree(CarriedValue(of, from, max, cuts))
  }

  test("a value that cannot be computed is the latest one, also if it is computed twice") {
    val twice = Greatest(Seq(failing, TimestampAdd("MICROSECOND", Literal(1L), failing, Some("UTC"))))
    val carried = CarriedValue(twice, Some(time), Some(100L), cuts = false)
    val row = Seq(InternalRow(5L, 7L, 0L))
    val (generated, interpreted) = both(carried, carried.copy(max = Some(50L)))(row)
    assert(generated == Seq(Seq(107L, 57L)))
    assert(interpreted == generated)
    val (open, _) = both(CarriedValue(twice, None, None, cuts = false))(row)
    assert(open == Seq(Seq(Long.MaxValue)))
  }

  test("whether a time is within the longest lifetime") {
    for {
      micros <- Seq(0L, 5L, 1000L, Long.MaxValue)
      strict <- Seq(true, false)
    } agree(WithinLifetime(value, time, micros, strict))
  }
}
