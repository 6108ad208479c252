package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.arrangement.lookup.KeyPart
import org.apache.spark.sql.streamjoin.arrangement.storage.InputKind
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/**
 * One look-up of a path.
 *
 * @param input
 *   number of the input that is looked up
 * @param index
 *   number of the index in that input
 * @param key
 *   by column of the index: the value to look up, computed from the rows joined so far
 * @param nullSafe
 *   by column of the index: whether null matches null
 * @param conditions
 *   conditions that can be evaluated from this step on
 */
final private[streamjoin] case class LookUp(
    input: Int,
    index: Int,
    key: Seq[Expression],
    nullSafe: Seq[Boolean],
    conditions: Seq[Expression]
)

/**
 * The sequence of look-ups for the changes of one input.
 *
 * @param conditions
 *   conditions on the input's own rows
 */
final private[streamjoin] case class DeltaPath(input: Int, conditions: Seq[Expression], lookUps: Seq[LookUp])

/**
 * Chooses the order in which the changes of an input look up the others. Among the inputs whose
 * index can be used with the columns known so far, it prefers one whose primary key is known,
 * because it adds at most one row; then the one with the longest key; then the first one in the
 * query.
 */
private[streamjoin] object DeltaPath {

  /** @throws org.apache.spark.sql.AnalysisException if a path does not reach an input */
  def all(join: StreamDeltaJoin): Seq[DeltaPath] = join.inputs.indices.map(path(join, _))

  private def path(join: StreamDeltaJoin, from: Int): DeltaPath = {
    val inputs = join.inputs
    var left = inputs.indices.filter(_ != from).toSet
    var known = AttributeSet(inputs(from).output)
    var waiting = join.ofPairs

    // Takes the conditions that can be evaluated now.
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
        parts <- KeyPart.ofKey(inputs(input).arranged.key(index), known, waiting)
      } yield (input, index, parts)
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
    assert(
      waiting.isEmpty,
      s"all inputs are known, but not the columns of ${waiting.map(_.sql).mkString(", ")}"
    )
    DeltaPath(from, own, lookUps.result())
  }

  /** Whether a key has at most one row. */
  private def isUnique(input: DeltaInput, index: Int): Boolean =
    index == 0 && input.arrangement.meta.input == InputKind.Changelog

  private def unreachable(
      join: StreamDeltaJoin,
      from: Int,
      left: Set[Int],
      known: AttributeSet,
      conditions: Seq[Expression]
  ): AnalysisException = {
    val candidates = left.toSeq.sorted.map { input =>
      input -> KeyPart.equated(join.inputs(input).rows, known, conditions)
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
          "conditions" -> join.ofPairs.map(_.sql).mkString(" AND ")
        )
    }
  }
}
