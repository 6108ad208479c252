package org.apache.spark.sql.streamjoin.joins.table

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}

/** Kept rows are matched with a table that changed while the query was stopped. */
class RematchAtStartSuite extends AnyFunSuite with TableTest {
  import ArrangementTest._

  private def query(people: Maintainer, trigger: Trigger = Trigger.ProcessingTime(0)): Stream =
    new Stream(rematched(people.root), trigger)

  /** Stops the query with a kept row, which then gets a match in the table. */
  private def stopped(people: Maintainer, query: Stream): Unit = {
    query.add(Row(1, 3, "Keyboard"))
    during(query)(assert(ended(query) == Seq("- Keyboard")))
    people.feed(Row(3, "Ann", "insert"))
  }

  private def ended(query: Stream): Seq[String] = {
    if (query.trigger == Trigger.AvailableNow()) query.running.awaitTermination()
    query.next
  }

  private def batches(query: Stream): Seq[Long] = numbers(query.checkpoint, "commits")

  test("kept rows are rematched at the start without a new row of the stream") {
    withCustomers { people =>
      val silent = query(people)
      stopped(people, silent)
      during(silent)(assert(silent.next == Seq("Ann Keyboard")))
      val ran = batches(silent)
      during(silent)(assert(silent.next.isEmpty))
      assert(batches(silent).size == ran.size + 1, "one batch, for later changes of the table")
    }
  }

  test("a batch that runs again gives the same rows") {
    withCustomers { people =>
      val silent = query(people)
      stopped(people, silent)
      during(silent)(assert(silent.all == Seq("- Keyboard", "Ann Keyboard")))
      SparkTest.forgetCommit(silent.checkpoint)
      people.feed(Row(3, "Anna", "update"))
      during(silent)(assert(silent.all == Seq("- Keyboard", "Ann Keyboard")))
    }
  }

  testLong("kept rows are rematched under availableNow, which ends by itself") {
    withCustomers { people =>
      val daily = query(people, Trigger.AvailableNow())
      stopped(people, daily)
      during(daily)(assert(ended(daily) == Seq("Ann Keyboard")))
      daily.add(Row(2, 4, "Lamp"), Row(3, 1, "Mouse"))
      during(daily)(assert(ended(daily) == Seq("- Lamp", "John Mouse")))
      people.feed(Row(4, "Eve", "insert"))
      daily.add(Row(4, 2, "Desk"))
      during(daily)(assert(ended(daily) == Seq("Eve Lamp", "Frank Desk")))
      val ran = batches(daily)
      during(daily)(assert(ended(daily).isEmpty))
      assert(batches(daily).size == ran.size + 1)
    }
  }

  test("kept rows are not rematched at the start if Spark runs no batches without data") {
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> "false") {
      withCustomers { people =>
        val silent = query(people)
        stopped(people, silent)
        during(silent) {
          assert(silent.next.isEmpty)
          assert(silent.add(Row(2, 1, "Mouse")).next == Seq("Ann Keyboard", "John Mouse"))
        }
      }
    }
  }
}
