package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path}

import scala.util.Random

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.source.ChangesTable
import org.apache.spark.sql.streamjoin.evolve.EvolutionOfQuery
import org.apache.spark.sql.streamjoin.joins.table.TableTest
import org.apache.spark.sql.streamjoin.{ArrangementTest, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

/** A maintaining query that restarts with other columns, while readers continue. */
class ChangedColumnsSuite extends AnyFunSuite with TableTest {
  import ArrangementTest._

  private val seeds = SparkTest.seeds(default = 1)
  private val old = Seq("id", "k", "n")
  private val wide = Seq("name", "CAST(n AS BIGINT) * factor AS n", "k", "id")

  /** An arrangement whose columns a test changes. */
  private class Table(var columns: Seq[String]) {
    val root: String = newFolder("arrangement")

    def arranged(all: DataFrame): DataFrame =
      Arrangements.arrange(
        all.selectExpr(columns :+ "op": _*),
        root,
        Seq(Seq("id"), Seq("k")),
        Some("op"),
        None,
        None
      )

    private val input = "id INT, k INT, n INT, name STRING, factor BIGINT, op STRING"
    val it = new Maintainer(spark, input, root, newFolder())(arranged)

    def start(): Unit = withConf("spark.streamjoin.partitions" -> "2")(it.start()): Unit

    def change(columns: Seq[String]): Unit = {
      it.stop()
      this.columns = columns
      withConf("spark.streamjoin.evolve" -> "exact")(it.start()): Unit
    }

    def row(id: Int, n: Integer, name: String = null, factor: Long = 1, op: String = "u"): Row =
      Row(id, id % 3, n, name, factor, op)

    def rejectedWith(columns: String*): String = {
      val before = files(root).toSet
      this.columns = columns
      val said = rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(
        withConf("spark.streamjoin.evolve" -> "allow")(it.start())
      )
      assert(files(root).toSet == before)
      said
    }

    def description(version: Long): Path =
      Path.of(root, "meta", it.folder.manifest(version).description.get)
  }

  private def changesOf(root: String) =
    new Reader(newFolder())(ChangesTable.stream(spark, root, Map.empty).selectExpr("id", "n", "_diff"))

  test("columns are added, widened and reordered while a stream, a delta join, look-ups and reads continue") {
    val of = new Table(old)
    import of.{it, root, row}
    of.start()
    it.feed(row(1, 10, "a"), row(2, 20, "b"), row(4, 40))
    val (changes, earlier) = (changesOf(root), spark.read.format("streamjoin").load(root))
    val pairs = deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.k", Seq("a.id", "b.id AS other"))
    val lookUp = new Stream(_.join(table(root), expr("id = customer_id")).select("item", "n"))
    try {
      Seq(changes, pairs, lookUp).foreach(_.start())
      Seq(changes, pairs).foreach(_.settle())
      of.change(wide)
      // Of the old rows, 1 gets a name, 2 does not change and 4 is removed.
      it.feed(row(1, 10, "x"), row(2, 20), row(3, 30, "c"), row(4, 40, op = "d"))
      assert(rowsOf(root) == Seq("- 20 2 2", "c 30 0 3", "x 10 1 1"))
      assert(rowsOf(root, Some(0)) == Seq("- 10 1 1", "- 20 2 2", "- 40 1 4"))
      Seq(changes, pairs).foreach(_.settle())
      assert(changes.batches.last._2.head.map(_.toString).toSet == Set("[3,30,1]", "[4,40,-1]"))
      assert(pairs.sum() == Map("1 1" -> 1L, "2 2" -> 1L))
      lookUp.add(Row(1, 1, "one"), Row(2, 3, "three"), Row(3, 4, "gone"))
      assert(lookUp.next == Seq("one 10", "three 30"))
      assert(earlier.collect().map(_.mkString(" ")).toSet == Set("1 1 10", "2 2 20", "3 0 30"))
      it.replay()
      pairs.restart()
      forgetIndexes()
      it.feed(row(1, 10, "y"), row(3, 31, "c"))
      Seq(changes, pairs).foreach(_.settle())
      assert(changes.sum() == Map("1 10" -> 1L, "2 20" -> 1L, "3 31" -> 1L))
      assert(rowsOf(root) == Seq("- 20 2 2", "c 31 0 3", "y 10 1 1"))
      assert(lookUp.add(Row(4, 3, "again")).next == Seq("again 31"))
    } finally Seq(lookUp, pairs, changes, it).foreach(_.stop())
  }

  test("a value that does not fit into the column of a reader is an error, and a new reader has it") {
    val of = new Table(old)
    import of.{it, root, row}
    of.start()
    it.feed(row(1, 10))
    val changes = changesOf(root).start().asInstanceOf[Reader]
    try {
      changes.settle()
      of.change(wide)
      it.feed(row(1, 2000000000, factor = 3))
      val said = rejected("STREAMJOIN_ARRANGEMENT_VALUE")(changes.settle())
      assert(said.contains("column n as INT") && said.contains("6000000000, as BIGINT"))
      changes.restart()
      changes.settle()
      assert(changes.sum() == Map("1 6000000000" -> 1L))
    } finally Seq(changes, it).foreach(_.stop())
  }

  test("a change that is not possible says what to write, and writes nothing") {
    val of = new Table(Seq("id", "k", "CAST(n AS BIGINT) AS n"))
    import of.{it, root, row}
    of.start()
    it.feed(row(1, 10))
    it.stop()
    val narrow = of.rejectedWith("id", "k", "n")
    assert(narrow.contains("INT does not have all values of BIGINT: use CAST(n AS BIGINT), or add another"))
    val dropped = of.rejectedWith("id", "k")
    assert(dropped.contains("keep n, as CAST(NULL AS BIGINT) AS n if it has no values anymore"))
    val key = of.rejectedWith("id", "CAST(k AS BIGINT) AS k", "CAST(n AS BIGINT) AS n")
    assert(key.contains("keys, time or order cannot change: use CAST(k AS INT)"))
    val text = of.rejectedWith("id", "k", "CAST(n AS STRING) AS n")
    assert(text.contains("STRING does not have all values of BIGINT"))
    of.columns = wide
    val asks = rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(it.start())
    assert(asks.contains("spark.streamjoin.evolve=exact accepts this change"))
    of.columns = Seq("id", "k", "CAST(n AS BIGINT) AS n")
    during(it)(it.feed(row(2, 20)))
    assert(rowsOf(root) == Seq("1 1 10", "2 2 20"))
    assert(it.folder.manifest(1).description.isEmpty)
  }

  test("a change without a batch is no change; a batch that runs again keeps its version") {
    val of = new Table(old)
    import of.{it, root, row}
    of.start()
    it.feed(row(1, 10, "a"))
    of.change(wide)
    it.stop()
    of.columns = old
    during(it)(it.feed(row(2, 20, "b")))
    it.stop()
    SparkTest.forgetCommit(it.checkpoint)
    of.change(wide)
    it.settle()
    assert(it.folder.manifest(1).description.isEmpty)
    it.feed(row(1, 10, "x"))
    it.stop()
    assert(it.folder.manifest(2).description.nonEmpty)
    assert(rowsOf(root) == Seq("- 20 2 2", "x 10 1 1"))
    of.columns = old
    rejected("STREAMJOIN_ARRANGEMENT_CHANGED")(it.start())
    of.columns = wide
    during(it)(it.feed(row(3, 30, "c")))
    assert(it.folder.manifest(3).description == it.folder.manifest(2).description)
    assert(ArrangementTest.files(s"$root/meta").size == 1)
    assert(rowsOf(root) == Seq("- 20 2 2", "c 30 0 3", "x 10 1 1"))
  }

  test("a description says which versions of streamjoin may read and continue the arrangement") {
    val of = new Table(old)
    import of.{it, root, row}
    of.start()
    it.feed(row(1, 10, "a"))
    of.change(wide)
    it.feed(row(2, 20, "b"))
    it.stop()
    val file = of.description(1)
    val text = Files.readString(file)
    assert(text.contains("\"minimum_reader\" : 2") && text.contains("\"minimum_writer\" : 2"))
    SparkTest.overwrite(file, text.replace("\"minimum_writer\" : 2", "\"minimum_writer\" : 9"))
    forgetIndexes()
    assert(rowsOf(root).size == 2)
    assert(
      rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE")(it.start()).contains("needed to continue the arrangement")
    )
    SparkTest.overwrite(file, text.replace("\"minimum_reader\" : 2", "\"minimum_reader\" : 9"))
    forgetIndexes()
    assert(
      rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE")(rowsOf(root))
        .contains("supports format 9 is needed to read the arrangement")
    )
    SparkTest.remove(file)
    rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE")(rowsOf(root))
  }

  test("sj.evolution shows what would change, and writes nothing") {
    val of = new Table(old)
    import of.{it, root, row}
    of.start()
    it.feed(row(1, 10))
    it.stop()
    def shown(columns: String*) = {
      of.columns = columns
      val plan = of.arranged(it.stream.toDF()).queryExecution.analyzed
      EvolutionOfQuery.rows(plan, Nil, new HadoopPath(it.checkpoint), spark)
    }
    val before = files(root).toSet
    assert(shown(old: _*).isEmpty)
    val (was, is) = ("id INT, k INT, n INT", "id INT, k INT, n INT, name STRING")
    assert(
      shown(old :+ "name": _*).map(_.toSeq.slice(1, 6)) == Seq(Seq("columns", was, is, "unchanged", "exact"))
    )
    assert(shown("id", "k").map(_.toSeq.slice(4, 6)) == Seq(Seq("rejected", "none")))
    withConf("spark.streamjoin.partitions" -> "3") {
      assert(
        shown(old: _*).map(_.toSeq.slice(1, 6)) == Seq(Seq("partitions", "2", "3", "unchanged", "exact"))
      )
    }
    assert(files(root).toSet == before)
  }

  testLong("rows are exact when columns and partitions change again and again, for readers of every age") {
    for (seed <- 0 until seeds) {
      val random = new Random(seed)
      val of = new Table(old)
      import of.{it, root, row}
      var rows = Map.empty[Int, (Int, String)]
      var readers = Vector.empty[(Seq[Int], DataFrame, Reader)]
      def columns = rows.map { case (id, (n, name)) => Seq[Any](id, id % 3, n, name) }.toSeq
      of.start()
      val steps = Seq(old, old :+ "name", Seq("k", "name", "CAST(n AS BIGINT) AS n", "id"))
      val places = Seq(Seq(0, 1, 2), Seq(0, 1, 2, 3), Seq(1, 3, 2, 0))
      try
        for ((selected, step) <- steps.zipWithIndex) {
          if (step > 0)
            withConf("spark.streamjoin.partitions" -> (1 + random.nextInt(4)).toString)(of.change(selected))
          for (_ <- 0 until 2) {
            val fed = random.shuffle((0 until 8).toList).take(3).map { id =>
              if (rows.contains(id) && random.nextInt(4) == 0) {
                rows -= id
                row(id, null, op = "d")
              } else {
                val (n, name) = (random.nextInt(2), if (step > 0) s"n${random.nextInt(2)}" else null)
                rows += id -> (n -> name)
                row(id, n, name)
              }
            }
            it.feed(fed: _*)
          }
          val changes = new Reader(newFolder())(ChangesTable.stream(spark, root, Map.empty).drop("_version"))
          changes.start()
          readers :+= ((places(step), spark.read.format("streamjoin").load(root), changes))
          for (((own, table, stream), age) <- readers.zipWithIndex) {
            val clue = s"reader $age in step $step, seed $seed"
            val expected = columns.map(row => JoinTest.text(Row.fromSeq(own.map(row)))).sorted
            stream.settle()
            assert(table.select("*").collect().map(JoinTest.text).toSeq.sorted == expected, clue)
            assert(stream.sum() == expected.map(_ -> 1L).toMap, clue)
          }
          if (random.nextBoolean()) forgetIndexes()
        }
      finally {
        readers.foreach(_._3.stop())
        it.stop()
      }
    }
  }
}
