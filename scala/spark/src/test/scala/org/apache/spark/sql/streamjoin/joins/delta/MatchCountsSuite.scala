package org.apache.spark.sql.streamjoin.joins.delta

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.types.{DoubleType, IntegerType, LongType}

/**
 * The matches of rows, counted by what a condition compares: as many as a test of each pair finds.
 */
class MatchCountsSuite extends AnyFunSuite {
  private val k = AttributeReference("k", IntegerType)()
  private val a = AttributeReference("a", IntegerType)()
  private val x = AttributeReference("x", DoubleType)()
  private val row = Seq(k, a, x)
  private val copies = AttributeReference("copies", LongType, nullable = false)()
  private val b = AttributeReference("b", IntegerType)()
  private val y = AttributeReference("y", DoubleType)()
  private val found = Seq(copies, AttributeReference("k", IntegerType)(), b, y)

  private def condition(conjuncts: Seq[Expression]) =
    MatchCondition.of(conjuncts, Seq(k), row, found)

  /** How often rows of a key were read, and how many of them. */
  private class Table(rows: Seq[InternalRow]) {
    private val byKey = rows.groupBy(_.getInt(1))
    var looked = 0
    def look(row: InternalRow): Iterator[InternalRow] =
      byKey.getOrElse(row.getInt(0), Nil).iterator.map { other =>
        looked += 1
        new JoinedRow(row, other)
      }
  }

  private def conjunct(random: Random): Expression = random.nextInt(9) match {
    case 0 => EqualTo(a, b)
    case 1 => EqualTo(y, x)
    case 2 => EqualNullSafe(b, a)
    case 3 => EqualNullSafe(x, y)
    case 4 => LessThanOrEqual(a, b)
    case 5 => Not(EqualTo(a, Literal(1)))
    case 6 => GreaterThan(y, Literal(0.5))
    case 7 => EqualTo(Add(a, Literal(1)), b)
    case _ => Or(EqualTo(a, b), LessThan(x, y))
  }

  test("counts are those of a test of each pair") {
    for (seed <- 1 to (if (SparkTest.isLong) SparkTest.seeds(default = 300) else 150)) {
      val random = new Random(seed)
      def number(): Any = if (random.nextInt(6) == 0) null else random.nextInt(3)
      def float(): Any = random.nextInt(6) match {
        case 0 => null
        case 1 => -0.0
        case 2 => 0.0
        case 3 => java.lang.Double.longBitsToDouble(-1)
        case 4 => Double.NaN
        case _ => 1.0
      }
      val rows = Seq.fill(random.nextInt(40))(InternalRow(random.nextInt(3), number(), float()))
      val others = Seq.fill(random.nextInt(40)) {
        InternalRow(random.nextInt(5) - 2L, random.nextInt(3), number(), float())
      }
      val conjuncts = Seq.fill(random.nextInt(4))(conjunct(random))
      val holds = PredicateParts
        .all(conjuncts)
        .map(all => Predicate.create(BindReferences.bindReference(all, row ++ found)))
      val counts = new MatchCounts(condition(conjuncts), new Table(others).look)
      rows.foreach { row =>
        val matches = new Table(others).look(row).filter(pair => holds.forall(_.eval(pair)))
        assert(counts.of(row) == matches.map(_.getLong(3)).sum, s"seed $seed: $row, ${conjuncts.map(_.sql)}")
      }
    }
  }

  test("the rows of a key are read once, however many rows have it") {
    val others = (0 until 3000).map(i => InternalRow(1L, i % 2, i, i.toDouble))
    for (conjuncts <- Seq(Nil, Seq(EqualTo(a, b)), Seq(EqualTo(a, b), EqualNullSafe(y, x)))) {
      val table = new Table(others)
      val counts = new MatchCounts(condition(conjuncts), table.look)
      (0 until 3000).foreach { i =>
        val expected = if (conjuncts.isEmpty) 1500 else 1
        assert(counts.of(InternalRow(i % 2, i, i.toDouble)) == expected)
      }
      assert(table.looked == 3000)
    }
  }

  if (SparkTest.isLong) test("a table that is too large to be remembered is counted as well") {
    // Each key has more groups than are remembered for all.
    val others = (0 until 300000).map(i => InternalRow(1L, i % 2, i, 0.0))
    val counts = new MatchCounts(condition(Seq(EqualTo(a, b))), new Table(others).look)
    for (i <- 0 until 6) assert(counts.of(InternalRow(i % 2, i, 0.0)) == 1)
  }
}
