package org.apache.spark.sql.streamjoin.operators

import java.util.Locale

/** What a row of a changelog says about its key. */
sealed private[streamjoin] trait Operation

private[streamjoin] object Operation {
  case object Insert extends Operation
  case object Update extends Operation
  case object Delete extends Operation

  /** The row before an update: the update itself says all that is needed. */
  case object Before extends Operation

  /** As changelogs spell it: in words, as Debezium does, or as `readStream.changes` does. */
  val spellings: Seq[(Operation, Seq[String])] = Seq(
    Insert -> Seq("insert", "i", "c", "r", "+i"),
    Update -> Seq("update", "u", "update_postimage", "+u"),
    Delete -> Seq("delete", "d", "-d"),
    Before -> Seq("update_preimage", "-u")
  )

  /** In lower case. */
  def names(operation: Operation): Seq[String] = spellings.collect { case (`operation`, names) =>
    names
  }.flatten

  private val byName = spellings.flatMap { case (operation, names) => names.map(_ -> operation) }.toMap

  def of(name: String): Option[Operation] = byName.get(name.trim.toLowerCase(Locale.ROOT))

  /** The characters that `String.trim` removes, for expressions that compare names likewise. */
  val Trimmed: String = (0 to ' '.toInt).map(_.toChar).mkString
}
