package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.streamjoin.base.{EventTimeText, StreamJoinConf}
import org.apache.spark.sql.streamjoin.checkpoint.DescriptionLog

import streamjoin.core.Side

/**
 * A difference between a query and the one that its checkpoint records, and what it means.
 *
 * @param what
 *   the property that differs
 */
final private[streamjoin] case class Change(what: String, was: String, is: String, effect: Effect) {

  /** What happens to the rows in state. */
  def state: String = effect match {
    case _: Effect.Unchanged => "unchanged"
    case _: Effect.Rewritten => "rewritten"
    case _: Effect.Added => "empty"
    case _: Effect.Removed => "removed"
    case _ => "rejected"
  }

  def results: String = effect match {
    case Effect.Rewritten(Nil, _, true) => "exact, null in rows from before the change"
    case accepted: Effect.Accepted =>
      accepted.later
        .map(_.completeFrom)
        .maxOption
        .fold("exact")(time => s"complete from ${EventTimeText.of(time)}")
    case _ => "none"
  }

  def advice: String = effect match {
    case Effect.Rejected(advice) => advice
    case Effect.Unknown =>
      "The checkpoint does not record what this change needs: run the old query until it has committed a batch, " +
        "then change it."
    case _ => s"${StreamJoinConf.Evolve.key}=${accepting.get} accepts this change."
  }

  /** The lowest setting that accepts it. */
  def accepting: Option[String] = effect match {
    case accepted: Effect.Accepted =>
      Some(if (accepted.later.isEmpty) StreamJoinConf.Exact else StreamJoinConf.Allow)
    case _ => None
  }

  /** The same if the rows in state are not described. */
  def unknownIfRewritten: Change = effect match {
    case _: Effect.Rewritten => copy(effect = Effect.Unknown)
    case _ => this
  }

  def isAcceptedBy(setting: String): Boolean = accepting.exists { lowest =>
    setting == StreamJoinConf.Allow || setting == lowest
  }
}

/** What a change means for the rows in state, and for the results. */
sealed private[streamjoin] trait Effect

private[streamjoin] object Effect {

  /** A setting accepts the change. */
  sealed trait Accepted extends Effect {

    /**
     * Rows that were not kept before the change, and will be missed; none if each row is as if the
     * query had never been another one, or of the query that ran when its later row arrived.
     */
    def later: Seq[Missing]

    /** What the first batch does before it reads its rows. */
    def steps: Seq[StateStep]
  }

  /** The rows in state are those that the changed query needs, or some of them. */
  final case class Unchanged(later: Seq[Missing] = Nil, steps: Seq[StateStep] = Nil) extends Accepted

  /**
   * The rows in state are written again, in the form that the changed query needs. Those that it
   * would not have kept leave.
   *
   * @param lacks
   *   whether rows from before the change have a null where others have a value
   */
  final case class Rewritten(
      later: Seq[Missing] = Nil,
      steps: Seq[StateStep] = Nil,
      lacks: Boolean = false
  ) extends Accepted

  /** The operator is new, and has no rows in state. */
  final case class Added(later: Seq[Missing] = Nil) extends Accepted {
    override def steps: Seq[StateStep] = Nil
  }

  /**
   * The operator is gone, with its rows in state.
   *
   * @param floorOf
   *   the operator below, which must not emit a lower watermark than the removed one has
   */
  final case class Removed(floorOf: Option[Int] = None) extends Accepted {
    override def later: Seq[Missing] = Nil
    override def steps: Seq[StateStep] = Nil
  }

  /** The rows in state are not those that the changed query needs. */
  final case class Rejected(advice: String = DescriptionLog.Advice) extends Effect

  /** The checkpoint lacks what has to be known. */
  case object Unknown extends Effect

  val exact: Effect = Unchanged()

  /** That of several properties that change, as long as none needs another form of the rows. */
  def all(effects: Seq[Effect], steps: Seq[StateStep] = Nil): Effect = effects
    .collectFirst { case rejected: Rejected => rejected }
    .orElse(effects.find(_ == Unknown))
    .getOrElse(Unchanged(effects.collect { case Unchanged(later, _) => later }.flatten.distinct, steps))

  /** An effect if the rows are written again as well. */
  def rewritten(effect: Effect): Effect = effect match {
    case Unchanged(later, steps) => Rewritten(later, steps)
    case other => other
  }
}

/**
 * Rows that an operator would have kept, had it always been the changed one. In microseconds.
 *
 * @param key
 *   watermark key of the operator
 * @param below
 *   no row is missing once the operator evicts rows below this time of that column
 * @param completeFrom
 *   results are complete from this event time on
 */
final private[streamjoin] case class Missing(key: Int, below: Long, completeFrom: Long)

/** A step of the first batch of a changed query, over the rows that it finds in state. */
sealed private[streamjoin] trait StateStep extends Serializable {
  def side: Side
}

private[streamjoin] object StateStep {

  /** The rows of the side count as matched: which of them have matched is not recorded. */
  final case class CountAsMatched(side: Side) extends StateStep

  /** The rows of the side that have matched leave. */
  final case class RemoveMatched(side: Side) extends StateStep
}
