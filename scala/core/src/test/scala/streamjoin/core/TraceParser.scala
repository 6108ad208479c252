package streamjoin.core

import scala.util.matching.Regex

/** A trace that cannot be read; the message shows the line. */
final class TraceError(name: String, line: Int, text: String, reason: String)
    extends IllegalArgumentException(s"$name, line $line: $reason\n--> $text")

/** Reads the format of `tests/cases/README.md`. */
object TraceParser {

  def parse(name: String, text: String): Trace = new TraceParser(name, text.linesIterator.toVector).trace()

  private val Directive: Regex = """([a-z]+):\s*(.*)""".r
  private val Comparison: Regex = """(.+?)\s*(>=|<=|=|>|<)\s*(.+)""".r
  private val ColumnTerm: Regex = """(left|right)\.(\w+)(?:\s*([+-])\s*(\d+))?""".r
  private val Number: Regex = """(-?\d+)""".r
  private val Value: Regex = """(\w+)=(-?\d+|null)""".r
  private val Output: Regex = """(\w+|-)(?:\+(\w+|-))?""".r
  private val single =
    Set(
      "join",
      "left",
      "right",
      "layers",
      "cap",
      "fail",
      "match",
      "delete",
      "history",
      "remembers",
      "lifetime"
    )
  private val several = Set("on", "constraint", "window", "carries")
  private val Lifetime: Regex = """keep|(fail|cut) (\d+)""".r
  private val Window: Regex = """(left|right) (following|preceding) (\d+)""".r
  private val Compared: Regex = """left\.\w+ (>=|>|<=|<) right\.\w+(?: within (\d+))?""".r
  private val Nearest: Regex = """nearest within (\d+)( not exact)?""".r
  private val layerNames = Set("core", "spark", "python")
}

final private class TraceParser(name: String, lines: Vector[String]) {
  import TraceParser._

  private case class Line(number: Int, text: String) {
    def fail(reason: String): Nothing = throw new TraceError(name, number, text, reason)
    def words: List[String] = text.split("\\s+").toList
  }

  private val content: Vector[Line] = lines.zipWithIndex
    .map { case (text, index) => Line(index + 1, text.replaceFirst("#.*", "").trim) }
    .filter(_.text.nonEmpty)

  private val (directives, story) = content.span(line => Directive.matches(line.text))

  private def values(directive: String): Vector[(Line, String)] = directives.collect {
    case line @ Line(_, Directive(`directive`, value)) => (line, value.trim)
  }

  private def value(directive: String): Option[(Line, String)] = values(directive).headOption

  private def required(directive: String): (Line, String) =
    value(directive).getOrElse(Line(1, lines.headOption.getOrElse("")).fail(s"no `$directive:` directive"))

  private val times: Map[Side, Seq[String]] =
    Side.both.map(side => side -> required(side.name)._2.split("\\s+").toSeq).toMap

  private val carried: Seq[Column] = values("carries").map {
    case (_, ColumnTerm(side, column, null, null)) => Column(sideNamed(side), column)
    case (line, _) => line.fail("rows carry a column, as in left.until")
  }

  private def isTime(column: Column): Boolean =
    times(column.side).contains(column.name) || carried.contains(column)

  private val on: Seq[(Line, Conjunct)] = values("on").map { case (line, text) =>
    line -> conjunct(line, text)
  }

  def trace(): Trace = {
    directives.groupBy(_.text.takeWhile(_ != ':')).foreach { case (directive, found) =>
      if (!single(directive) && !several(directive))
        found.head.fail(s"no such directive: $directive")
      if (single(directive) && found.size > 1) found(1).fail(s"`$directive:` is given twice")
    }
    val trace = Trace(
      name,
      lines,
      joinType,
      times,
      on.map(_._2),
      values("constraint").map { case (line, text) => conjunct(line, text) },
      carried,
      lifetime,
      windows,
      closest,
      layers,
      value("cap").map { case (line, text) => text.toLongOption.getOrElse(line.fail("the cap is a number")) },
      value("fail").map(_._2),
      steps
    )
    checkOrder(trace)
    trace
  }

  private def lifetime: TraceLifetime = value("lifetime").fold(TraceLifetime(None, cuts = false)) {
    case (_, Lifetime(beyond, longest)) => TraceLifetime(Option(longest).map(_.toLong), beyond == "cut")
    case (line, _) => line.fail("a lifetime is `keep`, `fail n` or `cut n`")
  }

  private def windows: Option[JoinWindows] = {
    val found = values("window").map {
      case (_, Window(side, direction, length)) =>
        sideNamed(side) -> JoinWindow(length.toLong, direction == "following")
      case (line, _) => line.fail("a window is `left|right following|preceding n`")
    }
    Option.when(found.nonEmpty)(JoinWindows(found.toMap))
  }

  private def closest: Option[TraceMatch] = value("match").map { case (line, text) =>
    val history = value("history").fold(0L) { case (at, number) => this.number(at, number) }
    val rule = text match {
      case Compared(operator, within) =>
        val direction = if (operator.startsWith(">")) AsOf.Backward else AsOf.Forward
        AsOf(direction, operator.endsWith("="), Option(within).map(_.toLong), history)
      case Nearest(within, notExact) => AsOf(AsOf.Nearest, notExact == null, Some(within.toLong))
      case _ =>
        line.fail("a match is `left.t >= right.t` (or > <= <), `within n` behind it, or `nearest within n`")
    }
    val remembers = value("remembers").map { case (at, number) => this.number(at, number) }
    TraceMatch(rule, value("delete").map(_._2), remembers)
  }

  /** Ordered output is in the order of rowtime from the first step to the last. */
  private def checkOrder(trace: Trace): Unit = {
    val outputs = trace.steps.flatMap(_.expected).flatMap(e => trace.rowtime(e.text).map(e -> _))
    outputs.zip(outputs.drop(1)).foreach { case ((_, before), (expected, rowtime)) =>
      if (rowtime < before)
        Line(expected.line, expected.text).fail(s"its rowtime is $rowtime, and $before came before it")
    }
  }

  private def joinType: JoinType = {
    val (line, text) = required("join")
    JoinType
      .named(text)
      .getOrElse(line.fail(s"the join type is one of ${JoinType.all.map(_.name).mkString(", ")}"))
  }

  private def layers: Set[String] = value("layers").fold(Set.empty[String]) { case (line, text) =>
    val named = text.split("\\s+").toSet
    (named -- layerNames).foreach(layer => line.fail(s"no such layer: $layer"))
    named
  }

  private def conjunct(line: Line, text: String): Conjunct = text match {
    case Comparison(left, operator, right) =>
      val made = Conjunct(text, term(line, left), operator, term(line, right))
      if (made.columns.isEmpty) line.fail("a condition compares at least one column")
      if (Seq(made.left, made.right).map(_.column.exists(isTime)).distinct.size > 1)
        line.fail("an event time is compared with an event time, any other column with any other or a number")
      made
    case _ =>
      line.fail("a condition is a term, one of >= > <= < = and a term, as in right.time <= left.time + 4")
  }

  private def term(line: Line, text: String): Term = text.trim match {
    case Number(digits) => Term(None, digits.toLong)
    case ColumnTerm(side, column, sign, digits) =>
      val offset = Option(digits).fold(0L)(_.toLong)
      Term(Some(Column(sideNamed(side), column)), if (sign == "-") -offset else offset)
    case other =>
      line.fail(s"a term is a number or left.column or right.column, with + n or - n; seen `$other`")
  }

  private def sideNamed(name: String): Side = if (name == "left") Side.Left else Side.Right

  /** Each step takes the output lines that follow it. */
  private def steps: Vector[Step] = {
    val starts = story.indices.filter(index => isAction(story(index)))
    if (story.nonEmpty && !starts.headOption.contains(0))
      story.head.fail("the story begins with left, right, watermark or restart")
    val found = starts.zip(starts.drop(1) :+ story.size).map { case (from, until) =>
      step(story(from), story.slice(from + 1, until))
    }
    found.toVector
  }

  private def isAction(line: Line): Boolean = Set("left", "right", "watermark", "restart")(line.words.head)

  private def step(line: Line, output: Seq[Line]): Step = {
    val (buffers, expected) = output.partition(_.words.head == "state")
    buffers.drop(1).foreach(_.fail("a step has one state line"))
    Step(line.number, action(line), expected.map(expectation), buffers.headOption.map(state))
  }

  private def action(line: Line): Action = line.words match {
    case List("restart") => Restart
    case List("watermark", column, value) => WatermarkComes(timeColumn(line, column), number(line, value))
    case (side @ ("left" | "right")) :: label :: cells => RowComes(row(line, sideNamed(side), label, cells))
    case _ =>
      line.fail("a step is `left|right label column=value …`, `watermark side.column value` or `restart`")
  }

  private def row(line: Line, side: Side, label: String, cells: List[String]): TraceRow = {
    if (labels(side).count(_ == label) + labels(side.other).count(_ == label) > 1)
      line.fail(s"two rows are called $label")
    val values = cells.map {
      case Value(column, "null") => column -> Option.empty[Long]
      case Value(column, digits) => column -> Option(digits.toLong)
      case other => line.fail(s"a cell is column=number or column=null; seen `$other`")
    }
    val needed = times(side) ++ on.flatMap(_._2.columns).filter(_.side == side).map(_.name) ++
      (if (side == Side.Right) value("delete").map(_._2) else None)
    needed.distinct.diff(values.map(_._1)).foreach(column => line.fail(s"the row has no value for $column"))
    TraceRow(side, label, values.toMap)
  }

  private lazy val labels: Map[Side, Seq[String]] = Side.both.map { side =>
    side -> story.map(_.words).collect { case side.name :: label :: _ => label }
  }.toMap

  private def number(line: Line, text: String): Long =
    text.toLongOption.getOrElse(line.fail(s"no number: $text"))

  private def timeColumn(line: Line, text: String): Column = text match {
    case ColumnTerm(side, column, null, null) if isTime(Column(sideNamed(side), column)) =>
      Column(sideNamed(side), column)
    case other => line.fail(s"no event-time column: $other")
  }

  private def known(line: Line, side: Side, label: String): String =
    if (labels(side).contains(label)) label else line.fail(s"no ${side.name} row is called $label")

  private def expectation(line: Line): Expected = {
    line.words match {
      case List("expect", Output(left, null)) => known(line, Side.Left, left)
      case List("expect", Output("-", "-")) => line.fail("a padded row has one real side")
      case List("expect", Output(left, right)) =>
        if (left != "-") known(line, Side.Left, left)
        if (right != "-") known(line, Side.Right, right)
      case List("late", label) => if (!labels(Side.Left).contains(label)) known(line, Side.Right, label)
      case List("emit", column, value) => timeColumn(line, column); number(line, value)
      case _ =>
        line.fail("after a step comes `expect a+x`, `late a`, `emit side.column value` or `state a b | x y`")
    }
    Expected(line.number, line.words.mkString(" "))
  }

  private def state(line: Line): Buffers = line.text.stripPrefix("state").split("\\|", -1).toList match {
    case List(left, right) =>
      val found = Seq(Side.Left -> left, Side.Right -> right).map { case (side, text) =>
        side -> text.trim.split("\\s+").toSeq.filter(_.nonEmpty).map(known(line, side, _))
      }
      Buffers(line.number, found.toMap)
    case _ => line.fail("a state line is `state a b | x y`, left labels before the bar")
  }
}
