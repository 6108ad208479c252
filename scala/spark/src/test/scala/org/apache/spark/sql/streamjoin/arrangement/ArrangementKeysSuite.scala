package org.apache.spark.sql.streamjoin.arrangement

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{ArrangementTest, JoinTest, SparkTest}

/** Delta joins on keys of many types: the same keys are equal as in Spark's batch join. */
class ArrangementKeysSuite extends AnyFunSuite with ArrangementTest {

  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  /**
   * @param left
   *   SQL types of the left key columns; `leftRows` has their values as SQL
   */
  private case class Case(
      name: String,
      left: Seq[String],
      right: Seq[String],
      leftRows: Seq[String],
      rightRows: Seq[String],
      on: String
  )

  private val instants = Seq("TIMESTAMP'2024-06-01 00:00:00'", "TIMESTAMP'2024-06-01 10:00:00'", "NULL")
  private val dates = Seq("DATE'2024-06-01'", "DATE'2024-06-02'", "NULL")
  private val doubles = Seq("0.0D", "-0.0D", "DOUBLE('NaN')", "1.5D", "NULL")

  private def same(name: String, of: String, values: Seq[String]) =
    Seq("=", "<=>").map(op => Case(s"$name $op", Seq(of), Seq(of), values, values, s"a.k0 $op b.k0"))

  private def two(name: String, left: String, right: String, on: String = "a.k0 = b.k0")(
      leftRows: String*
  )(rightRows: String*) = Case(name, Seq(left), Seq(right), leftRows, rightRows, on)

  private val cases: Seq[Case] = Seq(
    same("string", "STRING", Seq("''", "'x'", "'X'", "'x '", "NULL")),
    same("double", "DOUBLE", doubles),
    same("float", "FLOAT", Seq("0.0F", "-0.0F", "FLOAT('NaN')", "NULL")),
    same("decimal", "DECIMAL(30,2)", Seq("1.10BD", "1.1BD", "-5BD", "12345678901234567890.12BD", "NULL")),
    same("date", "DATE", dates),
    same("boolean", "BOOLEAN", Seq("true", "false", "NULL")),
    same("binary", "BINARY", Seq("X'00'", "X''", "X'0000'", "NULL")),
    same("array", "ARRAY<DOUBLE>", Seq("array(0.0D)", "array(-0.0D)", "array()", "array(NULL)", "NULL")),
    same(
      "struct",
      "STRUCT<x: INT, y: DOUBLE>",
      Seq("struct(1, 0.0D)", "struct(1, -0.0D)", "struct(NULL, 1.0D)", "NULL")
    ),
    Seq(
      two("int = long", "INT", "BIGINT")("1", "-1", "NULL")("1L", "-1L", "4294967297L"),
      two("int <=> long", "INT", "BIGINT", "a.k0 <=> b.k0")("1", "NULL")("1L", "4294967297L", "NULL"),
      two("int = double", "INT", "DOUBLE")("1", "0", "NULL")("1.0D", "-0.0D", "1.5D", "1e300D"),
      two("float = double", "FLOAT", "DOUBLE")("0.1F", "0.5F")("0.1D", "0.5D", "DOUBLE(0.1F)"),
      two("int = decimal", "INT", "DECIMAL(12,2)")("1", "2")("1.00BD", "2.50BD", "9999999999.00BD"),
      two("decimals of two scales", "DECIMAL(10,2)", "DECIMAL(12,4)")("1.23BD", "2.00BD")(
        "1.2300BD",
        "1.2345BD",
        "2.0000BD"
      ),
      two("date = timestamp", "DATE", "TIMESTAMP")(dates: _*)(instants: _*),
      two("string = int", "STRING", "INT", "a.k0 = CAST(b.k0 AS STRING)")("'1'", "'2'")("1", "2", "NULL"),
      two("an expression on each side", "INT", "INT", "a.k0 = b.k0 + 1 AND b.k0 = a.k0 - 1")("1", "2", "3")(
        "0",
        "1",
        "2"
      ),
      Case(
        "two columns",
        Seq("INT", "STRING"),
        Seq("BIGINT", "STRING"),
        Seq("1, 'x'", "1, 'y'", "NULL, 'x'", "1, NULL"),
        Seq("1L, 'x'", "2L, 'y'", "NULL, 'x'", "1L, NULL"),
        "a.k0 = b.k0 AND a.k1 <=> b.k1"
      )
    )
  ).flatten

  /** `make test` runs two cases, `make test-long` all of them. */
  private val some = SparkTest.part(cases, every = 18, from = 9)

  for (each <- some) test(each.name) {
    def side(types: Seq[String], rows: Seq[String]) = {
      val names = types.indices.map(i => s"k$i")
      val schema = names.zip(types).map { case (name, of) => s"$name $of" } :+ "v INT" :+ "d INT"
      val it = maintainer(schema.mkString(", "), Seq(names), diff = Some("d"))
      val columns = names.zip(types).map { case (name, of) => s"CAST($name AS $of) AS $name" }
      val values = rows.zipWithIndex.map { case (row, at) => s"($row, $at)" }.mkString(", ")
      val from = s"VALUES $values AS t(${names.mkString(", ")}, v)"
      (it, spark.sql(s"SELECT ${columns.mkString(", ")}, v FROM $from"))
    }
    val (left, leftTable) = side(each.left, each.leftRows)
    val (right, rightTable) = side(each.right, each.rightRows)
    val reader = deltaJoin(Seq("a" -> left, "b" -> right), each.on, Seq("a.v AS av", "b.v AS bv"))
    val joined = leftTable.alias("a").crossJoin(rightTable.alias("b")).where(expr(each.on))
    val expected = joined.selectExpr("a.v AS av", "b.v AS bv").collect().map(JoinTest.text).map(_ -> 1L).toMap
    val (leftRows, rightRows) = (leftTable.collect().toSeq, rightTable.collect().toSeq)
    def change(row: Row, copies: Int) = Row.fromSeq(row.toSeq :+ copies)
    val jobs = Seq(left, right, reader)
    try {
      left.start()
      right.start()
      // Changes of each side look up the other.
      left.feed(leftRows.map(change(_, 1)): _*)
      right.feed(change(rightRows.head, 1))
      reader.start().settle()
      right.feed(rightRows.tail.map(change(_, 1)): _*)
      reader.settle()
      assert(reader.sum() == expected)
      left.feed(leftRows.map(change(_, -1)): _*)
      reader.settle()
      assert(reader.sum().isEmpty)
    } finally jobs.foreach(_.stop())
  }
}
