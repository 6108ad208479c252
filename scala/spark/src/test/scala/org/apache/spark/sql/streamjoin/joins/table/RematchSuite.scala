package org.apache.spark.sql.streamjoin.joins.table

import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.OneTimeTrigger
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.streamjoin.arrangement.storage.LeaseFiles
import org.apache.spark.sql.{DataFrame, Row}

/** Outer joins of a stream with a table in which an unmatched row may get its match later. */
class RematchSuite extends AnyFunSuite with TableTest {

  /** Every column of an order, and of its customer. */
  private def joined(root: String, options: Map[String, String] = rematch)(orders: DataFrame): DataFrame =
    timed(orders).join(table(root, options), expr("id = customer_id"), "left_outer")

  private def order(number: Int, customer: Integer, item: String) = Row(number, customer, item)

  test("a table row that comes late emits the waiting rows with their match, once") {
    withCustomers { people =>
      val left = new Stream(rematched(people.root))
      val right = new Stream(orders =>
        table(people.root, rematch)
          .join(timed(orders), expr("id = customer_id"), "right_outer")
          .select("name", "item")
      )
      during(left, right) {
        val both = Seq(left, right)
        both.foreach(_.add(order(1, 1, "Computer"), order(2, 1, "Mouse"), order(3, 3, "Keyboard")))
        both.foreach(query => assert(query.next == Seq("- Keyboard", "John Computer", "John Mouse")))
        people.feed(Row(4, "Eve", "insert"))
        both.foreach(query => assert(query.next.isEmpty))
        people.feed(Row(3, "Ann", "insert"))
        both.foreach(query => assert(query.next == Seq("Ann Keyboard"), "without a new row of the stream"))
        people.feed(Row(3, "Anna", "update"), Row(1, "Johnny", "update"))
        both.foreach(query => assert(query.next.isEmpty, "rows that were emitted with a match do not change"))
      }
    }
  }

  test("rows are kept for the given event time, and not at all without a time or a key") {
    withCustomers { people =>
      val query = new Stream(rematched(people.root))
      during(query) {
        query.add(order(10, 3, "Keyboard"), order(20, 4, "Lamp"), order(20, null, "Pen"))
        query.add(Row(null, 3, "Never"))
        assert(query.next == Seq("- Keyboard", "- Lamp", "- Never", "- Pen"))
        query.add(order(115, 1, "Desk"))
        assert(query.next == Seq("John Desk"))
        people.feed(Row(3, "Ann", "insert"), Row(4, "Eve", "insert"))
        assert(query.next == Seq("Eve Lamp"), "the watermark is 115 s, more than 100 s past 10 s")
        // watermark 115 s - 100 s = 15 s: the row of 14 s is below it
        query.add(order(14, 5, "Late"))
        assert(query.next == Seq("- Late"), "a row is looked up however late it is")
        people.feed(Row(5, "Zoe", "insert"))
        assert(query.next.isEmpty, "but it was not kept")
        val state = query.running.lastProgress.stateOperators.head
        assert(state.operatorName == "streamTableJoin")
        assert(state.numRowsTotal == 0)
        checkFigures(state, RematchKind)
      }
    }
  }

  test("the waiting rows follow the partitions of the table when the stream restarts") {
    def partitions(number: Int)(body: => Any): Unit =
      withConf("spark.streamjoin.partitions" -> number.toString)(body: Unit)
    val people = customers
    val query = new Stream(rematched(people.root))
    def tasks = query.running.lastProgress.stateOperators.head.numStateStoreInstances
    partitions(2)(people.start())
    try {
      loaded(people)
      query.start()
      query.add((10 to 30).map(customer => order(customer, customer, s"item$customer")): _*)
      assert(query.next.size == 21)
      assert(tasks == 2)
      partitions(5)(people.restart())
      people.feed(Row(10, "Ann", "insert"))
      assert(query.next == Seq("Ann item10"), "the running stream keeps its number")
      assert(tasks == 2)
      query.restart()
      people.feed((11 to 20).map(customer => Row(customer, "Zoe", "insert")): _*)
      assert(query.next == (11 to 20).map(customer => s"Zoe item$customer"))
      assert(tasks == 5)
    } finally {
      query.stop()
      people.stop()
    }
  }

  test("a waiting row is looked up once, however many rows of its key come at once") {
    val people = maintainer("id INT, k INT, name STRING, op STRING", Seq(Seq("id"), Seq("k")), Some("op"))
    val fits = udf { (item: String, name: String) =>
      RematchSuite.tested.incrementAndGet()
      item == name
    }
    val query = new Stream(orders =>
      timed(orders)
        .join(
          table(people.root, rematch),
          col("k") === col("customer_id") && fits(col("item"), col("name")),
          "left_outer"
        )
        .select("item", "name")
    )
    during(people, query) {
      people.feed(Row(0, 1, "x", "insert"))
      query.add((1 to 10).map(n => order(n, 3, s"item$n")): _*)
      assert(query.next.size == 10)
      RematchSuite.tested.set(0)
      people.feed((1 to 20).map(n => Row(n, 3, s"item${2 * n}", "insert")): _*)
      assert(query.next == Seq(10, 2, 4, 6, 8).map(n => s"item$n item$n"))
      assert(RematchSuite.tested.get <= 10 * 20)
    }
  }

  test("a filter with a scalar subquery works below and above the join") {
    withCustomers { people =>
      val least = "customer_id > (SELECT min(id) FROM range(3))"
      val below = new Stream(orders => rematched(people.root)(orders.where(least)))
      val above = new Stream(orders => joined(people.root)(orders).where(least).select("name", "item"))
      during(below, above) {
        val both = Seq(below, above)
        both.foreach(_.add(order(1, 1, "Computer"), order(2, 0, "Mouse"), order(3, 3, "Keyboard")))
        both.foreach(query => assert(query.next == Seq("- Keyboard", "John Computer")))
        people.feed(Row(3, "Ann", "insert"))
        both.foreach(query => assert(query.next == Seq("Ann Keyboard")))
      }
    }
  }

  test("a condition may use the time of the batch") {
    withCustomers { people =>
      val on = "id = customer_id AND current_timestamp() > at AND length(name) < year(now())"
      val query = new Stream(orders =>
        timed(orders).join(table(people.root, rematch), expr(on), "left_outer").select("name", "item")
      )
      during(query) {
        query.add(order(1, 1, "Computer"), order(3, 3, "Keyboard"))
        assert(query.next == Seq("- Keyboard", "John Computer"))
        people.feed(Row(3, "Ann", "insert"))
        assert(query.next == Seq("Ann Keyboard"))
      }
    }
  }

  test("a windowed count above waits for rows that may still be rematched") {
    withCustomers { people =>
      val counts = new Stream(orders =>
        joined(people.root)(orders)
          .groupBy(window(col("at"), "10 seconds"), col("name"))
          .count()
          .select("name", "count")
      )
      during(counts) {
        // watermark 50 s - 100 s < 0 s: the row of 3 s may still be rematched
        counts.add(order(1, 1, "Computer"), order(3, 3, "Keyboard"), order(50, 1, "Desk"))
        assert(counts.next.isEmpty)
        people.feed(Row(3, "Ann", "insert"))
        assert(counts.next.isEmpty)
        // watermark 111 s - 100 s = 11 s: the window from 0 s to 10 s is complete
        counts.add(order(111, 1, "Chair"))
        assert(counts.next == Seq("- 1", "Ann 1", "John 1"))
      }
    }
  }

  test("a query that was stopped for longer than its lease looks all kept rows up again") {
    withConf("spark.streamjoin.arrangements.minVersionsToRetain" -> "1") {
      withCustomers { people =>
        val query = new Stream(rematched(people.root))
        during(query) {
          query.add(order(1, 3, "Keyboard"))
          assert(query.next == Seq("- Keyboard"))
        }
        val seen = people.folder.newest
        val leases = new LeaseFiles(people.folder)
        leases.all.foreach(lease => leases.release(lease.reader))
        people.feed(Row(3, "Ann", "insert"))
        (4 to 6).foreach(id => people.feed(Row(id, "Eve", "insert")))
        assert(people.folder.manifest(people.folder.newest).since > seen)
        query.add(order(2, 1, "Mouse"))
        during(query)(assert(query.next == Seq("Ann Keyboard", "John Mouse")))
      }
    }
  }

  test("a single watermark above the join is rejected, as it would lose rematched rows") {
    withCustomers { people =>
      withConf("spark.sql.streaming.statefulOperator.allowMultiple" -> "false") {
        rejected("STREAMJOIN_SINGLE_WATERMARK") {
          start(joined(people.root)(_).groupBy(window(col("at"), "10 seconds")).count().select("count"))
        }
      }
    }
  }

  test("of two tables, only the one with rematch= is matched later") {
    val (people, towns) = (customers, customers)
    def withTowns(second: Map[String, String], first: Map[String, String])(orders: DataFrame): DataFrame =
      timed(orders)
        .join(table(people.root, first).toDF("a", "first"), expr("a = customer_id"), "left_outer")
        .join(table(towns.root, second).toDF("b", "second"), expr("b = customer_id"), "left_outer")
        .select("item", "first", "second")
    val upper = new Stream(withTowns(rematch, Map.empty))
    val lower = new Stream(withTowns(Map.empty, rematch))
    val inner = new Stream(orders =>
      timed(orders)
        .join(table(people.root, rematch).toDF("a", "first"), expr("a = customer_id"), "left_outer")
        .join(table(towns.root).toDF("b", "second"), expr("b = customer_id"))
        .select("item", "first", "second")
    )
    during(people, towns) {
      loaded(people)
      towns.feed(Row(2, "Bonn", "insert"), Row(3, "Ulm", "insert"))
      during(upper, lower, inner) {
        val all = Seq(upper, lower, inner)
        all.foreach(_.add(order(1, 1, "Cup"), order(2, 2, "Pen"), order(3, 3, "Key")))
        assert(upper.next == Seq("Cup John -", "Key - Ulm", "Pen Frank Bonn"))
        assert(lower.next == Seq("Cup John -", "Key - Ulm", "Pen Frank Bonn"))
        assert(inner.next == Seq("Key - Ulm", "Pen Frank Bonn"))
        people.feed(Row(3, "Ann", "insert"))
        towns.feed(Row(1, "Köln", "insert"))
        assert(upper.next == Seq("Cup John Köln"))
        assert(lower.next == Seq("Key Ann Ulm"))
        assert(inner.next == Seq("Key Ann Ulm"))
      }
    }
  }

  test("the same table can be joined twice, told apart by aliases alone") {
    withCustomers { people =>
      val query = new Stream({ orders =>
        val names = table(people.root, rematch)
        timed(orders)
          .join(names.toDF("a", "buyer"), expr("a = customer_id"), "left_outer")
          .join(names.toDF("b", "payer"), expr("b = order_id"), "left_outer")
          .select("item", "buyer", "payer")
      })
      during(query) {
        query.add(order(2, 1, "Cup"), order(3, 2, "Pen"))
        assert(query.next == Seq("Cup John Frank", "Pen Frank -"))
        people.feed(Row(3, "Ann", "insert"))
        assert(query.next == Seq("Pen Frank Ann"))
      }
    }
  }

  test("SQL: WITH (rematch = ...) joins by the declared key, also below a join with USING") {
    val folder = newFolder("arrangements")
    withConf("spark.streamjoin.arrangements" -> folder) {
      val people = customersIn(s"$folder/people")
      val query = new Stream({ orders =>
        timed(orders.selectExpr("customer_id AS id", "order_id", "item"))
          .createOrReplaceTempView("timed_orders")
        spark.sql("""
          SELECT p.name, o.item FROM timed_orders AS o LEFT JOIN people WITH (rematch = '100 seconds') AS p
          JOIN (VALUES ('Mouse')) AS i(item) USING (item)""")
      })
      during(people) {
        loaded(people)
        during(query) {
          query.add(order(1, 1, "Mouse"), order(2, 3, "Mouse"), order(3, 3, "Lamp"))
          assert(query.next == Seq("- Mouse", "John Mouse"))
          people.feed(Row(3, "Ann", "insert"))
          assert(query.next == Seq("Ann Mouse"))
        }
      }
    }
  }

  testLong("a cached table is looked up in its current version, not as it was cached") {
    withCustomers { people =>
      val cached = table(people.root, rematch).cache()
      assert(cached.count() == 2)
      def matched(orders: DataFrame) =
        timed(orders).join(cached, expr("id = customer_id"), "left_outer").select("name", "item")
      val query = new Stream(matched)
      during(query) {
        query.add(order(1, 3, "Keyboard"))
        assert(query.next == Seq("- Keyboard"))
        people.feed(Row(3, "Ann", "insert"))
        assert(query.next == Seq("Ann Keyboard"))
      }
      val out = new java.io.ByteArrayOutputStream
      Console.withOut(out)(matched(memory(Orders).toDF()).explain())
      assert(out.toString.contains("StreamTableJoin"))
      cached.unpersist()
    }
  }

  test("kept rows see a table that changed while the query was stopped, even without new rows") {
    withCustomers { people =>
      val query = new Stream(rematched(people.root))
      during(query) {
        query.add(order(1, 3, "Keyboard"), order(1, 4, "Lamp"))
        assert(query.next == Seq("- Keyboard", "- Lamp"))
      }
      people.feed(Row(3, "Ann", "insert"))
      during(query) {
        assert(query.next == Seq("Ann Keyboard"))
        people.feed(Row(5, "Zoe", "insert"))
        assert(query.next.isEmpty)
      }
      // The table changes right after the restart, not while the query is stopped.
      during(query) {
        assert(query.next.isEmpty)
        people.feed(Row(4, "Eve", "insert"))
        assert(query.next == Seq("Eve Lamp"))
      }
    }
  }

  testLong("kept rows are rematched by runs that end by themselves, even after a rejected start") {
    withCustomers { people =>
      val (checkpoint, rows) = (newFolder(), mutable.ArrayBuffer.empty[String])
      val input = memory(Orders)
      def run(
          joined: DataFrame => DataFrame = rematched(people.root),
          trigger: Trigger = Trigger.AvailableNow()
      ): Seq[String] = {
        rows.clear()
        val query = joined(input.toDF()).writeStream
          .foreachBatch((batch: DataFrame, _: Long) => rows ++= batch.collect().map(JoinTest.text): Unit)
          .option("checkpointLocation", checkpoint)
          .trigger(trigger)
          .start()
        query.awaitTermination()
        rows.toSeq.sorted
      }
      input.addData(order(1, 3, "Keyboard"), order(1, 4, "Lamp"))
      assert(run() == Seq("- Keyboard", "- Lamp"))
      people.feed(Row(3, "Ann", "insert"))
      assert(run() == Seq("Ann Keyboard"))
      assert(run().isEmpty)
      people.feed(Row(4, "Eve", "insert"))
      rejected("STREAMJOIN_CHECKPOINT_CHANGED")(run(joined(people.root, Map("rematch" -> "7 seconds"))))
      assert(run() == Seq("Eve Lamp"))
      // A run of a single batch spends it on the stream's new rows.
      input.addData(order(2, 5, "Chair"))
      people.feed(Row(5, "Zoe", "insert"))
      assert(run(trigger = OneTimeTrigger) == Seq("Zoe Chair"))
      input.addData(order(3, 5, "Desk"))
      assert(run(trigger = OneTimeTrigger) == Seq("Zoe Desk"))
      // Rows wait shorter, longer, and shorter again.
      def waiting(length: String)(orders: DataFrame) =
        joined(people.root, Map("rematch" -> length))(orders).select("name", "item")
      withConf("spark.streamjoin.evolve" -> "allow") {
        input.addData(order(40, 6, "Table"))
        assert(run(waiting("40 seconds")) == Seq("- Table"))
        input.addData(order(100, 7, "Shelf"))
        assert(run(waiting("200 seconds")) == Seq("- Shelf"))
        people.feed(Row(6, "Kim", "insert"))
        assert(run(waiting("200 seconds")) == Seq("Kim Table"))
        input.addData(order(101, 8, "Rug"))
        assert(run(waiting("500 milliseconds")) == Seq("- Rug"))
        people.feed(Row(7, "Lee", "insert"), Row(8, "Mia", "insert"))
        assert(run(waiting("500 milliseconds")) == Seq("Mia Rug"))
      }
    }
  }

  test("an availableNow run ends, however often the table changes") {
    withCustomers { people =>
      val input = memory(Orders)
      input.addData(order(1, 9, "Keyboard"))
      val query = rematched(people.root)(input.toDF()).writeStream
        .foreachBatch { (batch: DataFrame, number: Long) =>
          assert(batch.collect().length == 1)
          people.feed(Row(3, s"Ann $number", "update")): Unit
        }
        .option("checkpointLocation", newFolder())
        .trigger(Trigger.AvailableNow())
        .start()
      query.awaitTermination()
      assert(query.recentProgress.last.batchId == 0)
    }
  }

  test("a query that cannot keep rows is rejected") {
    withCustomers { people =>
      def late = table(people.root, rematch)
      val on = expr("id = customer_id")
      assert(
        rejected("STREAMJOIN_TABLE.REMATCH_JOIN_TYPE")(start(timed(_).join(late, on)))
          .contains("Write a left join")
      )
      assert(
        rejected("STREAMJOIN_TABLE.REMATCH_EVENT_TIME")(start(_.join(late, on, "left_outer")))
          .contains("withWatermark")
      )
      assert(
        rejected("STREAMJOIN_TABLE.REMATCH_EVENT_TIME")(
          start(orders => timed(orders).withColumn("then", col("at")).join(late, on, "left_outer"))
        ).contains("Select exactly one column")
      )
      val now = expr("id = customer_id + second(current_timestamp())")
      assert(
        rejected("STREAMJOIN_TABLE.REMATCH_KEY")(start(timed(_).join(late, now, "left_outer")))
          .contains("every batch")
      )
      assert(
        rejected("STREAMJOIN_TABLE.REMATCH_CONDITION")(start(timed(_).join(late).where(on)))
          .contains("not in a filter above it")
      )
      // The union has the time of its first input, and its second one has no watermark.
      def half(orders: DataFrame) = timed(orders).union(orders.selectExpr("*", "timestamp_seconds(order_id)"))
      assert(
        rejected("STREAMJOIN_TABLE.REMATCH_WATERMARK")(start(half(_).join(late, on, "left_outer")))
          .contains("at has no watermark")
      )
      rejected("STREAMJOIN_TABLE_KEY")(start(timed(_).join(late, expr("name = item"), "left_outer")))
      val least = expr("id = customer_id AND name > (SELECT min(id) FROM range(3))")
      assert(
        rejected("STREAMJOIN_TABLE.REMATCH_SUBQUERY")(start(timed(_).join(late, least, "left_outer")))
          .contains("subquery")
      )
      for (filter <- Seq("name > (SELECT min(id) FROM range(3))", "id IN (SELECT id FROM range(3))")) {
        def filtered = start(timed(_).join(late.where(filter), on, "left_outer"))
        assert(rejected("STREAMJOIN_TABLE.REMATCH_SUBQUERY")(filtered).contains("below the table"), filter)
      }
      for (duration <- Seq("soon", "-1 second", "1 month"))
        rejected("STREAMJOIN_DURATION")(
          start(timed(_).join(table(people.root, Map("rematch" -> duration)), on, "left_outer"))
        )
      withConf("spark.streamjoin.enabled" -> "false") {
        rejected("STREAMJOIN_TABLE.REMATCH_DISABLED")(start(timed(_).join(late, on, "left_outer")))
      }
    }
  }

  test("EXPLAIN shows the look-up, and the checkpoint rejects another duration") {
    withCustomers { people =>
      var length = "100 seconds"
      val query = new Stream(joined(people.root, Map("rematch" -> length))(_))
      during(query) {
        query.add(order(1, 3, "Keyboard"))
        query.settle()
        val plan = explained(query.running)
        assert(plan.contains("StreamTableJoin"), plan)
        assert(plan.contains("by (id) at version 0"), plan)
        query.stop()
        length = "50 seconds"
        rejected("STREAMJOIN_CHECKPOINT_CHANGED")(query.start())
      }
    }
  }

  private def explained(query: org.apache.spark.sql.streaming.StreamingQuery): String =
    query
      .asInstanceOf[org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper]
      .streamingQuery
      .lastExecution
      .executedPlan
      .toString
}

object RematchSuite {

  /** How many pairs a condition was evaluated for. */
  private val tested = new AtomicInteger
}
