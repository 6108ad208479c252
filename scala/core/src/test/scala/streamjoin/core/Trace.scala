package streamjoin.core

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

/** A column of one input, written `left.time`. */
final case class Column(side: Side, name: String) {
  override def toString: String = s"${side.name}.$name"
}

/** A column with a whole number added, or the number alone. */
final case class Term(column: Option[Column], offset: Long)

/** One `on:` or `constraint:` line. */
final case class Conjunct(text: String, left: Term, operator: String, right: Term) {

  def columns: Seq[Column] = (left.column ++ right.column).toSeq

  /** SQL's rule for nulls inside a condition: a comparison with one does not hold. */
  def holds(value: Column => Option[Long]): Boolean = {
    def of(term: Term): Option[Long] = term.column.fold(Option(0L))(value).map(_ + term.offset)
    of(left).zip(of(right)).exists { case (a, b) =>
      operator match {
        case "=" => a == b
        case ">=" => a >= b
        case ">" => a > b
        case "<=" => a <= b
        case "<" => a < b
      }
    }
  }

  /**
   * In the form `out >= in - postpone`, both ways for an equality. For whole numbers, a strict
   * bound is tighter by one.
   */
  def asBounds(key: Column => Option[Int]): Seq[TimeBound] =
    (for {
      a <- left.column.flatMap(key)
      b <- right.column.flatMap(key)
    } yield {
      val atLeast = (strict: Long) => TimeBound(a, b, left.offset - right.offset - strict)
      val atMost = (strict: Long) => TimeBound(b, a, right.offset - left.offset - strict)
      operator match {
        case "=" => Seq(atLeast(0), atMost(0))
        case ">=" => Seq(atLeast(0))
        case ">" => Seq(atLeast(1))
        case "<=" => Seq(atMost(0))
        case "<" => Seq(atMost(1))
      }
    }).getOrElse(Nil)
}

/** A row of an input, known by its label. */
final case class TraceRow(side: Side, label: String, values: Map[String, Option[Long]]) {
  override def toString: String = label
}

sealed trait Action
final case class RowComes(row: TraceRow) extends Action
final case class WatermarkComes(column: Column, value: Long) extends Action
case object Restart extends Action

/** One line of output that a step must have: `expect a+x`, `late a` or `emit left.time 5`. */
final case class Expected(line: Int, text: String) {
  def kind: String = text.takeWhile(_ != ' ')
}

/** The labels in both buffers after a step. */
final case class Buffers(line: Int, labels: Map[Side, Seq[String]])

final case class Step(line: Int, action: Action, expected: Seq[Expected], state: Option[Buffers])

/**
 * How a temporal or an as-of join matches.
 *
 * @param delete
 *   for a temporal join, the column of the right input that is 1 in a row that deletes its key
 * @param remembers
 *   how long a deletion is remembered
 */
final case class TraceMatch(rule: AsOf, delete: Option[String], remembers: Option[Long]) {
  def isDelete(row: TraceRow): Boolean = delete.exists(row.values(_).contains(1L))
}

/**
 * One behaviour as a story: a join, its input, and the complete output of each step. The format is
 * described in `tests/cases/README.md`; every layer runs the same files.
 *
 * @param times
 *   the event-time columns of each side; watermark keys number them, left side first
 * @param windows
 *   the windows of a window join, whose output is in the order of rowtime
 * @param closest
 *   the rule of a temporal or an as-of join, whose output is in the order of the left time
 * @param carried
 *   columns with times at which their rows leave
 * @param fails
 *   the error class with which the last step fails, or the start if there is no step
 */
final case class Trace(
    name: String,
    lines: Vector[String],
    joinType: JoinType,
    times: Map[Side, Seq[String]],
    on: Seq[Conjunct],
    constraints: Seq[Conjunct],
    carried: Seq[Column],
    lifetime: TraceLifetime,
    windows: Option[JoinWindows],
    closest: Option[TraceMatch],
    layers: Set[String],
    cap: Option[Long],
    fails: Option[String],
    steps: Vector[Step]
) {

  /** The event-time columns; the position is the watermark key. */
  val keys: Seq[Column] = Side.both.flatMap(side => times(side).map(Column(side, _)))

  def key(column: Column): Option[Int] = Some(keys.indexOf(column)).filter(_ >= 0)

  /** Whether a column has times, with or without a watermark. */
  def isTime(column: Column): Boolean = keys.contains(column) || carried.contains(column)

  def rows: Seq[TraceRow] = steps.map(_.action).collect { case RowComes(row) => row }

  /** The columns of a side, event times first. */
  def columns(side: Side): Seq[String] =
    (times(side) ++ carried
      .filter(_.side == side)
      .map(_.name) ++ on.flatMap(_.columns).filter(_.side == side).map(_.name) ++
      closest.flatMap(_.delete).filter(_ => side == Side.Right) ++
      rows.filter(_.side == side).flatMap(_.values.keys.toSeq.sorted)).distinct

  /** The equalities between the inputs, as the columns of the left and of the right one. */
  def equalities: Seq[(String, String)] = on.collect {
    case conjunct if conjunct.operator == "=" && conjunct.columns.map(_.side).distinct.size == 2 =>
      val (left, right) = conjunct.columns.partition(_.side == Side.Left)
      left.head.name -> right.head.name
  }

  def runsOn(layer: String): Boolean = layers.isEmpty || layers(layer)

  /** The whole story, with an arrow at a line and the reason below. */
  def at(line: Int, reason: String): String = {
    val shown = lines.zipWithIndex.map { case (text, index) =>
      f"${if (index + 1 == line) "-->" else "   "} ${index + 1}%3d  $text"
    }
    (s"$name, line $line:" +: shown :+ s"$name, line $line: $reason").mkString("\n", "\n", "\n")
  }

  /**
   * What is wrong with an output, if anything; the order does not matter, the number of rows does.
   */
  def difference(line: Int, expected: Seq[Expected], seen: Seq[String]): Option[String] = {
    val wanted = expected.map(_.text)
    val missing = wanted.diff(seen)
    val rowtimes = seen.flatMap(rowtime)
    if (wanted.sorted != seen.sorted) {
      val arrow = expected.find(e => missing.contains(e.text)).fold(line)(_.line)
      Some(at(arrow, s"expected ${Trace.listed(wanted)}; seen ${Trace.listed(seen)}"))
    } else
      Option.when(rowtimes != rowtimes.sorted) {
        at(line, s"seen in the order ${seen.mkString(", ")}, with the rowtimes ${rowtimes.mkString(", ")}")
      }
  }

  /** The rowtime of a line of output, if the join emits its rows in an order. */
  def rowtime(text: String): Option[Long] = for {
    Seq("expect", output) <- Some(text.split(' ').toSeq)
    found = output.split('+').toSeq.flatMap(label => rows.find(_.label == label))
    timed = found.flatMap(row => row.values(times(row.side).head).map(row.side -> _))
    time <- (windows, timed) match {
      case (Some(known), Seq((Side.Left, left), (Side.Right, right))) => Some(known.rowtime(left, right))
      case (Some(known), Seq((side, alone))) => Some(alone + known.behind(side))
      case (None, (Side.Left, left) +: _) if closest.exists(_.rule.history == 0) => Some(left)
      case _ => None
    }
  } yield time

  /** The steps one by one. */
  def single: Seq[Seq[Step]] = steps.map(Seq(_))

  /** The rows between two watermarks or restarts taken together. */
  def merged: Seq[Seq[Step]] = steps.foldLeft(Vector.empty[Vector[Step]]) { (groups, step) =>
    val joins = Seq(Some(step), groups.lastOption.map(_.last)).flatten.forall(_.action.isInstanceOf[RowComes])
    if (joins && groups.nonEmpty) groups.init :+ (groups.last :+ step) else groups :+ Vector(step)
  }

  /**
   * Runs the story to its end or to the first failure, which is returned with the story and an
   * arrow.
   *
   * @param start
   *   starts the join
   * @param each
   *   runs a group of steps and returns what is wrong
   * @param errorClass
   *   the class of a failure, as in a `fail:` line
   */
  def failure(groups: Seq[Seq[Step]], start: () => Unit, errorClass: Throwable => Option[String])(
      each: Seq[Step] => Option[String]
  ): Option[String] = {
    def attempt(line: Int, last: Boolean)(run: => Option[String]): Option[String] =
      try
        run.orElse(
          fails.filter(_ => last).map(expected => at(line, s"expected to fail with $expected, went on"))
        )
      catch {
        case NonFatal(error) if last && fails.isDefined && errorClass(error) == fails => None
        case NonFatal(error) =>
          Some(at(line, s"expected ${fails.getOrElse("no failure")}, failed with $error"))
      }
    attempt(1, groups.isEmpty) { start(); None }.orElse {
      groups.iterator
        .flatMap(group => attempt(group.last.line, group == groups.last)(each(group)))
        .nextOption()
    }
  }
}

object Trace {

  def listed(texts: Seq[String]): String =
    if (texts.isEmpty) "no output" else texts.sorted.mkString("[", ", ", "]")

  /** `tests/cases`, searched upwards from the working directory. */
  lazy val folder: Path =
    Iterator
      .iterate(Paths.get("").toAbsolutePath)(_.getParent)
      .takeWhile(_ != null)
      .map(_.resolve("tests").resolve("cases"))
      .find(Files.isDirectory(_))
      .getOrElse(sys.error(s"no tests/cases above ${Paths.get("").toAbsolutePath}"))

  /** Every case, by name. */
  lazy val all: Seq[Trace] = {
    val listing = Files.list(folder)
    try
      listing
        .iterator()
        .asScala
        .filter(_.toString.endsWith(".trace"))
        .toSeq
        .sortBy(_.getFileName.toString)
        .map(path =>
          TraceParser.parse(path.getFileName.toString.stripSuffix(".trace"), Files.readString(path))
        )
    finally listing.close()
  }
}
