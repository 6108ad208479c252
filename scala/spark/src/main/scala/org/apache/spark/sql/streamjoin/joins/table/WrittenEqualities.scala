package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero

/**
 * The equalities of a condition as they were written. For a join by hash or by sorting, which
 * compares bytes, the optimizer normalizes floats in them, and replaces `<=>`
 * (`NormalizeFloatingNumbers`). An index compares values.
 */
private[table] object WrittenEqualities {
  def of(conjuncts: Seq[Expression]): Seq[Expression] = {
    val plain = conjuncts.map(_.transformUp {
      case KnownFloatingPointNormalized(child) => child
      case NormalizeNaNAndZero(child) => child
    })
    val nullSafe = plain.collect {
      case BothNull(left, right) if plain.exists(isValues(_, left, right)) => EqualNullSafe(left, right)
    }
    nullSafe ++ plain.filterNot { conjunct =>
      nullSafe.exists { case EqualNullSafe(left, right) =>
        isEquality(conjunct, IsNull(left), IsNull(right)) || isValues(conjunct, left, right)
      }
    }
  }

  /** `isnull(left) = isnull(right)` */
  private object BothNull {
    def unapply(conjunct: Expression): Option[(Expression, Expression)] = conjunct match {
      case EqualTo(IsNull(left), IsNull(right)) => Some((left, right))
      case _ => None
    }
  }

  /** `coalesce(left, 0) = coalesce(right, 0)` */
  private def isValues(conjunct: Expression, left: Expression, right: Expression): Boolean =
    conjunct match {
      case EqualTo(Coalesce(Seq(l, default: Literal)), Coalesce(Seq(r, other: Literal))) =>
        default == other && l.semanticEquals(left) && r.semanticEquals(right)
      case _ => false
    }

  private def isEquality(conjunct: Expression, left: Expression, right: Expression): Boolean =
    conjunct match {
      case EqualTo(l, r) => l.semanticEquals(left) && r.semanticEquals(right)
      case _ => false
    }
}
