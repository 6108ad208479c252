package streamjoin.core

import org.scalatest.funsuite.AnyFunSuite

class TraceParserSuite extends AnyFunSuite {

  private val story =
    """# what it is about
      |join: left_outer
      |left: time
      |right: time
      |on: left.id = right.id
      |on: right.time > left.time - 1
      |on: right.time - 2 <= left.time + 4
      |cap: 5
      |
      |left a id=1 time=-3   # a comes
      |right x id=null time=0
      |  expect a+x
      |  state a | x
      |watermark right.time 9
      |  expect a+-
      |  emit left.time 2
      |restart
      |  state |
      |""".stripMargin

  private def parsed(text: String): Trace = TraceParser.parse("story", text)

  private def rejection(from: String, to: String): String = {
    assert(story.contains(from))
    intercept[TraceError](parsed(story.replace(from, to))).getMessage
  }

  test("directives describe the join") {
    val trace = parsed(story)
    assert(trace.joinType == JoinType.LeftOuter)
    assert(trace.keys == Seq(Column(Side.Left, "time"), Column(Side.Right, "time")))
    assert(trace.cap.contains(5L))
    assert(trace.fails.isEmpty)
    assert(trace.runsOn("core"))
    assert(trace.columns(Side.Left) == Seq("time", "id"))
    assert(CoreTrace.bounds(trace).tightest == Seq(TimeBound(0, 1, 6), TimeBound(1, 0, 0)))
  }

  test("steps take the output lines below them") {
    val steps = parsed(story).steps
    assert(steps.map(_.line) == Seq(10, 11, 14, 17))
    val (a, x, watermark, restart) = (steps(0), steps(1), steps(2), steps(3))
    assert(a.action == RowComes(TraceRow(Side.Left, "a", Map("id" -> Some(1L), "time" -> Some(-3L)))))
    assert(x.expected.map(_.text) == Seq("expect a+x"))
    assert(x.state.map(_.labels) == Some(Map(Side.Left -> Seq("a"), Side.Right -> Seq("x"))))
    assert(watermark.action == WatermarkComes(Column(Side.Right, "time"), 9))
    assert(watermark.expected.map(_.kind) == Seq("expect", "emit"))
    assert(restart.action == Restart)
    assert(restart.state.map(_.labels) == Some(Map(Side.Left -> Nil, Side.Right -> Nil)))
  }

  test("merged steps take the rows between watermarks together") {
    assert(parsed(story).merged.map(_.map(_.line)) == Seq(Seq(10, 11), Seq(14), Seq(17)))
  }

  test("a trace that cannot be read is rejected with the line and the reason") {
    Seq(
      ("join: left_outer", "join: left") -> "the join type is one of inner, left_outer",
      ("join: left_outer", "# nothing") -> "no `join:` directive",
      ("cap: 5", "cap: five") -> "the cap is a number",
      ("cap: 5", "cup: 5") -> "no such directive: cup",
      ("cap: 5", "match: left.time = right.time") -> "a match is `left.t >= right.t`",
      ("cap: 5", "left: time2") -> "`left:` is given twice",
      ("cap: 5", "layers: flink") -> "no such layer: flink",
      (
        "right.time > left.time - 1",
        "right.time > left.id - 1"
      ) -> "an event time is compared with an event time",
      ("right.time > left.time - 1", "right.time > l.time - 1") -> "seen `l.time - 1`",
      ("left a id", "up a id") -> "the story begins with",
      ("restart", "restart now") -> "a step is",
      ("right x id", "right a id") -> "two rows are called a",
      ("id=null time=0", "time=0") -> "the row has no value for id",
      ("id=null", "id=none") -> "seen `id=none`",
      ("expect a+x", "expect a+y") -> "no right row is called y",
      ("expect a+-", "expect -+-") -> "a padded row has one real side",
      ("watermark right.time 9", "watermark right.id 9") -> "no event-time column: right.id",
      ("emit left.time 2", "emits left.time 2") -> "after a step comes",
      ("state |", "state") -> "a state line is"
    ).foreach { case ((from, to), reason) =>
      val message = rejection(from, to)
      assert(message.contains(reason), s"for `$to`")
      assert(message.contains("\n--> "), s"for `$to`")
    }
  }

  test("a story that fails is shown with an arrow at the line") {
    val message =
      CoreTrace.failure(parsed(story.replace("id=null", "id=1"))).getOrElse(fail("it should not pass"))
    assert(message.contains("-->  15    expect a+-"))
    assert(message.contains("expected [emit left.time 2, expect a+-]; seen no output"))
  }
}
