package org.apache.spark.sql.streamjoin.operators.delta

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.arrangement.InputKind
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types._

/**
 * A step of a path.
 *
 * @param input
 *   the number of the input that is looked up
 * @param index
 *   which of its indexes
 * @param key
 *   of the rows so far, for each column of the index
 * @param nullSafe
 *   by column of the key: whether a null finds a null
 * @param conditions
 *   what can be decided now and could not before
 */
final private[streamjoin] case class LookUp(
    input: Int,
    index: Int,
    key: Seq[Expression],
    nullSafe: Seq[Boolean],
    conditions: Seq[Expression]
)

/**
 * The way of the changes of one input.
 *
 * @param conditions
 *   on its own rows
 */
final private[streamjoin] case class DeltaPath(input: Int, conditions: Seq[Expression], lookUps: Seq[LookUp])

/**
 * In which order the changes of an input meet the others. Of the inputs that an index leads to,
 * given what has been found so far, the next is one whose primary key is known, for it adds at most
 * one row; then the one with the longest key; then the first as written.
 */
private[streamjoin] object DeltaPath {

  /** @throws org.apache.spark.sql.AnalysisException where a path does not reach an input */
  def all(join: DeltaJoin): Seq[DeltaPath] = join.inputs.indices.map(path(join, _))

  private def path(join: DeltaJoin, from: Int): DeltaPath = {
    val inputs = join.inputs
    var left = inputs.indices.filter(_ != from).toSet
    var known = AttributeSet(inputs(from).output)
    var waiting = join.conditions

    /** The conditions that can be decided now. */
    def decided(): Seq[Expression] = {
      val (now, later) = waiting.partition(_.references.subsetOf(known))
      waiting = later
      now
    }

    val own = decided()
    val lookUps = Seq.newBuilder[LookUp]
    while (left.nonEmpty) {
      val found = for {
        input <- left.toSeq
        index <- inputs(input).arrangement.meta.keys.indices
        parts = inputs(input).key(index).map(column => keyPart(column, known, waiting))
        if parts.forall(_.isDefined)
      } yield (input, index, parts.flatten)
      if (found.isEmpty) throw unreachable(join, from, left, known, waiting)
      val (input, index, parts) = found.minBy { case (input, index, parts) =>
        (isUnique(inputs(input), index), parts.size) match {
          case (unique, size) => (!unique, -size, input, index)
        }
      }
      known ++= AttributeSet(inputs(input).output)
      left -= input
      val others = decided().filterNot(condition => parts.exists(_.decides.exists(_ eq condition)))
      lookUps += LookUp(input, index, parts.map(_.probe), parts.map(_.nullSafe), others)
    }
    DeltaPath(from, own, lookUps.result())
  }

  /** A key has at most one row. */
  private def isUnique(input: DeltaInput, index: Int): Boolean =
    index == 0 && input.arrangement.meta.input == InputKind.Changelog

  /**
   * What a column of a key is looked up by.
   *
   * @param decides
   *   the condition that every row which is found satisfies
   */
  final private case class KeyPart(probe: Expression, nullSafe: Boolean, decides: Option[Expression])

  /** What a column of a key has to be equal to, in terms of what is known. */
  private def keyPart(
      column: Attribute,
      known: AttributeSet,
      conditions: Seq[Expression]
  ): Option[KeyPart] = {
    def side(condition: Expression, key: Expression, other: Expression, nullSafe: Boolean): Option[KeyPart] =
      Option
        .when(isColumn(key, column) && other.references.nonEmpty && other.references.subsetOf(known))(other)
        .map { probe =>
          val typed =
            if (probe.dataType == column.dataType) probe
            else Cast(probe, column.dataType, zoneOf(key), EvalMode.TRY)
          val isSame = key.isInstanceOf[Attribute] && probe.dataType == column.dataType
          KeyPart(typed, nullSafe, Option.when(isSame)(condition))
        }
    conditions.iterator
      .flatMap {
        case same @ EqualTo(left, right) =>
          side(same, left, right, nullSafe = false).orElse(side(same, right, left, nullSafe = false))
        case same @ EqualNullSafe(left, right) if left.dataType == right.dataType =>
          side(same, left, right, nullSafe = true).orElse(side(same, right, left, nullSafe = true))
        case _ => None
      }
      // A column and what it was cast to without loss; the condition itself is asked again.
      .find(part => !part.nullSafe || part.probe.dataType == column.dataType)
  }

  private def isColumn(expression: Expression, column: Attribute): Boolean = expression match {
    case attribute: Attribute => attribute.exprId == column.exprId
    case KnownNotNull(child) => isColumn(child, column)
    case cast: Cast => isOneToOne(cast.child.dataType, cast.dataType) && isColumn(cast.child, column)
    case _ => false
  }

  /** Of a value that was cast there is one that it can have been, so that it can be looked up. */
  private def isOneToOne(from: DataType, to: DataType): Boolean = (from, to) match {
    case (LongType, FloatType | DoubleType) | (IntegerType, FloatType) => false
    // An hour that comes twice.
    case (TimestampType, _: StringType) => false
    case _ => Cast.canUpCast(from, to)
  }

  private def zoneOf(key: Expression): Option[String] =
    key.collectFirst { case cast: Cast if cast.timeZoneId.isDefined => cast.timeZoneId }.flatten

  private def unreachable(
      join: DeltaJoin,
      from: Int,
      left: Set[Int],
      known: AttributeSet,
      conditions: Seq[Expression]
  ): AnalysisException = {
    val candidates = left.toSeq.sorted.map { input =>
      input -> join.inputs(input).rows.filter(column => keyPart(column, known, conditions).isDefined)
    }
    candidates.find(_._2.nonEmpty) match {
      case Some((input, columns)) =>
        val meta = join.inputs(input).arrangement.meta
        StreamJoinErrors.analysis(
          "STREAMJOIN_DELTA_INDEX",
          "from" -> join.inputs(from).name,
          "input" -> join.inputs(input).name,
          "arrangement" -> join.inputs(input).arrangement.root,
          "keys" -> meta.keys.map(_.mkString("[", ", ", "]")).mkString(", "),
          "key" -> columns.map(_.name).mkString("[", ", ", "]")
        )
      case None =>
        StreamJoinErrors.analysis(
          "STREAMJOIN_DELTA_CONDITION",
          "from" -> join.inputs(from).name,
          "inputs" -> left.toSeq.sorted.map(join.inputs(_).name).mkString(", "),
          "conditions" -> join.conditions.map(_.sql).mkString(" AND ")
        )
    }
  }
}
