package org.apache.spark.sql.streamjoin.joins.temporal

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.changes.ChangeCases.NotSent
import org.apache.spark.sql.streamjoin.{Frames, JoinTest}
import org.apache.spark.sql.{DataFrame, Row}

/** Values that were not sent, in versions that stay in state for a history. */
class VersionValuesSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  private def joined(streams: Streams): DataFrame = Frames
    .temporal(
      streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), "left_outer"),
      op = Some("op"),
      history = Some("10 minutes"),
      unavailable = Some(NotSent)
    )
    .selectExpr("o.v AS a", "d.v AS b", "d.w AS c")

  private def facts(): Job = job(joined, schema = "id STRING, t TIMESTAMP, v STRING, w STRING, op STRING")

  private def fact(id: String, time: String, v: String) = "o" -> Row(id, at(time), v, null, null)

  private def version(id: String, time: String, v: String, w: String) =
    "d" -> Row(id, at(time), v, w, "u")

  private def end(id: String, time: String) = Seq(fact(id, time, "end"), version(id, time, "", ""))

  test("a value comes from a version that leaves the history in the same batch") {
    running(facts()) { job =>
      // The log is read from its beginning. Both watermarks are then 10:14, and the history is from
      // 10:04 on.
      val rows = Seq(
        version("a", "09:50", "1", "one"),
        version("a", "10:00", "2", NotSent),
        version("a", "10:10", NotSent, NotSent),
        version("b", "10:01", "3", "three"),
        version("b", "10:05", NotSent, "four"),
        version("b", "10:11", "5", NotSent),
        fact("a", "10:12", "A"),
        fact("b", "10:10", "B"),
        fact("b", "10:12", "C"),
        fact("c", "10:12", "D")
      )
      val seen = job.feed(rows ++ end("x", "10:14"): _*)
      assert(seen == Seq("A 2 one", "B 3 four", "C 5 four", "D - -"))
    }
  }

  test("a value comes from a version that arrives after its time, with the one that lacks it") {
    running(facts()) { job =>
      job.feed(version("a", "09:00", "1", "one") +: end("x", "10:14"): _*)
      // Facts from 10:04 on are emitted immediately.
      val rows = Seq(
        version("a", "09:30", "2", "two"),
        version("a", "10:06", NotSent, "three"),
        version("b", "09:00", "4", "four"),
        version("b", "10:06", NotSent, "five"),
        version("b", "10:07", NotSent, NotSent)
      )
      val seen = job.feed(
        rows ++ Seq(
          fact("b", "10:05", "A"),
          fact("b", "10:06", "B"),
          fact("b", "10:08", "C"),
          fact("a", "10:08", "D"),
          fact("c", "10:08", "E")
        ): _*
      )
      assert(seen == Seq("A 4 four", "B 4 five", "C 4 five", "D 2 three", "E - -"))
      job.restart()
      assert(job.feed(fact("b", "10:09", "F"), fact("a", "10:09", "G")) == Seq("F 4 five", "G 2 three"))
    }
  }

  test("a value comes from the version before an update, not from the row that the log has before it") {
    def before(time: String) = "d" -> Row("a", at(time), null, null, "update_preimage")
    running(facts()) { job =>
      val rows = Seq(
        version("a", "09:50", "1", "one"),
        before("10:10"),
        version("a", "10:10", "2", NotSent),
        before("10:11"),
        version("a", "10:11", NotSent, NotSent),
        before("10:12"),
        version("a", "10:13", "3", NotSent)
      )
      val asked = Seq(fact("a", "10:10", "A"), fact("a", "10:11", "B"), fact("a", "10:13", "C"))
      assert(job.feed(rows ++ asked ++ end("x", "10:14"): _*) == Seq("A 2 one", "B 2 one", "C 3 -"))
    }
  }

  test("a key has many versions that lack a value, and many facts") {
    val many = 20000
    def time(millis: Int) = new Timestamp(at("10:05").getTime + millis)
    val versions = (1 to many).map(n => "d" -> Row("a", time(n), s"$n", NotSent, "u"))
    val facts = (1 to many).map(n => "o" -> Row("a", time(n), s"$n", null, null))
    running(this.facts()) { job =>
      val seen = job.feed(version("a", "10:00", "0", "first") +: (versions ++ facts ++ end("x", "10:14")): _*)
      assert(seen.sorted == (1 to many).map(n => s"$n $n first").sorted)
    }
  }
}
