package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.types.StructType

/**
 * The equalities of a condition in their original form. For hash and sort-merge joins, which
 * compare bytes, the optimizer normalizes floats in them and replaces `<=>`
 * (`NormalizeFloatingNumbers`). An index compares values.
 */
private[table] object WrittenEqualities {
  def of(conjuncts: Seq[Expression]): Seq[Expression] = {
    val plain = conjuncts.map(_.transformUp {
      case KnownFloatingPointNormalized(Copied(original)) => original
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

  /** A struct or an array that is rebuilt to normalize the floats in it. */
  private object Copied {
    def unapply(value: Expression): Option[Expression] = value match {
      case If(IsNull(struct), Literal(null, _), copy: CreateNamedStruct) =>
        structIn(copy).filter(_.semanticEquals(struct))
      case copy: CreateNamedStruct => structIn(copy).filterNot(_.nullable)
      case ArrayTransform(list, LambdaFunction(element: NamedLambdaVariable, Seq(of), _))
          if element.semanticEquals(of) =>
        Some(list)
      case _ => None
    }

    /** The struct whose fields were copied. */
    private def structIn(copy: CreateNamedStruct): Option[Expression] = copy.valExprs.headOption
      .collect { case GetStructField(struct, 0, _) => struct }
      .filter(_.dataType.asInstanceOf[StructType].size == copy.valExprs.size)
      .filter { struct =>
        copy.valExprs.zipWithIndex.forall {
          case (GetStructField(of, field, _), at) => field == at && of.semanticEquals(struct)
          case _ => false
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
