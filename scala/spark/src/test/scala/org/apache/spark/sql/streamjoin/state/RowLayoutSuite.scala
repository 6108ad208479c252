package org.apache.spark.sql.streamjoin.state

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Keys and times in Spark's row format: keys are equal if and only if their projections are. */
class RowLayoutSuite extends StateTest {

  private val struct = new StructType()
    .add("a", IntegerType)
    .add("b", StringType)
    .add("c", DecimalType(38, 2))
  private val types: Seq[DataType] = Seq(
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DateType,
    TimestampType,
    DecimalType(10, 2),
    DecimalType(38, 2),
    StringType,
    BinaryType,
    ArrayType(IntegerType),
    struct
  )

  private val texts =
    Seq("", "a", "b", "1234567", "12345678", "123456789", "a longer text 1", "a longer text 2", "é")

  /** Few distinct values, so that many are equal; others differ in a word, a byte or a length. */
  private def value(random: Random, of: DataType): Any = {
    def one[T](choices: T*): T = choices(random.nextInt(choices.size))
    of match {
      case BooleanType => random.nextBoolean()
      case ByteType => one[Byte](0, 1, -1, 127)
      case ShortType => one[Short](0, 1, -1, 256)
      case IntegerType | DateType => one(0, 1, -1, 1 << 16, Int.MaxValue, Int.MinValue)
      case LongType | TimestampType => one(0L, 1L, -1L, 1L << 32, 1L << 62, Long.MinValue)
      case FloatType => one(0f, 1f, -1f, Float.NaN, Float.MinPositiveValue)
      case DoubleType => one(0d, 1d, -1d, Double.NaN, Double.MinPositiveValue)
      case decimal: DecimalType =>
        val digits = one("0", "1", "-1", "255", "256") +
          (if (decimal.precision > 18 && random.nextBoolean()) one("0000000000000000000000000001", "9" * 30)
           else "00")
        Decimal(BigDecimal(BigInt(digits), decimal.scale), decimal.precision, decimal.scale)
      case StringType => UTF8String.fromString(one(texts: _*))
      case BinaryType => one(texts: _*).getBytes("UTF-8")
      case _: ArrayType => ArrayData.toArrayData(Array.fill(random.nextInt(3))(random.nextInt(2)))
      case fields: StructType =>
        InternalRow.fromSeq(fields.map { field =>
          if (random.nextInt(3) > 0) null else value(random, field.dataType)
        })
      case other => fail(s"no value of $other")
    }
  }

  /** Rows with a key somewhere among other columns. */
  private class Rows(random: Random, keyTypes: Seq[DataType]) {
    private val (before, after) =
      (
        Seq.fill(random.nextInt(3))(types(random.nextInt(types.size))),
        Seq.fill(random.nextInt(60))(StringType)
      )
    private val all = (before ++ keyTypes ++ after) :+ LongType :+ LongType
    private val keys = keyTypes.indices.map(_ + before.size)
    private val timesAt = all.size - 2
    val layout = new RowLayout(all, keys.toArray, Array(timesAt, timesAt + 1), Array(1, 0))
    private val row = UnsafeProjection.create(all.toArray)
    private val key = UnsafeProjection.create(keys.map(i => BoundReference(i, all(i), nullable = false)))

    def next(): (UnsafeRow, UnsafeRow) = {
      val values = all.zipWithIndex.map { case (of, i) =>
        // Other columns do not matter, null or not.
        if (!keys.contains(i) && i < timesAt && random.nextBoolean()) null else value(random, of)
      }
      val made = row(InternalRow.fromSeq(values)).copy()
      (key(made).copy(), made)
    }
  }

  for (of <- SparkTest.part(types, every = 3, from = 2))
    test(s"keys are equal if and only if their projections are: ${of.simpleString}") {
      val (same, different) = compared((1 to 20).map(seed => new Random(seed) -> Seq(of)))
      assert(same > 10, "both occur")
      assert(different > 10, "both occur")
    }

  test("keys of several columns are equal if and only if their projections are") {
    seeds(default = if (SparkTest.isLong) 150 else 50) { seed =>
      val random = new Random(seed)
      compared(Seq(random -> Seq.fill(2 + random.nextInt(2))(types(random.nextInt(types.size))))): Unit
    }
  }

  /** How many pairs were equal, and how many were not. */
  private def compared(cases: Seq[(Random, Seq[DataType])]): (Int, Int) = {
    val equal = for {
      (random, keyTypes) <- cases
      sides = Seq.fill(2)(new Rows(random, keyTypes))
      rows = sides.map(side => Seq.fill(25)(side.next()))
      (layout, other) = (sides.head.layout, sides(1).layout)
      (key, row) <- rows.head
      (otherKey, otherRow) <- rows(1)
    } yield {
      val (base, at) = (row.getBaseObject, row.getBaseOffset)
      val (otherBase, otherAt) = (otherRow.getBaseObject, otherRow.getBaseOffset)
      withClue(s"keys $keyTypes, $key and $otherKey: ") {
        assert(layout.sameKey(base, at, other, otherBase, otherAt) == (key == otherKey))
        assert(other.sameKey(otherBase, otherAt, layout, base, at) == (key == otherKey))
        if (key == otherKey) assert(layout.hash(base, at) == other.hash(otherBase, otherAt))
      }
      key == otherKey
    }
    (equal.count(identity), equal.count(!_))
  }

  test("a row can be read wherever it lies in memory") {
    val random = new Random(5)
    val rows = new Rows(random, Seq(StringType, LongType))
    (1 to 50).foreach { _ =>
      val (_, row) = rows.next()
      val shifted = new Array[Byte](row.getSizeInBytes + 24)
      row.writeToMemory(shifted, Platform.BYTE_ARRAY_OFFSET + 16L)
      val at = Platform.BYTE_ARRAY_OFFSET + 16L
      val layout = rows.layout
      assert(layout.hash(shifted, at) == layout.hash(row.getBaseObject, row.getBaseOffset))
      assert(layout.sameKey(shifted, at, layout, row.getBaseObject, row.getBaseOffset))
      val last = row.numFields - 1
      assert(layout.time(shifted, at, 0) == row.getLong(last - 1))
      assert(layout.time(shifted, at, 1) == row.getLong(last))
      // In this layout, expiry time 0 is the second time.
      assert(layout.expiryTime(shifted, at, 0) == row.getLong(last))
      assert(layout.expiryTime(shifted, at, 1) == row.getLong(last - 1))
    }
  }

  private val count = 20000
  private val patterns: Seq[(String, DataType, Int => Any)] = Seq(
    ("numbers in order", LongType, i => i.toLong),
    ("negative numbers", LongType, i => -i.toLong),
    ("numbers far apart", LongType, i => i * 1000000L),
    ("numbers in the upper half", LongType, i => i.toLong << 32),
    ("numbers at the very top", LongType, i => i.toLong << 48),
    ("integers", IntegerType, i => i),
    ("whole doubles", DoubleType, i => i.toDouble),
    ("texts with one beginning", StringType, i => UTF8String.fromString(s"a customer with the number $i")),
    ("texts with one end", StringType, i => UTF8String.fromString(s"$i is the number of the customer")),
    ("decimals", DecimalType(38, 2), i => Decimal(BigDecimal(i), 38, 2))
  )

  for ((name, of, make) <- patterns) test(s"keys spread over the slots: $name") {
    val rows = UnsafeProjection.create(Array[DataType](of, LongType))
    val layout = new RowLayout(Seq(of, LongType), Array(0), Array(1), Array(0))
    val (segment, _) = segmentOf(
      layout,
      new IndexMemory(Long.MaxValue),
      (0 until count).map(i => rows(InternalRow(make(i), 0L)).copy())
    )
    val starts = segment.keys.index.starts
    val sizes = (1 until starts.length).map(s => starts(s) - starts(s - 1))
    // As many slots as rows: by chance alone the fullest has seven or eight rows, and a third have
    // none.
    assert(sizes.max <= SegmentIndex.Crowded)
    assert(sizes.count(_ == 0) < count / 2)
  }
}
