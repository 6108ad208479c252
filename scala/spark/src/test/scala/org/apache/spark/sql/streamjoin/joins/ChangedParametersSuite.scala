package org.apache.spark.sql.streamjoin.joins

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalTest
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame}

import streamjoin.core.Side

/**
 * Every parameter of the joins that keep state, changed while a checkpoint is in use: either the
 * query is rejected, and says which parameter has changed, or the rows are right.
 */
class ChangedParametersSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  private type Query = Streams => DataFrame

  /** A query, what may not change, as the property that the error names, and what may. */
  private case class Case(name: String, query: Query, rejected: Seq[(String, Query)], accepted: Seq[Query])

  private def changed(old: Job, query: Query): (String, Map[String, String]) = {
    val before = listing(old)
    val next = old.successor(query)
    val error = intercept[Exception] {
      try {
        next.start()
        next.settle()
      } finally next.stop()
    }
    val rejected = Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).collectFirst {
      case known: AnalysisException if known.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED" => known
    }
    assert(listing(old) == before)
    val parameters = rejected.getOrElse(fail(error)).getMessageParameters
    (parameters.get("what"), Map("was" -> parameters.get("was"), "is" -> parameters.get("is")))
  }

  private def select(joined: DataFrame): DataFrame = joined.selectExpr("o.v AS a", "d.v AS b")

  // Temporal join.

  private def versionsOf(
      how: String = "left_outer",
      on: String = "o.id = d.id",
      key: Seq[String] = Seq("id"),
      op: Option[String] = None,
      order: Option[String] = Some("n"),
      history: Option[String] = None,
      ordered: Boolean = true,
      delay: String = "0 seconds",
      unavailable: Option[String] = None
  ): Query = streams => {
    val right = streams
      .raw("d")
      .withWatermark("t", delay)
      .selectExpr("id", "t", "v", "v AS n", "-v AS m", "'u' AS op", "'c' AS other")
      .as("d")
    val joined = streams.marked("o", delay).join(right, expr(on), how)
    select(Frames.temporal(joined, key, "t", op, "t", history, order, ordered, unavailable))
  }

  private def closest(
      how: String = "left_outer",
      on: String = "o.id = d.id",
      direction: String = "backward",
      exact: Boolean = true,
      tolerance: Option[String] = Some("1 hour"),
      ordered: Boolean = true,
      where: String = "true"
  ): Query = streams => {
    val joined = streams.marked("o").join(streams.marked("d").where(where), expr(on), how)
    select(Frames.inDirection(joined, direction, exact, tolerance, ordered))
  }

  private def window(side: Side, length: String, how: String = "left_outer"): Query = streams =>
    select(Frames.windows(hourly(how, "o.id = d.id")(streams), Map(side -> length)))

  private def plain(streams: Streams): DataFrame =
    streams.raw("o").withWatermark("t", "5 minutes").selectExpr("id", "t", "v AS a", "v AS b")

  private def sorted(streams: Streams): DataFrame =
    Frames.sorted(plain(streams), "t").selectExpr("a", "b")

  private def input(of: DataFrame => DataFrame): Query = streams => {
    val orders = of(streams.raw("o").selectExpr("*", "v = -1 AS b", "v % 2 AS p"))
    select(orders.as("o").join(streams.marked("d"), expr(Hourly), "left_outer"))
  }

  private def bounds(isBound: String = "b", lag: String = "0 seconds", per: Option[String] = None): Query =
    input(Frames.withBounds(_, "t", isBound, Some(lag), per))

  private def idle(after: Option[String]): Query = input { stream =>
    val marked = stream.withWatermark("t", "0 seconds")
    after.fold(marked)(Frames.idleAfter(marked, _))
  }

  private val cases = Seq(
    Case(
      "with_bounds",
      bounds(),
      Nil,
      Seq(bounds(lag = "1 second"), bounds(per = Some("p")), bounds(per = Some("id")), idle(None))
    ),
    Case("idle_after", idle(Some("1 hour")), Nil, Seq(Some("2 hours"), None, Some("1 hour")).map(idle)),
    Case(
      "temporal join",
      versionsOf(),
      Seq(
        "order" -> versionsOf(order = Some("m")),
        "order" -> versionsOf(order = None),
        "operation" -> versionsOf(op = Some("op")),
        "history_micros" -> versionsOf(history = Some("1 hour")),
        "join_type" -> versionsOf(how = "inner"),
        "condition" -> versionsOf(on = "o.id = d.id AND d.v > 0"),
        "condition" -> versionsOf(on = "o.id = d.id AND o.v > 0"),
        "equality" -> versionsOf(on = "o.id = d.id AND o.v = d.v", key = Seq("id", "v")),
        "equality" -> versionsOf(on = "o.id <=> d.id"),
        "join" -> closest(tolerance = None),
        "number_of_operators" -> (streams =>
          select(streams.marked("o").crossJoin(spark.range(1).selectExpr("0 AS v").as("d")))
        )
      ),
      Seq(versionsOf(ordered = false), versionsOf(delay = "1 second"))
    ),
    Case(
      "temporal join with op",
      versionsOf(op = Some("op"), order = None),
      Seq(
        "operation" -> versionsOf(order = None),
        "operation" -> versionsOf(op = Some("other"), order = None),
        "unavailable" -> versionsOf(op = Some("op"), order = None, unavailable = Some("?"))
      ),
      Nil
    ),
    Case(
      "as-of join",
      closest(),
      Seq(
        "right_condition" -> closest(on = "o.id = d.id AND d.v > 0"),
        "condition" -> closest(on = "o.id = d.id AND o.v > 0"),
        "allow_exact_matches" -> closest(exact = false),
        "direction" -> closest(direction = "forward"),
        "direction" -> closest(direction = "nearest"),
        "tolerance_micros" -> closest(tolerance = Some("2 hours")),
        "tolerance_micros" -> closest(tolerance = None),
        "join_type" -> closest(how = "inner"),
        "equality" -> closest(on = "o.v = d.v"),
        "equality" -> closest(on = "o.id <=> d.id")
      ),
      // Spark lets a filter below a stateful operator change.
      Seq(closest(ordered = false), closest(tolerance = Some("60 minutes")), closest(where = "v < 1000"))
    ),
    Case(
      "as-of join with a condition on the right",
      closest(on = "o.id = d.id AND d.v > 0"),
      Seq("right_condition" -> closest(), "right_condition" -> closest(on = "o.id = d.id AND d.v > 1")),
      Seq(closest(on = "o.id = d.id AND 0 < d.v"))
    ),
    Case(
      "window join",
      window(Side.Right, "1 hour"),
      Seq(
        "window" -> window(Side.Left, "1 hour"),
        "window" -> window(Side.Right, "2 hours"),
        "join_type" -> window(Side.Right, "1 hour", "inner"),
        "join 2" -> picked()
      ),
      Seq(window(Side.Right, "60 minutes"))
    ),
    Case(
      "impose_order(sort=True)",
      sorted,
      Seq("number_of_operators" -> (plain(_).selectExpr("a", "b"))),
      Seq(streams => sorted(streams).selectExpr("a", "b + 0 AS b"))
    ),
    Case(
      "temporal join with a value used twice",
      versionsOf(on = "o.id = d.id AND abs(d.v) BETWEEN 0 AND 100"),
      Seq("condition" -> versionsOf(on = "o.id = d.id AND abs(d.v - 1) BETWEEN 0 AND 100")),
      Seq(versionsOf(on = "o.id = d.id AND abs(d.v) >= 0 AND abs(d.v) <= 100"))
    ),
    Case(
      "left join with a value used twice",
      picked(condition = s"$Hourly AND abs(o.v) BETWEEN 0 AND 100"),
      Seq("left_condition" -> picked(condition = s"$Hourly AND abs(o.v - 1) BETWEEN 0 AND 100")),
      Seq(picked(condition = s"$Hourly AND abs(o.v) >= 0 AND abs(o.v) <= 100"))
    ),
    Case(
      "days as the key",
      picked(condition = "to_date(o.t) = to_date(d.t)"),
      Seq("equality" -> picked(condition = "date_trunc('DAY', o.t) = date_trunc('DAY', d.t)")),
      Seq(picked(condition = "CAST(d.t AS DATE) = CAST(o.t AS DATE)"))
    )
  )

  for (Case(name, query, rejected, accepted) <- SparkTest.part(cases, every = 9, from = 4))
    test(s"$name: parameters that change at a restart") {
      val old = begun(query)
      for (((what, next), number) <- rejected.zipWithIndex) withClue(s"$what, change $number: ") {
        val (found, values) = changed(old, next)
        assert(found == what)
        assert(values("was") != values("is"))
      }
      // A query that was never stopped emits the same rows.
      val more =
        Seq(Seq(o("a", "10:05", 4), d("a", "10:02", 5), d("a", "10:02", 6)), end("14:00"), end("15:00"))
      val expected = running(job(query))(job => (begin +: more).flatMap(rows => job.feed(rows: _*)))
      val rows = accepted.foldLeft((old, Seq.empty[String])) { case ((before, rows), query) =>
        val next = before.successor(query)
        val fed = if (rows.isEmpty) more.head else Nil
        (next, rows ++ running(next)(_.feed(fed: _*)) :+ "next")
      } match {
        case (last, rows) =>
          val next = last.successor(query)
          val left = if (rows.isEmpty) more else more.tail
          rows.filter(_ != "next") ++ running(next)(job => left.flatMap(rows => job.feed(rows: _*)))
      }
      assert(withoutEnd(old.seen.flatMap(_.rows) ++ rows).sorted == withoutEnd(expected).sorted)
    }

  test("a key that depends on the time zone is rejected in another one") {
    val query = picked(condition = "to_date(o.t) = to_date(d.t)")
    val old = withConf("spark.sql.session.timeZone" -> "Europe/Berlin")(begun(query))
    withConf("spark.sql.session.timeZone" -> "Asia/Kolkata") {
      val zones = Map("was" -> "Europe/Berlin", "is" -> "Asia/Kolkata")
      assert(changed(old, query) == ("time_zone_of_equality" -> zones))
    }
    withConf("spark.sql.session.timeZone" -> "Europe/Berlin")(running(old)(_.settle())): Unit
  }

  test("a record from before a property was recorded is accepted, and gets it") {
    val query = closest(on = "o.id = d.id AND d.v > 0")
    val old = begun(query)
    val record = Path.of(old.checkpoint, "stream-joins", "0")
    def edit(change: String => String): Unit =
      SparkTest.overwrite(record, change(Files.readString(record)))
    edit(
      _.replaceAll("\"(join|order|right_condition|time_zone_of_equality)\":\"[^\"]*\",?", "")
        .replace(",}", "}")
    )
    assert(!Files.readString(record).contains("right_condition"))
    running(old)(_.feed(d("b", "10:20", 1)))
    assert(Files.readString(record).contains("\"right_condition\""))
    assert(changed(old, closest())._1 == "right_condition")
    // A property of a later version does no harm.
    edit(_.replace("\"join_type\"", "\"of_later_version\":\"x\",\"join_type\""))
    running(old)(_.settle()): Unit
  }
}
