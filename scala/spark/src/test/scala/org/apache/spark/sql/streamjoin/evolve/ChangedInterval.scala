package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.streamjoin.{ChangedCore, RandomStory}

import streamjoin.core._

/** Changes of an interval join. */
final private[evolve] class ChangedInterval(seed: Int) extends ChangedStory(seed) {
  import ChangedInterval._

  private val hasEquality = choice.nextInt(4) > 0
  private val name = JoinType.all(seed % JoinType.all.size).name
  private val only = Option.when(choice.nextInt(4) == 0)("left.v > 0")

  /** Whether rows carry the time at which they leave. */
  private val carries = choice.nextInt(2) == 0

  /** By what the rows of a side may leave. */
  private val columns = "time" +: Option.when(carries)("until").toSeq

  private case class Query(
      how: String,
      lowest: Bound,
      highest: Bound,
      pair: String,
      only: Option[String],
      equal: Seq[String],
      lifetime: String
  ) {
    def trace: Trace = {
      val lines = Seq(s"join: $how", "left: time", "right: time") ++
        (if (carries) Seq("carries: left.until", "carries: right.until", s"lifetime: $lifetime") else Nil) ++
        equal.map(column => s"on: left.$column = right.$column") ++
        Seq(below, above, s"on: $passed") ++ only.map("on: " + _)
      TraceParser.parse(s"seed $seed", lines.mkString("\n"))
    }

    /** Spark does not run a join whose condition contradicts its equality. */
    private def passed = if (equal.contains("v")) pairs.last else pair

    def isLeftKept: Boolean = JoinType.named(how).get.pads(Side.Left)

    private def below =
      if (lowest.column == "until") s"on: left.time ${plus(lowest.seconds)} <= right.until"
      else s"on: right.time >= left.time ${plus(lowest.seconds)}"

    private def above =
      if (highest.column == "until") s"on: right.time ${plus(-highest.seconds)} <= left.until"
      else s"on: right.time <= left.time ${plus(highest.seconds)}"

    private def plus(seconds: Long) = s"${if (seconds < 0) "-" else "+"} ${math.abs(seconds)}"

    def moved(down: Long, up: Long): Query = copy(lowest = lowest.moved(-down), highest = highest.moved(up))
  }

  private val first = {
    val lowest = choice.between(-6L, 4L)
    // By another equality, Spark makes a condition on one side a filter on both.
    val more = Option.when(only.isEmpty)("v")
    val equal = if (hasEquality) one(Seq("id"), Seq("id"), Seq("id") ++ more) else Nil
    val highest = lowest + choice.between(0L, 10L)
    def by(seconds: Long) = Bound(one(columns: _*), seconds)
    Query(name, by(lowest), by(highest), one(pairs: _*), only, equal, one(lifetimes: _*))
  }

  override def keepsLabels: Boolean = true

  /** Whether rows of a side leave by what they carry. */
  private def hasValue: Boolean = Seq(first.lowest, first.highest).exists(_.column == "until")

  override protected def queries: Seq[(String, Trace)] = {
    val Query(_, lowest, highest, pair, _, equal, lifetime) = first
    def more = choice.between(1L, 8L)
    val span = highest.seconds - lowest.seconds
    val bounds = Seq(
      "wider" -> first.moved(more, more),
      "wider behind" -> first.moved(0, more),
      "moved" -> first.moved(-3, 3),
      "another condition" -> first.copy(pair = one(pairs.filter(_ != pair): _*))
    ) ++ Option.when(span > 0)("narrower" -> first.moved(0, -choice.between(1L, span + 1))) ++
      only.map(_ => "no condition on one side" -> first.copy(only = None)) ++
      // Otherwise, Spark makes it a filter on the input.
      Option.when(only.isEmpty && first.isLeftKept && !equal.contains("v"))(
        "a condition on one side" -> first.copy(only = Some("left.v > 0"))
      )
    val equalities = Seq(Seq("v"), Seq("id", "v"), Seq("id"), Nil)
      .filter(_.forall(column => if (column == "v") only.isEmpty else hasEquality))
      .filter(_ != equal)
      .map(columns => columns.mkString("equality ", ", ", "") -> first.copy(equal = columns))
    // A condition on one side is a filter if the side is not preserved.
    val types =
      if (only.isDefined) Nil
      else ChangedInterval.types(name).map(how => s"to $how" -> first.copy(how = how))
    // A change of the type is as likely as one of the bounds.
    val lasting = lifetimes
      .filter(other => hasValue && other != lifetime)
      .map(other => s"lifetime $other" -> first.copy(lifetime = other))
    val both = bounds ++ byOthers ++ lasting ++ equalities.take(2) ++
      (if (types.isEmpty) Nil else Seq.fill(4)(one(types: _*)))
    both.map { case (what, query) => what -> query.trace }
  }

  /** Bounds by times that rows carry, or by their event times. */
  private def byOthers: Seq[(String, Query)] = for {
    low <- columns
    high <- columns
    if low != first.lowest.column || high != first.highest.column
  } yield s"by $low and $high" -> first.copy(
    lowest = first.lowest.copy(column = low),
    highest = first.highest.copy(column = high),
    lifetime = one(lifetimes: _*)
  )

  override val random: RandomStory = new RandomStory(seed) {
    override val origin: Long = pick(0L, 1717200000L)
    override val trace: Trace = first.trace

    override protected def more(now: Long): Map[String, Option[Long]] =
      Option.when(carries)("until" -> value(now + this.random.between(-9L, 16L))).toMap

    override def toString: String =
      s"seed ${this.seed}, $name${if (hasEquality) "" else ", without an equality"}, by ${first.lowest.column} and " +
        first.highest.column
  }

  override val core: ChangedCore = new ChangedIntervalCore(first.trace)
}

private object ChangedInterval {

  /** No row stays so long that the first of them fails the query. */
  private val lifetimes = Seq("fail 100000", "fail 200000", "cut 5", "cut 9")

  private val pairs = Seq("left.v < right.v", "left.v > right.v", "left.v <= right.v + 9")

  /** How far the right time may be from another one; `until` is of the row that leaves by it. */
  final private case class Bound(column: String, seconds: Long) {
    def moved(by: Long): Bound = copy(seconds = seconds + by)
  }

  private def types(from: String): Seq[String] = JoinType.all.map(_.name).filter { to =>
    val toFiltered = JoinType.named(to).get.filtered.isDefined
    to != from && !(toFiltered && Set(JoinType.Inner.name, JoinType.RightOuter.name)(from))
  }
}

/** What the core has kept is handed from one query to the next. */
final private[evolve] class ChangedIntervalCore(first: Trace) extends ChangedCore {
  private var trace = first
  private var core = CoreTrace.join(first)

  /** Rows below it have left, by the key of a time. */
  private var evictedBelow = Map.empty[Int, Long].withDefaultValue(Watermark.Undefined)

  /** Rows from before the change that cannot match any longer. */
  private var leaving: Seq[Output[TraceRow]] = Nil

  override def change(to: Trace): Unit = {
    val (was, is) = (trace.joinType, to.joinType)
    val kept = core.snapshot
    val rows = kept.rows.map { case (side, entries) =>
      val isFiltered = was.filtered.isDefined && side == Side.Left
      // Which rows have matched is known only where they are padded.
      val counts = is.pads(side) && !was.pads(side) && !isFiltered
      val leave = is.filtered.isDefined && side == Side.Left && !isFiltered
      side -> entries.filterNot(leave && _._2).map { case (row, matched) => (row, matched || counts) }
    }
    evictedBelow = evictedBy(to)
    leaving = for {
      (side, entries) <- rows.toSeq
      if is.pads(side)
      (row, matched) <- entries.filterNot(entry => canMatch(to, entry._1))
      if !matched
    } yield Output.Alone(side, row)
    trace = to
    core = CoreTrace.join(
      to,
      kept.copy(rows = rows.transform((_, entries) => entries.filter(entry => canMatch(to, entry._1))))
    )
  }

  private def canMatch(of: Trace, row: TraceRow): Boolean = {
    val (bounds, input) = (CoreTrace.bounds(of), CoreTrace.input(of, row.side))
    val compared = bounds.tightest.flatMap(bound => Seq(bound.out, bound.in)).filter(bounds.keys(row.side))
    input.matchable(row) && compared.forall(input.time(row, _).isDefined)
  }

  /** By the times of another query: by a time that did not expire rows, no row has left. */
  private def evictedBy(to: Trace): Map[Int, Long] = {
    val (bounds, was) = (CoreTrace.bounds(to), CarriedTerm.of(trace))
    val values = for {
      now <- CarriedTerm.of(to)
      before <- was.find(term => term.value == now.value) if !isLonger(trace.lifetime, to.lifetime)
    } yield now.key -> evictedBelow(before.key)
    (evictedBelow.filter { case (key, _) => to.keys.indices.contains(key) && bounds.expires(key) } ++ values)
      .withDefaultValue(Watermark.Undefined)
  }

  private def isLonger(before: TraceLifetime, now: TraceLifetime): Boolean =
    before.cuts && now.max.forall(_ > before.max.get)

  private def keys(side: Side): Set[Int] = core.bounds.keys(side)

  private def limits(eviction: Map[Int, Long]): Map[Int, Long] = Side.both
    .flatMap(keys)
    .map { key =>
      val now = core.bounds.evictionLimit(
        key,
        in => math.max(core.watermark(in), eviction.getOrElse(in, Watermark.Undefined))
      )
      key -> math.max(now, evictedBelow(key))
    }
    .toMap

  private def isBelow(row: TraceRow, limits: Map[Int, Long]): Boolean = {
    val input = CoreTrace.input(trace, row.side)
    keys(row.side).exists(key => input.time(row, key).exists(_ < limits(key)))
  }

  override def onBatch(
      left: Seq[TraceRow],
      right: Seq[TraceRow],
      late: Map[Int, Long],
      eviction: Map[Int, Long]
  ): Seq[Output[TraceRow]] = {
    val out = leaving ++ core.onBatch(left, right, late.getOrElse(_, Watermark.Undefined), eviction)
    leaving = Nil
    evictedBelow = limits(eviction)
    val kept = core.snapshot
    def isLeaving(entry: (TraceRow, Boolean)) = isBelow(entry._1, evictedBelow)
    core =
      CoreTrace.join(trace, kept.copy(rows = kept.rows.transform((_, rows) => rows.filterNot(isLeaving))))
    out ++ (for {
      (side, rows) <- kept.rows.toSeq
      if trace.joinType.pads(side)
      (row, matched) <- rows.filter(isLeaving)
      if !matched
    } yield Output.Alone(side, row))
  }

  override def buffered(side: Side): Seq[TraceRow] = core.buffered(side)

  override def mayStay: Int = 0

  override def evicts(eviction: Map[Int, Long]): Boolean =
    Side.both.exists(core.buffered(_).exists(isBelow(_, limits(eviction))))
}
