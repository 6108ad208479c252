package org.apache.spark.sql.streamjoin.arrangement.storage

import org.apache.spark.sql.types._

/**
 * How the columns of an arrangement may differ from those of its newest version. Files keep the
 * columns with which they were written; [[StoredRows]] reads them with others.
 *
 * {{{
 *   change                       old rows, for new readers    new rows, for old readers
 *   a column is added            null                         without it
 *   a type becomes wider         the same value               the same value, if it fits
 *   another order of columns     reordered                    reordered
 * }}}
 *
 * A type is wider only if each of its values that comes from the narrower type can be converted
 * back: a row that is removed must equal the one that was added, for all readers.
 */
private[streamjoin] object ChangedColumns {

  /** Columns that decide where a row is stored, or which change of a key is the last one. */
  private def fixed(meta: ArrangementMeta): Set[String] = (meta.keys.flatten ++ meta.time ++ meta.order).toSet

  /** What to write instead of the first difference that is not possible. */
  def rejected(was: ArrangementMeta, is: StructType): Option[String] = was.schema.iterator
    .flatMap { old =>
      val kept = s"CAST(${old.name} AS ${old.dataType.sql})"
      is.find(_.name == old.name).map(_.dataType) match {
        case None =>
          val empty = s"CAST(NULL AS ${old.dataType.sql}) AS ${old.name}"
          Some(s"A column cannot be dropped: keep ${old.name}, as $empty if it has no values anymore.")
        case Some(now) if now == old.dataType => None
        case Some(_) if fixed(was)(old.name) =>
          Some(s"The type of a column in keys, time or order cannot change: use $kept.")
        case Some(now) if isWider(old.dataType, now) => None
        case Some(now) =>
          Some(
            s"${now.sql} does not have all values of ${old.dataType.sql}: use $kept, or add another column."
          )
      }
    }
    .nextOption()

  /** Whether a type has all values of another one, which can then be converted back. */
  def isWider(from: DataType, to: DataType): Boolean = (from, to) match {
    case (ByteType, ShortType | IntegerType | LongType | FloatType | DoubleType) => true
    case (ShortType, IntegerType | LongType | FloatType | DoubleType) => true
    case (IntegerType, LongType | DoubleType) => true
    case (FloatType, DoubleType) => true
    case (_: IntegralType | _: DecimalType, wide: DecimalType) => from != to && wide.isWiderThan(from)
    case _ => false
  }

  /** Columns in the form that users see. */
  def words(schema: StructType): String =
    schema.map(field => s"${field.name} ${field.dataType.sql}").mkString(", ")

  /** Whether two lists of columns are the same, apart from metadata. */
  def areSame(one: StructType, other: StructType): Boolean =
    one.map(field => field.name -> field.dataType) == other.map(field => field.name -> field.dataType)
}
