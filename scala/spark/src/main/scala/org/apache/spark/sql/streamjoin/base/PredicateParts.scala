package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.expressions.{And, Expression, PredicateHelper}

/** Splits a condition into its conjuncts and combines them again. */
private[streamjoin] object PredicateParts extends PredicateHelper {
  def conjuncts(condition: Expression): Seq[Expression] = splitConjunctivePredicates(condition)

  def all(conjuncts: Seq[Expression]): Option[Expression] = conjuncts.reduceLeftOption(And(_, _))
}
