package org.apache.spark.sql.streamjoin.arrangement.storage

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types._

class StoredRowsSuite extends AnyFunSuite {
  private def schema(types: DataType*) = StructType(types.zipWithIndex.map { case (dataType, at) =>
    StructField(s"c$at", dataType)
  })

  private def block(of: StructType, rows: InternalRow*): Array[Byte] = {
    val (builder, project) = (new BlockBuilder, UnsafeProjection.create(of))
    rows.foreach(row => builder.add(project(row), 1))
    builder.rawBytes
  }

  /** Pairs of a narrow and a wide type, with values of the narrow one. */
  private val pairs: Seq[(DataType, DataType, Seq[Any])] = Seq(
    (ByteType, IntegerType, Seq(Byte.MinValue, 0.toByte, null)),
    (ShortType, FloatType, Seq(Short.MinValue, Short.MaxValue)),
    (IntegerType, LongType, Seq(Int.MinValue, Int.MaxValue, null)),
    (IntegerType, DoubleType, Seq(Int.MinValue, Int.MaxValue, -1)),
    (FloatType, DoubleType, Seq(-0.0f, 0.1f, Float.NaN, Float.PositiveInfinity, Float.MinPositiveValue)),
    (IntegerType, DecimalType(10, 0), Seq(Int.MinValue, Int.MaxValue)),
    (LongType, DecimalType(22, 2), Seq(Long.MinValue, Long.MaxValue, null)),
    (DecimalType(5, 2), DecimalType(20, 3), Seq(Decimal("123.45"), Decimal("-999.99"), null))
  )

  test("a row that is widened and narrowed again has the same bytes") {
    for ((narrow, wide, values) <- pairs) {
      assert(
        ChangedColumns.isWider(narrow, wide) && !ChangedColumns.isWider(wide, narrow),
        s"$narrow to $wide"
      )
      val (from, to) = (schema(narrow, StringType), schema(StringType, wide))
      val named = to.copy(fields = Array(to(0).copy(name = "c1"), to(1).copy(name = "c0")))
      val rows = block(from, values.map(value => InternalRow(value, null)): _*)
      val there = new StoredRows("", from, named).of(rows)
      assert(new StoredRows("", named, from).of(there).toSeq == rows.toSeq, s"$narrow to $wide")
    }
  }

  test("a value that does not fit is an error, and rounding is not a way to fit") {
    for (
      (wide, narrow, value) <- Seq[(DataType, DataType, Any)](
        (LongType, IntegerType, 1L << 40),
        (DoubleType, IntegerType, 1.5),
        (DoubleType, FloatType, 0.1),
        (DecimalType(20, 3), DecimalType(5, 2), Decimal("1.234"))
      )
    ) {
      val error = intercept[Exception](
        new StoredRows("/a", schema(wide), schema(narrow)).of(block(schema(wide), InternalRow(value)))
      )
      assert(error.getMessage.contains("STREAMJOIN_ARRANGEMENT_VALUE"), s"$wide to $narrow")
    }
  }

  test("types from which some values could not come back are not wider") {
    for (
      (from, to) <- Seq[(DataType, DataType)](
        (LongType, DoubleType),
        (IntegerType, FloatType),
        (IntegerType, StringType),
        (DateType, TimestampType),
        (DecimalType(10, 2), DoubleType),
        (DecimalType(10, 2), DecimalType(10, 3)),
        (ArrayType(IntegerType), ArrayType(LongType))
      )
    ) assert(!ChangedColumns.isWider(from, to), s"$from to $to")
  }

  test("columns that the reader lacks are left out, others are null") {
    val (stored, wanted) =
      (schema(IntegerType, LongType), new StructType().add("c1", LongType).add("d", StringType))
    val rows = new StoredRows("", stored, wanted)
    assert(rows.mayMerge && !new StoredRows("", wanted, wanted).mayMerge)
    assert(
      rows.of(block(stored, InternalRow(1, 2L))).toSeq == block(wanted, InternalRow(2L, null)).toSeq
    )
  }
}
