package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis._
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.evolve.RecordedInterval
import org.apache.spark.sql.streamjoin.time.{EventTime, LinearTime}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint}

import streamjoin.core.{Side, TimeBound, TimeBounds}

/** Converts a join of two streams to a [[StreamIntervalJoin]], or rejects it with an error. */
private[streamjoin] object RecognizeIntervalJoin extends Recognizer {

  override def isMine(operator: LogicalPlan): Boolean = operator match {
    case join: Join => StreamJoinType.isStreamJoin(join)
    case _ => false
  }

  override def recognize(operator: LogicalPlan, ordinal: Int, lineage: WatermarkLineage): Recognition =
    operator match {
      case join: Join if isMine(join) =>
        // Fields of windows do not count where event times and constants are enough: by these, the
        // state of such a join has its layout.
        val plain = new Candidate(join, lineage, withWindows = false)
        val candidate =
          if (plain.isBoundedByConstants) plain else new Candidate(join, lineage, withWindows = true)
        candidate.rejection.fold[Recognition](Recognition.Found(candidate.result(ordinal)))(
          Recognition.Rejected(IntervalJoinKind.nodeName, _)
        )
      case _ => Recognition.NotApplicable
    }

  /** @param withWindows whether the start and the end of a window are times, too */
  final private class Candidate(join: Join, lineage: WatermarkLineage, withWindows: Boolean) {
    private val joinType = StreamJoinType.of(join.joinType).get
    private val byConstants: Set[Side] = ConstantBounds.of(join)
    private val conjuncts = join.condition.toSeq.flatMap(PredicateParts.conjuncts)

    private def plan(side: Side): LogicalPlan = if (side == Side.Left) join.left else join.right

    private val inputs: Map[Side, InputTimes] = Side.both.map { side =>
      side -> (if (withWindows) InputTimes.withWindows(plan(side), lineage, conjuncts)
               else InputTimes(lineage.columns(plan(side))))
    }.toMap

    /** The event-time columns of each side, with their watermarks. */
    private val marked: Map[Side, Seq[(Attribute, ColumnWatermark)]] =
      inputs.transform((_, times) => times.marked)

    private val condition = new TimeBoundFinder(
      join.left.outputSet,
      join.right.outputSet,
      if (withWindows) InputTimes.in(Side.both.map(inputs)) else identity
    )

    private val found: Seq[FoundBound] = conjuncts.flatMap(condition.bounds)

    private val times: IndexedSeq[Attribute] = Side.both.flatMap(marked(_).map(_._1)).toIndexedSeq
    private val keyOf: Map[ExprId, Int] = times.map(_.exprId).zipWithIndex.toMap

    private val usable: Seq[FoundBound] =
      found.filter(b => Seq(b.out, b.in).forall(c => keyOf.contains(c.exprId)))

    private val watermarks: IndexedSeq[ColumnWatermark] = Side.both.flatMap(marked(_).map(_._2)).toIndexedSeq

    /** A bound evicts rows only if the watermark that drives it advances. */
    private def moves(bound: FoundBound): Boolean = watermarks(keyOf(bound.in.exprId)).isDefined

    private def isBounded(side: Side): Boolean = usable.exists(bound => bound.side == side && moves(bound))

    /** Whether event times and constants bound both sides. */
    def isBoundedByConstants: Boolean = Side.both.forall(isBounded)

    private val values: Seq[CarriedBound] = conjuncts.flatMap(condition.carried).filterNot(isConstant)

    /** An event time plus a constant, or the end of a window, is a value of its row, too. */
    private def isConstant(value: CarriedBound): Boolean = {
      val times = Side.both.map(side => InputTimes.withWindows(plan(side), lineage, conjuncts))
      val known = times.flatMap(_.marked).map(_._1.exprId).toSet
      new TimeBoundFinder(join.left.outputSet, join.right.outputSet, InputTimes.in(times))
        .bounds(value.conjunct)
        .exists(one => one.side == value.side && known(one.out.exprId) && known(one.in.exprId))
    }

    /** The constant bound next to a value that is driven by the same time. */
    private def constant(bound: CarriedBound): Option[FoundBound] = usable
      .filter(one => one.side == bound.side && one.in.exprId == bound.in.exprId)
      .minByOption(one => (one.postpone, keyOf(one.out.exprId)))

    /**
     * Next to a constant bound, the tighter one decides: a row leaves by the lower one of its value
     * and of its time plus the constant. If the two are driven by different times, neither limits
     * the other, and the constant decides alone, as it does in a checkpoint that began so.
     */
    private val byValue: Seq[CarriedBound] = Side.both.flatMap { side =>
      values
        .filter(bound => bound.side == side && keyOf.get(bound.in.exprId).exists(watermarks(_).isDefined))
        .find(bound => !isBounded(side) || constant(bound).isDefined && !byConstants(side))
    }

    private val unbounded: Seq[Side] =
      Side.both.filterNot(side => isBounded(side) || byValue.exists(_.side == side))

    private val max: MaxLifetime = MaxLifetime.of(SQLConf.get)

    /** The columns of a side whose watermarks evict rows: a lifetime counts from one. */
    private def driving(side: Side): Seq[Attribute] =
      (usable.filter(bound => bound.side != side && moves(bound)).map(_.in) ++
        byValue.filter(_.side != side).map(_.in)).distinctBy(_.exprId)

    private lazy val carried: Seq[CarriedKey] = byValue.zipWithIndex.map { case (bound, at) =>
      val (from, longest) = constant(bound) match {
        case Some(one) => (one.out, MaxLifetime.by(one, bound))
        case None => (driving(bound.side).head, max)
      }
      CarriedKey(bound, times.size + at, keyOf(from.exprId), longest)
    }

    /**
     * Constraints between event-time columns of one input. Columns in a bound count as never null,
     * because a row with a null in one is not stored.
     */
    private def constraints: Seq[RowConstraint] = Side.both.flatMap { side =>
      val needed = (usable.flatMap(bound => Seq(bound.out, bound.in)) ++ byValue.map(_.in))
        .map(_.exprId)
        .toSet
      RowConstraintsOf(plan(side))
        .closed(needed)
        .all
        .filter(constraint => Seq(constraint.out, constraint.in).forall(keyOf.contains))
    }

    /** The keys of each side, which are compared as bytes, and the remaining condition. */
    private val (leftKeys, rightKeys, rest) = join match {
      case ExtractEquiJoinKeys(_, leftKeys, rightKeys, other, _, _, _, _) =>
        val (byBytes, byValue) = leftKeys
          .zip(rightKeys)
          .map { case (left, right) => EquiKeys.comparable(left, right) }
          .partition { case (left, right) => EquiKeys.areLasting(left, right) }
        val besides = byValue.map { case (left, right) => EqualTo(left, right) } ++ other
        (byBytes.map(_._1), byBytes.map(_._2), PredicateParts.all(besides))
      case _ => (Nil, Nil, join.condition)
    }

    private lazy val rejections =
      new IntervalJoinErrors(join, joinType, conjuncts, marked.transform((_, columns) => columns.map(_._1)))

    def rejection: Option[AnalysisException] = unbounded.headOption
      .map(notBounded)
      .orElse(
        byValue
          .find(bound => max.micros.isDefined && constant(bound).isEmpty && driving(bound.side).size > 1)
          .map(bound => rejections.ambiguousLifetime(bound, driving(bound.side)))
      )

    private def notBounded(side: Side): AnalysisException = {
      val problems = conjuncts.flatMap(condition.problem)
      lazy val unmarked = for {
        bound <- found if bound.side == side
        column <- Seq(bound.out, bound.in).find(column => !keyOf.contains(column.exprId))
      } yield rejections.noWatermark(condition.sideOf(column).get, column, bound)
      lazy val endInOr = problems.collectFirst {
        case or: NoBound.InsideOr if or.ends.exists(end => end.side == side && isCarried(end)) =>
          rejections.endInOr(side, or, unbounded)
      }
      lazy val inOr = problems.collectFirst {
        case or: NoBound.InsideOr if or.bounds.exists(_.side == side) =>
          rejections.boundInOr(side, or, unbounded)
      }
      lazy val varying = problems.collectFirst { case conjunct: NoBound.NotConstant =>
        rejections.notConstant(side, conjunct, unbounded)
      }
      standing(side)
        .orElse(endInOr)
        .orElse(unmarked.headOption)
        .orElse(inOr)
        .orElse(varying)
        .getOrElse(rejections.unbounded(side, unbounded))
    }

    /** The watermark that drives a bound has been lost below. */
    private def standing(side: Side): Option[AnalysisException] = {
      val bounds = usable.filter(_.side == side).map(bound => bound.in -> bound.conjunct) ++
        values.filter(_.side == side).map(bound => bound.in -> bound.conjunct)
      (for {
        (in, conjunct) <- bounds
        key <- keyOf.get(in.exprId)
        where <- UndefinedWatermark.of(watermarks(key), plan(side.other))
      } yield rejections.undefinedWatermark(conjunct, where)).headOption
    }

    /** Whether an end is anything but an event time plus a constant. */
    private def isCarried(end: EndInOr): Boolean = end.values.exists { value =>
      LinearTime
        .of(value)
        .toOption
        .forall(sum => sum.plus.size != 1 || sum.minus.nonEmpty || !keyOf.contains(sum.plus.head.exprId))
    }

    /** @param probed the two columns that a probe compares */
    private def use(conjunct: Expression, probed: Set[ExprId]): ConjunctUse =
      if (!conjunct.deterministic) ConjunctUse.OfPair
      else
        condition.sideOf(conjunct).map(ConjunctUse.OfSide(_)).getOrElse {
          val bounds = condition.bounds(conjunct)
          val expected = conjunct match {
            case _: EqualTo | _: EqualNullSafe => 2
            case _ => 1
          }
          val isProbed = bounds.size == expected && bounds.forall { bound =>
            bound.exact && Set(bound.out.exprId, bound.in.exprId) == probed && isKept(bound)
          }
          if (isProbed) ConjunctUse.OfProbe else ConjunctUse.OfPair
        }

    /** Whether a probe compares by this bound: others of carried values are conditions. */
    private def isKept(bound: FoundBound): Boolean = usable.contains(bound) ||
      byValue.exists(kept => kept.side == bound.side && kept.conjunct.semanticEquals(bound.conjunct))

    def result(ordinal: Int): StreamIntervalJoin = {
      val known = constraints
      val keys = Side.both.map { side =>
        marked(side).map { case (column, _) => keyOf(column.exprId) }.toSet ++
          carried.filter(_.side == side).map(_.key)
      }
      val bounds = new TimeBounds(
        keys.head,
        keys(1),
        (usable ++ carried.flatMap(_.ofLifetime(times)))
          .map(bound => TimeBound(keyOf(bound.out.exprId), keyOf(bound.in.exprId), bound.postpone)) ++
          carried.map(one => TimeBound(one.key, keyOf(one.bound.in.exprId), one.bound.postpone)),
        known.map(c => TimeBound(keyOf(c.out), keyOf(c.in), c.postpone)),
        carried.map(_.key).toSet
      )
      val stored = carried.map(_.stored(times))
      val probed = Side.both
        .map(side => (times ++ stored)(bounds.bounded(side).head))
        .collect { case column: Attribute => column.exprId }
        .toSet
      val written = rest.toSeq.flatMap(PredicateParts.conjuncts)
      val cuts = carried.flatMap(_.cut(times))
      val others = written ++ cuts
      val form = new NormalForm(join.left.output, join.right.output)
      val uses = written.map(use(_, probed)) ++ cuts.map(_ => ConjunctUse.OfPair)
      val routing = Routing.of(joinType, equality = leftKeys.nonEmpty)
      val (left, right) = SharedColumns.keepApart(join.left, join.right)
      StreamIntervalJoin(
        left,
        right,
        leftKeys.map(NormalizeFloatingNumbers.normalize),
        rightKeys.map(NormalizeFloatingNumbers.normalize),
        others,
        times,
        stored,
        IntervalJoinSpec(
          joinType,
          Side.both.flatMap(side => marked(side).map(_ => side)).toIndexedSeq,
          watermarks,
          bounds,
          tightest,
          rest.fold("true")(form(_)),
          record(form, bounds, written.zip(uses), routing),
          uses,
          ordinal,
          known,
          routing,
          carried
        )
      )
    }

    private def record(
        form: NormalForm,
        bounds: TimeBounds,
        uses: Seq[(Expression, ConjunctUse)],
        routing: Routing
    ): RecordedInterval = {
      def texts(of: ConjunctUse) = uses.collect {
        case (conjunct, `of`) if condition.bounds(conjunct).isEmpty && !isCarried(conjunct) => form(conjunct)
      }
      RecordedInterval(
        Nil,
        times.map(form(_)) ++ carried.map(one => form(one.bound.value)),
        Side.both.flatMap(side => marked(side).map(_ => side)) ++ carried.map(_.side),
        times.indices.filter(key => EventTime.isWindow(times(key))),
        bounds.tightest,
        Side.both.map(side => side -> texts(ConjunctUse.OfSide(side))).toMap,
        texts(ConjunctUse.OfPair),
        routing.toString,
        equalities(form),
        carried.map(_.record)
      )
    }

    private def isCarried(conjunct: Expression): Boolean =
      byValue.exists(_.conjunct.semanticEquals(conjunct))

    private def equalities(form: NormalForm): Seq[String] =
      leftKeys.zip(rightKeys).map { case (left, right) => s"${form(left)} = ${form(right)}" }

    /** The tightest bound for each pair of columns, with the conjunct that it came from. */
    private def tightest: Seq[FoundBound] =
      usable
        .groupBy(bound => (bound.out.exprId, bound.in.exprId))
        .valuesIterator
        .map(_.minBy(_.postpone))
        .toSeq
        .sortBy(bound => (bound.side.index, keyOf(bound.out.exprId), keyOf(bound.in.exprId)))
  }
}
