package org.apache.spark.sql.streamjoin.arrangement

import java.sql.{Date, Timestamp}
import java.time.{Duration, Instant, LocalDateTime, ZoneOffset}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Encoders, Row}

import streamjoin.Arrangement

/** `ttl=`: rows are removed by their time, as changes of a version. */
class TimeToLiveSuite extends AnyFunSuite with ArrangementTest {
  private def ago(days: Double): Timestamp =
    Timestamp.from(Instant.now().minus(Duration.ofMinutes((days * 24 * 60).toLong)))

  private def ids(root: String, version: Option[Long] = None) =
    rowsOf(root, version).map(_.takeWhile(_ != ' ').toInt).sorted

  /** Tables of rows that have an id and a time. */
  private def things(
      ttl: => Option[String],
      op: Option[String] = Some("op"),
      time: String = "TIMESTAMP"
  ): ArrangementTest.Maintainer = maintainer(
    s"id INT, name STRING, at $time" + op.fold("")(name => s", $name STRING"),
    Seq(Seq("id"), Seq("name")),
    op = op,
    time = Some("at"),
    ttl = ttl
  )

  private def expired(it: ArrangementTest.Maintainer): Long =
    it.folder.manifest(it.folder.newest).counts("expiredRows")

  test("rows go once they are older than ttl, as readers see, and another start may say another length") {
    var ttl = "30 days"
    val it = things(Some(ttl))
    val reader =
      new ArrangementTest.Reader(newFolder())(Arrangement.forName(spark, it.root).changes().drop("_version"))
    during(it, reader) {
      it.feed(
        Row(1, "a", ago(20), "insert"),
        Row(2, "a", ago(5), "insert"),
        Row(3, "b", null, "insert"),
        Row(4, "b", ago(31), "insert")
      )
      assert(ids(it.root) == Seq(1, 2, 3), "4 comes in too late, a row without a time stays")
      it.feed(Row(5, "c", ago(1), "insert"))
      assert(ids(it.root) == Seq(1, 2, 3, 5))
      it.stop()
      forgetIndexes()
      ttl = "10 days"
      it.start()
      it.settle()
      assert(ids(it.root) == Seq(1, 2, 3, 5), "no batch, no version")
      it.feed(Row(6, "c", ago(0), "insert"))
      assert(ids(it.root) == Seq(2, 3, 5, 6))
      assert(ids(it.root, Some(1)) == Seq(1, 2, 3, 5), "the version before has it")
      assert(it.folder.manifest(2).counts("rows") == 4)
      assert(expired(it) == 2)
      it.replay()
      assert(ids(it.root) == Seq(2, 3, 5, 6))
      it.feed(Row(7, "c", ago(0), "insert"))
      assert(expired(it) == 2, "once")
      reader.settle()
      assert(reader.sum().keys.map(_.takeWhile(_ != ' ').toInt).toSeq.sorted == Seq(2, 3, 5, 6, 7))
      assert(reader.sum().values.toSet == Set(1L))
    }
  }

  test("a change of a row that goes in the same batch") {
    var ttl = "30 days"
    val it = things(Some(ttl))
    during(it) {
      it.feed((1 to 6).map(id => Row(id, "old", ago(20 - id), "insert")): _*)
      it.stop()
      ttl = "10 days"
      it.start()
      it.feed(
        Row(1, "new", ago(1), "update"),
        Row(2, "new", ago(12), "update"),
        Row(3, null, ago(1), "delete"),
        Row(4, "old", ago(20), "update")
      )
      // 5 has gone, and 6 is of 14 days ago.
      assert(rowsOf(it.root).map(_.take(5)) == Seq("1 new"))
      assert(it.folder.manifest(1).counts("rows") == 1)
      it.stop()
      forgetIndexes()
      it.start()
      it.feed(Row(2, "back", ago(2), "insert"))
      assert(rowsOf(it.root).map(_.take(6)) == Seq("1 new ", "2 back"))
    }
  }

  testLong("random changes, restarts and lengths, beside a model") {
    for (seed <- 0 until SparkTest.seeds(default = 1)) {
      val random = new Random(seed)
      var days = 20
      val isLog = seed % 2 == 0
      val it = things(Some(s"$days days"), op = Option.when(isLog)("op"))
      // By id; rows that are only added have ids of their own.
      var rows, deleted = Map.empty[Int, Double]
      during(it) {
        for (batch <- 0 until 12) {
          if (random.nextInt(3) == 0) {
            it.stop()
            if (random.nextBoolean()) forgetIndexes()
            days = 5 + random.nextInt(30)
            it.start()
          }
          rows = rows.filter(_._2 < days)
          val ids =
            if (isLog) random.shuffle((0 until 12).toList).take(5) else (5 * batch until 5 * batch + 5).toList
          // Ages between the lengths, in whole days and a half.
          val changes = ids.map(id => (id, random.nextInt(40) + 0.5, random.nextInt(4) == 0 && isLog))
          changes.foreach { case (id, age, isDelete) =>
            if (!(rows.get(id) ++ deleted.get(id)).exists(_ < age)) {
              rows -= id
              deleted -= id
              if (isDelete) deleted += id -> age else if (age < days) rows += id -> age
            }
          }
          it.feed(changes.map { case (id, age, isDelete) =>
            val operation = Option.when(isLog)(if (isDelete) "delete" else "update")
            Row.fromSeq(Seq[Any](id, s"n${id % 3}", ago(age)) ++ operation)
          }: _*)
          assert(this.ids(it.root) == rows.keys.toSeq.sorted, s"batch $batch, seed $seed")
          if (random.nextInt(4) == 0) {
            it.replay()
            assert(this.ids(it.root) == rows.keys.toSeq.sorted, s"batch $batch again, seed $seed")
          }
        }
      }
    }
  }

  test("local times and dates") {
    val local = things(Some("10 days"), op = None, time = "TIMESTAMP_NTZ")
    val dates = things(Some("10 days"), op = None, time = "DATE")
    def daysAgo(days: Long) = LocalDateTime.now(ZoneOffset.UTC).minusDays(days)
    during(local, dates) {
      local.feed(Row(1, "a", daysAgo(9)), Row(2, "a", daysAgo(11)))
      assert(ids(local.root) == Seq(1))
      val days = Seq(9L, 10L, 11L, 12L).map(days => Date.valueOf(daysAgo(days).toLocalDate))
      dates.feed(days.zipWithIndex.map { case (day, id) => Row(id, "a", day) }: _*)
      assert(ids(dates.root) == Seq(0, 1), "a date that is ten days ago stays for the day")
    }
  }

  test("what a ttl needs") {
    def rejectedFor(
        schema: String,
        op: Option[String],
        diff: Option[String],
        time: Option[String],
        ttl: String = "10 days",
        condition: String = "STREAMJOIN_DURATION"
    ) =
      rejected(condition)(
        maintainer(schema, Seq(Seq("id")), op, diff, time, ttl = Some(ttl)).start()
      )
    val (none, at) = (Option.empty[String], Some("at"))
    rejectedFor("id INT, at TIMESTAMP", none, none, none, condition = "STREAMJOIN_ARRANGE.TTL_WITHOUT_TIME")
    rejectedFor("id INT, at LONG", none, none, at, condition = "STREAMJOIN_ARRANGE.TTL_TYPE")
    rejectedFor("id INT, n INT", none, Some("n"), none, condition = "STREAMJOIN_ARRANGE.DIFF_WITH_TTL")
    rejectedFor("id INT, at TIMESTAMP", None, None, Some("at"), "0 days")
    rejectedFor("id INT, at TIMESTAMP", None, None, Some("at"), "1 month")
    val stream = MemoryStream[Row](Encoders.row(StructType.fromDDL("id INT, at TIMESTAMP")), spark).toDF()
    val plan = Arrangements
      .arrange(stream, newFolder(), Seq(Seq("id")), None, None, Some("at"), ttl = Some("72 hours"))
      .queryExecution
      .analyzed
      .toString
    assert(plan.contains("rows kept for 3 days of at"))
  }
}
