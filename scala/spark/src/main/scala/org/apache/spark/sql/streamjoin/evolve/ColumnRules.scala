package org.apache.spark.sql.streamjoin.evolve

import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.streamjoin.checkpoint.RecordedRows
import org.apache.spark.sql.types.{DataType, StructField}

import streamjoin.core.Side

/**
 * Compares the columns that a join keeps of an input: columns may be added or dropped, and their
 * types may become wider. The rows in state are written again, with null in the columns that are
 * new.
 */
private[evolve] object ColumnRules {

  /** One change for each column that differs. */
  def apply(of: Comparison, property: String, side: Option[String]): Seq[Change] =
    (RecordedRows.of(of.was.properties, side), RecordedRows.of(of.is.properties, side)) match {
      case (Some(was), Some(is)) => new ColumnRules(of, property, side, was, is).changes
      case _ => Seq(of.change(property, Effect.Unknown))
    }

  /**
   * The changes of an operator, given those of its properties: rows can be rewritten only if they
   * are described.
   */
  def checked(of: Comparison, found: Seq[Change]): Seq[Change] =
    if (!found.exists(_.effect.isInstanceOf[Effect.Rewritten])) found
    else {
      val rows = Sides.filter(side => of.is.properties.contains(RecordedRows.property(side))).map { side =>
        (side, RecordedRows.of(of.was.properties, side), RecordedRows.of(of.is.properties, side))
      }
      val narrower = rows.collect { case (side, Some(was), Some(is)) =>
        new ColumnRules(of, property(side), side, was, is).narrower
      }.flatten
      if (rows.exists(_._2.isEmpty)) found.map(_.unknownIfRewritten)
      else found ++ narrower.filterNot(found.contains)
    }

  private val Sides = None +: Side.both.map(side => Some(side.name))

  private def property(side: Option[String]) = side.fold("columns")(name => s"${name}_columns")
}

final private class ColumnRules(
    of: Comparison,
    property: String,
    side: Option[String],
    was: RecordedRows,
    is: RecordedRows
) {
  private val input = side.fold("the input")(name => s"the $name input")

  def changes: Seq[Change] = repeated.orElse(moved).map(Seq(_)).getOrElse {
    val names = (is.columns.map(_.name) ++ was.columns.map(_.name)).distinct
    val found = names.flatMap { name =>
      (was.columns.find(_.name == name), is.columns.find(_.name == name)) match {
        case (Some(before), Some(now)) => both(before, now)
        case (None, Some(now)) => Some(Change(property, "none", words(now), added(now)))
        case (before, None) =>
          before.map(column => Change(property, words(column), "none", Effect.Rewritten()))
      }
    }
    // Otherwise, only their order differs.
    if (found.nonEmpty) found
    else Seq(of.change(property, Effect.Rewritten()))
  }

  private def repeated: Option[Change] = Seq(was, is)
    .flatMap { rows =>
      val names = rows.columns.map(_.name)
      names.diff(names.distinct).headOption
    }
    .headOption
    .map(name => of.change(property, restore(s"$input has several columns $name: give each its own name")))

  /** Columns in which rows in state may have a null, and rows of the changed query have none. */
  def narrower: Seq[Change] = for {
    before <- was.columns
    now <- is.columns.find(_.name == before.name)
    if before.nullable && !now.nullable
  } yield Change(
    property,
    words(before),
    words(now),
    restore(
      s"rows in state may have a null in ${now.name}, which is never null now: replace the null above the join"
    )
  )

  /** The same name without the sides of joins below is another column there. */
  private def moved: Option[Change] = {
    def end(column: StructField) = column.name.split('.').last
    def alone(of: RecordedRows, other: RecordedRows) =
      of.columns.filterNot(column => other.columns.exists(_.name == column.name))
    for {
      now <- alone(is, was).iterator
      before <- alone(was, is).find(end(_) == end(now))
    } yield Change(
      property,
      words(before),
      words(now),
      restore(s"${before.name} is in state, and ${now.name} has the same name: give it another one")
    )
  }.nextOption()

  private def both(before: StructField, now: StructField): Option[Change] = {
    val (from, to) = (before.dataType, now.dataType)
    def change(effect: Effect) = Some(Change(property, words(before), words(now), effect))
    if (DataType.equalsIgnoreNullability(from, to)) None
    else if (Cast.canUpCast(from, to) && !Cast.needsTimeZone(from, to)) change(Effect.Rewritten())
    else
      change(
        restore(s"${from.sql} cannot become ${to.sql} without loss: convert ${now.name} above the join")
      )
  }

  private def added(column: StructField): Effect =
    if (is.used.contains(column.name))
      restore(
        s"rows in state have no ${column.name}, which the condition or a filter needs: use columns that the join has " +
          "kept so far"
      )
    else if (!column.nullable)
      restore(
        s"rows in state have no ${column.name}, and it is never null: make it nullable, or compute it above the join"
      )
    else Effect.Rewritten(lacks = true)

  private def restore(reason: String): Effect = Effect.Rejected(
    s"${reason.head.toUpper}${reason.tail}, or start the new query with a new checkpoint location."
  )

  private def words(column: StructField): String = s"${column.name} ${column.dataType.catalogString}"
}
