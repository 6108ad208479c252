package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.streamjoin.checkpoint.Description
import org.apache.spark.sql.streamjoin.watermark._

import streamjoin.core.{TimeBound, Watermark}

/**
 * What the batches before have recorded by watermark key, by the keys of the changed query, and
 * what that says of the rows in state.
 *
 * @param operators
 *   those that both queries have
 * @param descriptions
 *   by ordinal: what an operator was and is
 * @param passed
 *   by ordinal: how far an operator had come with the batch before
 */
final private[evolve] class MovedKeys(
    batch: Long,
    operators: Seq[QueryOperator],
    descriptions: Int => Option[(Description, Description)],
    passed: Map[Int, Passed]
) {

  /** By ordinal: for each key, the old one of the same column; no entry if they are the same. */
  private val keys: Map[Int, Seq[Option[Int]]] = {
    for {
      ordinal <- operators.map(_.ordinal)
      (was, is) <- descriptions(ordinal)
      before <- TimeNames.of(was.properties)
      now <- TimeNames.of(is.properties) if now != before
    } yield ordinal -> TimeNames.before(before, now)
  }.toMap

  private def keyNow(ordinal: Int, before: Int): Option[Int] =
    keys.get(ordinal).fold(Option(before))(all => Some(all.indexOf(Some(before))).filter(_ >= 0))

  /** How far an operator had come. */
  def passed(ordinal: Int, reached: Passed): Passed = {
    def of(all: Seq[Long]) =
      keys.get(ordinal).fold(all)(_.map(_.flatMap(all.lift).getOrElse(Watermark.Undefined)))
    def known(all: Seq[TimeBound]) = for {
      constraint <- all
      out <- keyNow(ordinal, constraint.out)
      in <- keyNow(ordinal, constraint.in)
    } yield constraint.copy(out, in)
    reached.copy(of(reached.outputs), newest = of(reached.newest), known = reached.known.map(known))
  }

  /**
   * Adds what is known of rows that operators keep, which satisfied other constraints when they
   * came: those of a lower join with a wider bound, for example.
   */
  def kept(before: Continuity): Continuity =
    operators.sortBy(_.ordinal).foldLeft(before.replacingKept(batch)(keptNow)) { (all, operator) =>
      val ordinal = operator.ordinal
      val found = for {
        reached <- passed.get(ordinal).toSeq.map(passed(ordinal, _))
        known <- reached.known.toSeq
        (key, by) <- weaker(operator, known).toSeq.groupBy(pair => operator.node.leavesBy(pair._1._1))
        rows <- rows(key, by.toMap, reached, all.areMoreBelow(ordinal))
      } yield rows
      if (found.isEmpty) all else all.withKept(Map(ordinal -> found))
    }

  /** For each constraint that earlier rows may not satisfy: by how much theirs is weaker. */
  private def weaker(of: QueryOperator, before: Seq[TimeBound]): Map[(Int, Int), Option[Long]] = {
    val known = before.map(constraint => (constraint.out, constraint.in) -> constraint.postpone).toMap
    val isNew =
      keys.get(of.ordinal).fold(Set.empty[Int])(_.zipWithIndex.collect { case (None, key) => key }.toSet)
    for {
      // In earlier rows, a new column is null.
      constraint <- of.node.known if !isNew(constraint.out) && !isNew(constraint.in)
      pair = (constraint.out, constraint.in)
      by <- known.get(pair) match {
        case Some(postpone) =>
          Option.when(postpone > constraint.postpone)(Some(postpone - constraint.postpone))
        case None => Some(None)
      }
    } yield pair -> by
  }.toMap

  private def rows(
      key: Option[Int],
      by: Map[(Int, Int), Option[Long]],
      reached: Passed,
      areMoreBelow: Boolean
  ): Option[WeakerConstraints] = {
    val rows = WeakerConstraints(batch, key, below = None, by)
    key.fold(Option(rows)) { column =>
      rows.after(None, reached.newest.lift(column).filter(_ != Watermark.Undefined), areMoreBelow)
    }
  }

  /** Rows that are kept since an earlier change. */
  private def keptNow(ordinal: Int, rows: WeakerConstraints): Option[WeakerConstraints] =
    operators.find(_.ordinal == ordinal).flatMap { operator =>
      val by = for {
        ((out, in), more) <- rows.by
        outNow <- keyNow(ordinal, out)
        inNow <- keyNow(ordinal, in)
      } yield (outNow, inNow) -> more
      by.headOption.map { case ((out, _), _) =>
        val key = operator.node.leavesBy(out)
        val isSame = key == rows.key.flatMap(keyNow(ordinal, _))
        rows.copy(key = key, below = rows.below.filter(_ => isSame), by = by)
      }
    }
}
