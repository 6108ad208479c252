package org.apache.spark.sql.streamjoin.joins.delta

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.joins.table.TableTest
import org.apache.spark.sql.streamjoin.{ArrangementTest, Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

/** A checkpoint accepts only the delta joins and look-ups that it was started with. */
class ArrangedCheckpointSuite extends AnyFunSuite with TableTest {
  import ArrangementTest._

  private val On = "c.id = o.customer AND c.seg = 'A'"
  private val Select = Seq("o.id", "c.seg")

  private def inputs: (Maintainer, Maintainer) = (
    maintainer("id INT, seg STRING, op STRING", Seq(Seq("id")), op = Some("op")),
    maintainer("id INT, customer INT, op STRING", Seq(Seq("id"), Seq("customer")), op = Some("op"))
  )

  /** Runs a delta join until it has caught up; returns the sum of its output. */
  private def run(
      checkpoint: String,
      inputs: Seq[(String, Maintainer)],
      on: String = On,
      select: Seq[String] = Select,
      how: String = "inner",
      session: SparkSession = spark
  ): Map[String, Long] = {
    val reader = new Reader(checkpoint)(
      Frames.delta(
        session,
        inputs.map { case (name, of) => name -> of.root },
        on,
        select,
        how
      )
    )
    during(reader) {
      reader.settle()
      reader.sum()
    }
  }

  private def changed(body: => Any): Unit = rejected("STREAMJOIN_CHECKPOINT_CHANGED")(body): Unit

  private def log(checkpoint: String) = Path.of(checkpoint, "arranged-joins")

  test("a checkpoint rejects a delta join with another condition, output or join type") {
    val (customers, orders) = inputs
    val both = Seq("c" -> customers, "o" -> orders)
    val checkpoint = newFolder()
    during(customers, orders) {
      customers.feed(Row(1, "A", "c"), Row(2, "B", "c"))
      orders.feed(Row(1, 1, "c"), Row(2, 2, "c"))
      assert(run(checkpoint, both) == Map("1 A" -> 1))
      orders.feed(Row(2, 2, "d"))
      for (enabled <- Seq("true", "false")) withConf("spark.streamjoin.enabled" -> enabled) {
        changed(run(checkpoint, both, on = On.replace("'A'", "'B'")))
        changed(run(checkpoint, both, on = "c.id = o.customer"))
        changed(run(checkpoint, both, on = On + " AND o.id > 0"))
        changed(run(checkpoint, both, on = On.replace("=", "<=>")))
        changed(run(checkpoint, both, select = Select.reverse))
        changed(run(checkpoint, both, select = Select :+ "c.id AS customer"))
        changed(run(checkpoint, both, select = Seq("o.id AS number", "c.seg")))
        changed(run(checkpoint, both, select = Seq("o.id + 1 AS id", "c.seg")))
        changed(run(checkpoint, both, how = "left"))
        changed(run(checkpoint, both :+ ("d" -> customers), on = On + " AND d.id = c.id"))
        def streams = Seq(customers, orders).map(of => spark.readStream.format("streamjoin").load(of.root))
        val union = new Reader(checkpoint)(streams.map(_.select("id", "_diff")).reduce(_ union _))
        changed(during(union)(union.settle()))
        // The rejected starts changed nothing: the original join resumes.
        assert(run(checkpoint, both).isEmpty, "the deleted row was never emitted")
      }
    }
  }

  testLong("a checkpoint rejects an outer delta join with another preserved side") {
    val (customers, orders) = inputs
    val both = Seq("c" -> customers, "o" -> orders)
    val checkpoint = newFolder()
    during(customers, orders) {
      customers.feed(Row(1, "A", "c"), Row(2, "B", "c"))
      orders.feed(Row(1, 1, "c"))
      assert(run(checkpoint, both, how = "left") == Map("1 A" -> 1, "- B" -> 1))
      Seq("right", "full", "inner").foreach(how => changed(run(checkpoint, both, how = how)))
      assert(run(checkpoint, both, how = "left").isEmpty)
    }
  }

  test("a delta join resumes if only its aliases, its spelling or the session changed") {
    val (customers, orders) = inputs
    val checkpoint = newFolder()
    during(customers, orders) {
      customers.feed(Row(1, "A", "c"))
      orders.feed(Row(1, 1, "c"))
      assert(run(checkpoint, Seq("c" -> customers, "o" -> orders)) == Map("1 A" -> 1))
      orders.feed(Row(3, 1, "c"))
      val others = Seq("x" -> customers, "y" -> orders)
      val spelled = "'A' = X.SEG AND (y.customer = x.id)"
      assert(
        run(checkpoint, others, spelled, Seq("y.id", "x.seg"), session = spark.newSession()) == Map(
          "3 A" -> 1
        )
      )
      // A checkpoint from before joins were described in it.
      Files.list(log(checkpoint)).forEach(file => Files.delete(file))
      Files.delete(log(checkpoint))
      orders.feed(Row(4, 1, "c"))
      assert(run(checkpoint, others, spelled, Seq("y.id", "x.seg")) == Map("4 A" -> 1))
      changed(run(checkpoint, others, "x.id = y.customer", Seq("y.id", "x.seg")))
    }
  }

  testLong("a delta join may change as long as its first batch is not committed") {
    val (customers, orders) = inputs
    val both = Seq("c" -> customers, "o" -> orders)
    val checkpoint = newFolder()
    during(customers, orders) {
      customers.feed(Row(1, "A", "c"), Row(2, "B", "c"))
      orders.feed(Row(1, 1, "c"), Row(2, 2, "c"))
      val three = both :+ ("d" -> customers)
      assert(run(checkpoint, three, On + " AND d.id = c.id") == Map("1 A" -> 1))
      SparkTest.forgetCommit(checkpoint)
      // It needs as many sources as the offset log has.
      assert(run(checkpoint, three, "c.id = o.customer AND c.seg = 'B' AND d.id = c.id") == Map("2 B" -> 1))
      changed(run(checkpoint, three, On + " AND d.id = c.id"))
    }
  }

  test("a join description of an unknown version is reported as unreadable") {
    val (customers, orders) = inputs
    val both = Seq("c" -> customers, "o" -> orders)
    val checkpoint = newFolder()
    during(customers, orders) {
      customers.feed(Row(1, "A", "c"))
      run(checkpoint, both)
      SparkTest.overwrite(log(checkpoint).resolve("0"), """{"version":7}""")
      assert(rejected("STREAMJOIN_CHECKPOINT_UNREADABLE")(run(checkpoint, both)).contains("version 7"))
    }
  }

  // Look-ups.

  /** Runs another query on the stream's checkpoint, with one more row; returns its output. */
  private def lookedUp(stream: Stream, query: DataFrame => DataFrame)(row: Row): Seq[String] = {
    current = query
    during(stream)(stream.add(row).next)
  }
  private var current: DataFrame => DataFrame = identity

  test("a checkpoint rejects another look-up and accepts the same one in other words") {
    val people = maintainer("id INT, name STRING, seg STRING, op STRING", Seq(Seq("id")), op = Some("op"))
    val others = maintainer(
      "id INT, name STRING, seg STRING, op STRING",
      Seq(Seq("id")),
      op = Some("op"),
      root = newFolder("others")
    )
    val stream = new Stream(orders => current(orders))
    def asked(query: DataFrame => DataFrame)(row: Row) = lookedUp(stream, query)(row)
    def sql(text: String, root: String = people.root, options: Map[String, String] = Map.empty)(
        orders: DataFrame
    ) = {
      orders.createOrReplaceTempView("orders")
      table(root, options).createOrReplaceTempView("people")
      spark.sql(text)
    }
    val first = "SELECT name, item FROM orders LEFT JOIN people ON customer_id = id AND seg = 'A'"
    during(people, others) {
      Seq(people, others).foreach(_.feed(Row(1, "Ada", "A", "c"), Row(2, "Bob", "B", "c")))
      assert(asked(sql(first))(Row(1, 1, "cup")) == Seq("Ada cup"))
      def no(query: DataFrame => DataFrame): Unit =
        for (enabled <- Seq("true", "false")) withConf("spark.streamjoin.enabled" -> enabled) {
          changed(asked(query)(Row(0, 0, "none")))
        }
      no(sql(first.replace("'A'", "'B'")))
      no(sql(first.replace("LEFT JOIN", "JOIN")))
      no(sql(first.replace("AND seg = 'A'", "")))
      no(sql(first, others.root))
      no(sql(first, options = Map("asOf" -> "previous")))
      // The same look-up; what is selected or filtered elsewhere may differ.
      val same = Seq(
        "SELECT seg, name, item FROM orders AS o LEFT JOIN people AS p ON 'A' = p.SEG AND p.id = o.customer_id",
        "SELECT item FROM people AS p RIGHT JOIN orders AS o ON p.id = o.customer_id AND p.seg = 'A' WHERE order_id > 0",
        "SELECT name, item FROM orders LEFT JOIN (SELECT seg AS s, id AS i, name FROM people) ON i = customer_id AND s = 'A'",
        "SELECT name, item FROM orders LEFT JOIN (SELECT * FROM people WHERE seg = 'A') ON id = customer_id"
      )
      val rows = same.map(text => asked(sql(text))(Row(2, 1, "pot")))
      assert(rows.map(_.size) == same.map(_ => 1), rows)
      // One more, and one less.
      val second = "LEFT JOIN people AS again ON again.id = length(item)"
      val both = s"SELECT first.*, again.name AS other FROM ($first) AS first $second"
      def shown(text: String) = streamjoin.StreamJoin
        .evolution(sql(text)(memory(Orders).toDF()), stream.checkpoint)
        .collect()
        .map(_.toSeq.slice(1, 6).mkString("; "))
        .toSeq
      val name = Path.of(people.root).getFileName
      val added = s"outer look-up of $name: (length(stream.item) = table.id)"
      assert(shown(both) == Seq(s"look-up; none; $added; not affected; exact"))
      assert(shown(first) == Nil)
      assert(shown(first.replace("'A'", "'B'")).map(_.contains("rejected")) == Seq(true))
      assert(asked(sql(both))(Row(4, 1, "ox")) == Seq("Ada ox Bob"))
      no(sql(both.replace("'A'", "'B'")))
      assert(asked(sql(first))(Row(5, 1, "pan")) == Seq("Ada pan"))
      // A query without look-ups leaves nothing to retract.
      assert(asked(_.select("item"))(Row(3, 1, "jug")) == Seq("jug"))
    }
  }

  test("in an inner look-up, a filter on the table is part of the condition, in ON or in WHERE") {
    val people = maintainer("id INT, name STRING, seg STRING, op STRING", Seq(Seq("id")), op = Some("op"))
    val stream = new Stream(orders => current(orders))
    def joined(on: String, where: String)(orders: DataFrame) =
      orders.join(table(people.root), expr(on)).where(where).select("name", "item")
    def asked(on: String, where: String) = lookedUp(stream, joined(on, where))(Row(1, 1, "cup"))
    during(people) {
      people.feed(Row(1, "Ada", "A", "c"))
      assert(asked("customer_id = id", "seg = 'A'") == Seq("Ada cup"))
      changed(asked("customer_id = id", "seg = 'B'"))
      changed(asked("customer_id = id", "item = 'cup'"))
      assert(asked("id = customer_id AND seg = 'A'", "item = 'cup'") == Seq("Ada cup"))
    }
  }

  test("with rematch=, the whole condition of a look-up must stay the same") {
    val people = maintainer("id INT, name STRING, seg STRING, op STRING", Seq(Seq("id")), op = Some("op"))
    val stream = new Stream(orders => current(orders))
    def timed(orders: DataFrame) =
      orders.withColumn("t", timestamp_seconds(col("order_id"))).withWatermark("t", "0 seconds")
    def joined(on: String, options: Map[String, String] = Map("rematch" -> "1 hour"))(orders: DataFrame) =
      timed(orders).join(table(people.root, options), expr(on), "left").select("name", "item")
    def asked(on: String) = lookedUp(stream, joined(on))(Row(1, 1, "cup"))
    during(people) {
      people.feed(Row(1, "Ada", "A", "c"))
      assert(asked("customer_id = id AND seg = 'A'") == Seq("Ada cup"))
      changed(asked("customer_id = id AND seg = 'B'"))
      // Rows that wait would be lost.
      changed(lookedUp(stream, joined("customer_id = id AND seg = 'A'", Map.empty))(Row(1, 1, "cup")))
      changed(lookedUp(stream, timed(_).select("item"))(Row(1, 1, "cup")))
      assert(asked("seg = 'A' AND id = customer_id") == Seq("Ada cup"))
    }
  }

  test("in another session time zone, the same timestamp text is accepted and another one rejected") {
    val zone = "spark.sql.session.timeZone"
    val people = maintainer("id INT, since TIMESTAMP, op STRING", Seq(Seq("id")), op = Some("op"))
    def query(checkpoint: String, time: String) = new Reader(checkpoint)(
      Frames.delta(
        spark,
        Seq("a" -> people.root, "b" -> people.root),
        s"a.id = b.id AND a.since > TIMESTAMP '$time'",
        Seq("a.id AS x")
      )
    )
    during(people) {
      people.feed(Row(1, JoinTest.at("10:00"), "c"))
      val checkpoint = newFolder()
      def settled(time: String) = {
        val reader = query(checkpoint, time)
        during(reader)(reader.settle())
      }
      settled("2024-06-01 02:00:00")
      withConf(zone -> "America/New_York") {
        settled("2024-06-01 02:00:00")
        changed(settled("2024-06-01 03:00:00"))
      }
      settled("2024-06-01 02:00:00")
    }
  }
}
