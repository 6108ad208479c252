package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.plans.{
  AsOfTime,
  Clause,
  InputWithClauses,
  JoinWithClauses,
  MatchCondition,
  Within
}

/**
 * Moves clauses from the inputs to their join, and rejects those that belong to no join. Spark
 * calls the rule before it resolves anything: an input with clauses is never resolved.
 */
private[streamjoin] object AttachClauses extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val attached = plan.resolveOperatorsUp {
      case join @ Join(Clauses(leftClauses, left), Clauses(rightClauses, right), _, _, _)
          if leftClauses.nonEmpty || rightClauses.nonEmpty =>
        check(leftClauses, rightClauses)
        val plain = join.copy(left = left, right = right)
        plain.copyTagsFrom(join)
        JoinWithClauses(leftClauses, rightClauses, plain)
    }
    attached.foreach {
      case InputWithClauses(clauses, _) =>
        throw clauses.head.error("STREAMJOIN_CLAUSE.NO_JOIN")
      case _ =>
    }
    attached
  }

  private object Clauses {
    def unapply(input: LogicalPlan): Some[(Seq[Clause], LogicalPlan)] = input match {
      case InputWithClauses(clauses, child) => Some((clauses, child))
      case other => Some((Nil, other))
    }
  }

  private def check(left: Seq[Clause], right: Seq[Clause]): Unit = {
    left.collectFirst { case ofRight @ (_: Within | _: AsOfTime | _: MatchCondition) =>
      throw ofRight.error("STREAMJOIN_CLAUSE.AFTER_LEFT_INPUT")
    }
    right.collect { case closest @ (_: AsOfTime | _: MatchCondition) => closest }.foreach { closest =>
      (left ++ right)
        .filterNot(other =>
          other == closest || closest.isInstanceOf[MatchCondition] && other.isInstanceOf[Within]
        )
        .foreach(other => throw other.error("STREAMJOIN_CLAUSE.MATCHES_ALREADY", "other" -> closest.name))
    }
    Seq(left, right).flatMap(_.groupBy(_.name).values).find(_.size > 1).foreach { same =>
      throw same(1).error("STREAMJOIN_CLAUSE.TWICE")
    }
  }
}
