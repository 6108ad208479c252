package streamjoin.core

/**
 * How long a row may stay that carries the time at which it leaves.
 *
 * @param max
 *   longest distance from its event time, if there is a limit
 * @param cuts
 *   whether a row with a later end matches until then, and is not rejected
 */
final case class TraceLifetime(max: Option[Long], cuts: Boolean)

/**
 * A bound of a trace by a value that each row of a side carries: `value >= less`.
 *
 * @param key
 *   number of the value, after the watermark keys
 */
final case class CarriedTerm(trace: Trace, key: Int, value: Term, less: Term, strict: Boolean) {
  val side: Side = value.column.get.side

  private val time = Column(side, trace.times(side).head)
  private val in = trace.key(less.column.get).get

  /** A constant bound is the limit, if there is one. */
  private val isBounded = CarriedTerm.isBounded(trace, side)
  private val max = trace.lifetime.max.filterNot(_ => isBounded)
  private val cuts = trace.lifetime.cuts && !isBounded

  /** One for the value and, if there is a limit, one for the event time of the row. */
  def bounds: Seq[TimeBound] = {
    val own = TimeBound(key, in, -less.offset - (if (strict) 1 else 0))
    own +: max.map(longest => TimeBound(trace.key(time).get, in, longest + own.postpone)).toSeq
  }

  def of(row: TraceRow): Option[Long] = {
    val end = row.values(value.column.get.name).map(_ + value.offset)
    if (cuts)
      end.zip(row.values(time.name)).map { case (own, from) => own min (from + max.get) }
    else end
  }

  /** The part of the condition that cuts values off. */
  def cut: Option[Conjunct] = Option.when(cuts) {
    Conjunct("cut", less, if (strict) "<" else "<=", Term(Some(time), max.get))
  }
}

object CarriedTerm {

  private def isBounded(trace: Trace, side: Side): Boolean =
    constant(trace).exists(bound => trace.keys(bound.out).side == side)

  /** The first bound by a value. Next to a constant bound, the tighter one decides. */
  def of(trace: Trace): Seq[CarriedTerm] = {
    val found = for {
      side <- Side.both
      term <- trace.on.flatMap(bounds(trace, _)).find(_._1.column.get.side == side)
    } yield term
    found.zipWithIndex.map { case ((value, less, strict), at) =>
      CarriedTerm(trace, trace.keys.size + at, value, less, strict)
    }
  }

  def constant(trace: Trace): Seq[TimeBound] =
    trace.on.filter(_.columns.map(_.side).distinct.size == 2).flatMap(_.asBounds(trace.key))

  private def bounds(trace: Trace, conjunct: Conjunct): Seq[(Term, Term, Boolean)] = {
    val Conjunct(_, left, operator, right) = conjunct
    val pairs = operator match {
      case ">=" => Seq((left, right, false))
      case ">" => Seq((left, right, true))
      case "<=" => Seq((right, left, false))
      case "<" => Seq((right, left, true))
      case "=" => Seq((left, right, false), (right, left, false))
    }
    pairs.filter { case (value, less, _) =>
      conjunct.columns.map(_.side).distinct.size == 2 && value.column.exists(trace.carried.contains) &&
      less.column.exists(trace.key(_).isDefined)
    }
  }
}
