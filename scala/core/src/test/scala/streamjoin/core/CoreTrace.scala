package streamjoin.core

/** Runs a trace, or any rows of a trace's join, through the core. */
object CoreTrace {

  def bounds(trace: Trace): TimeBounds = {
    val carried = CarriedTerm.of(trace)
    def of(side: Side) = keys(trace, side) ++ carried.filter(_.side == side).map(_.key)
    new TimeBounds(
      of(Side.Left),
      of(Side.Right),
      CarriedTerm.constant(trace) ++ carried.flatMap(_.bounds),
      trace.constraints.flatMap(_.asBounds(trace.key)),
      carried.map(_.key).toSet
    )
  }

  /** The join of a trace, as a planner would make it. */
  def join(trace: Trace, restored: JoinState[TraceRow] = JoinState()): IntervalJoin[TraceRow] =
    new IntervalJoin[TraceRow](
      trace.joinType,
      bounds(trace),
      Side.both.map(side => side -> input(trace, side)).toMap, {
        val conjuncts = trace.on ++ CarriedTerm.of(trace).flatMap(_.cut)
        (left, right) =>
          conjuncts.forall(_.holds(c => (if (c.side == Side.Left) left else right).values(c.name)))
      },
      trace.cap.getOrElse(Long.MaxValue),
      restored
    )

  /** An output of the core as a line of a trace. */
  def shown(trace: Trace)(output: Output[TraceRow]): String = output match {
    case Output.Joined(left, right) => s"expect $left+$right"
    case Output.Alone(_, row) if trace.joinType.filtered.isDefined => s"expect $row"
    case Output.Alone(side, row) => s"expect ${padded(side, row)}"
    case Output.Late(_, row) => s"late $row"
    case Output.Moved(key, watermark) => s"emit ${trace.keys(key)} $watermark"
  }

  /**
   * The first failure of a trace in the core, shown in the trace with an arrow, or nothing.
   *
   * @param groups
   *   the steps to run together: `trace.single` or `trace.merged`
   * @param restarting
   *   whether every step gets a new processor
   */
  def failure(
      trace: Trace,
      groups: Trace => Seq[Seq[Step]] = _.single,
      restarting: Boolean = false
  ): Option[String] =
    (trace.windows, trace.closest) match {
      case (Some(windows), _) => windowFailure(trace, windows, groups, restarting)
      case (_, Some(_)) => temporalFailure(trace, groups, restarting)
      case _ => plainFailure(trace, groups, restarting)
    }

  /** The temporal or as-of join of a trace. */
  def temporal(
      trace: Trace,
      restored: TemporalJoinState[TraceRow] = TemporalJoinState()
  ): TemporalJoin[TraceRow] = {
    val closest = trace.closest.get
    def key(side: Side, row: TraceRow): Option[Any] = {
      val columns = trace.equalities.map(pair => if (side == Side.Left) pair._1 else pair._2)
      val values = columns.map(row.values)
      Option.when(values.forall(_.isDefined))(values)
    }
    new TemporalJoin[TraceRow](
      trace.joinType == JoinType.LeftOuter,
      closest.rule,
      Side.both.map(side => side -> Input[TraceRow]((row, k) => row.values(trace.keys(k).name))).toMap,
      // In the order of the columns: the label is the first.
      Versions(
        key,
        closest.isDelete,
        Ordering.by((row: TraceRow) => (!closest.isDelete(row), row.label)),
        closest.remembers.getOrElse(Long.MaxValue)
      ),
      (left, right) =>
        trace.on.forall(_.holds(c => (if (c.side == Side.Left) left else right).values(c.name))),
      restored
    )
  }

  private def temporalFailure(
      trace: Trace,
      groups: Trace => Seq[Seq[Step]],
      restarting: Boolean
  ): Option[String] = {
    var processor = temporal(trace)
    trace.failure(groups(trace), () => (), errorClass) { group =>
      if (restarting || group.head.action == Restart) processor = temporal(trace, processor.snapshot)
      val seen = group.map(_.action).flatMap {
        case WatermarkComes(column, value) => processor.onWatermark(trace.keys.indexOf(column), value)
        case RowComes(row) => processor.onRow(row.side, row)
        case Restart => Nil
      }
      val outputs = seen.filterNot(_.isInstanceOf[Output.Moved])
      trace
        .difference(group.head.line, group.flatMap(_.expected), outputs.map(shown(trace)))
        .orElse(group.last.state.flatMap(stateDifference(trace, _, kept(processor))))
    }
  }

  def kept(processor: TemporalJoin[TraceRow]): Map[Side, Vector[TraceRow]] = {
    val state = processor.snapshot
    Map(Side.Left -> state.waiting, Side.Right -> state.versions)
  }

  private def windowFailure(
      trace: Trace,
      windows: JoinWindows,
      groups: Trace => Seq[Seq[Step]],
      restarting: Boolean
  ): Option[String] = {
    def made(restored: WindowJoinState[TraceRow]) = new WindowJoin[TraceRow](
      trace.joinType,
      windows,
      Side.both.map(side => side -> input(trace, side)).toMap,
      (left, right) =>
        trace.on.forall(_.holds(c => (if (c.side == Side.Left) left else right).values(c.name))),
      restored
    )
    var processor = made(WindowJoinState())
    trace.failure(groups(trace), () => (), errorClass) { group =>
      if (restarting || group.head.action == Restart) processor = made(processor.snapshot)
      val seen = group.map(_.action).flatMap {
        case WatermarkComes(column, value) => processor.onWatermark(trace.keys.indexOf(column), value)
        case RowComes(row) => processor.onRow(row.side, row)
        case Restart => Nil
      }
      // The watermarks of the underlying join are not visible.
      val outputs = seen.filterNot(_.isInstanceOf[Output.Moved])
      trace.difference(group.head.line, group.flatMap(_.expected), outputs.map(shown(trace)))
    }
  }

  private def plainFailure(
      trace: Trace,
      groups: Trace => Seq[Seq[Step]],
      restarting: Boolean
  ): Option[String] = {
    var processor: IntervalJoin[TraceRow] = null
    trace.failure(groups(trace), () => processor = join(trace), errorClass) { group =>
      if (restarting || group.head.action == Restart) processor = join(trace, processor.snapshot)
      val rows = group.map(_.action).collect { case RowComes(row) => row }
      val seen = group.head.action match {
        case WatermarkComes(column, value) => processor.onWatermark(trace.keys.indexOf(column), value)
        case RowComes(row) if group.size == 1 => processor.onRow(row.side, row)
        case _ =>
          val (left, right) = rows.partition(_.side == Side.Left)
          processor.onBatch(left, right, processor.watermark, Map.empty)
      }
      trace
        .difference(group.head.line, group.flatMap(_.expected), seen.map(shown(trace)))
        .orElse(group.last.state.flatMap(stateDifference(trace, _, processor.buffered(_))))
    }
  }

  private def stateDifference(
      trace: Trace,
      state: Buffers,
      buffered: Side => Seq[TraceRow]
  ): Option[String] = {
    def shown(labels: Side => Seq[String]) = Side.both.map(labels(_).sorted.mkString(" ")).mkString(" | ")
    val (expected, seen) = (shown(state.labels), shown(buffered(_).map(_.label)))
    Option.when(expected != seen)(trace.at(state.line, s"expected state $expected; seen $seen"))
  }

  private def errorClass(error: Throwable): Option[String] = error match {
    case _: UnboundedJoin => Some("STREAMJOIN_UNBOUNDED")
    case _: AccumulatedRecordsExceeded => Some("STREAMJOIN_MAX_ACCUMULATED_RECORDS")
    case _ => None
  }

  private def keys(trace: Trace, side: Side): Set[Int] =
    trace.keys.indices.filter(trace.keys(_).side == side).toSet

  /** How the join of a trace reads an input. */
  def input(trace: Trace, side: Side): Input[TraceRow] = {
    val own = trace.on.filter(_.columns.forall(_.side == side))
    val equal = trace.on.filter(c => c.operator == "=" && c.columns.map(_.side).distinct.size == 2)
    val notNull = equal.flatMap(_.columns).filter(_.side == side).map(_.name)
    val carried = CarriedTerm.of(trace).map(term => term.key -> term).toMap
    Input(
      (row, key) => carried.get(key).fold(row.values(trace.keys(key).name))(_.of(row)),
      row => own.forall(_.holds(c => row.values(c.name))) && notNull.forall(row.values(_).isDefined)
    )
  }

  private def padded(side: Side, row: TraceRow): String = if (side == Side.Left) s"$row+-" else s"-+$row"
}
