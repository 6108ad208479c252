package streamjoin.core

import java.util.Locale

/** The operation of a changelog message on its key. */
sealed trait Operation {

  /** Whether the key has no row afterwards, unless another message sets one at the same instant. */
  def ends: Boolean = this == Operation.Delete || this == Operation.Before
}

object Operation {
  case object Insert extends Operation
  case object Update extends Operation
  case object Delete extends Operation

  /** The row before an update. Its key ends, unless the update keeps the key. */
  case object Before extends Operation

  /** Spellings in changelogs: words, Debezium's letters, and those of `readStream.changes`. */
  val spellings: Seq[(Operation, Seq[String])] = Seq(
    Insert -> Seq("insert", "i", "c", "r", "+i"),
    Update -> Seq("update", "u", "update_postimage", "+u"),
    Delete -> Seq("delete", "d", "-d"),
    Before -> Seq("update_preimage", "-u")
  )

  /** Spellings in lower case. */
  def names(operation: Operation): Seq[String] = spellings.collect { case (`operation`, names) =>
    names
  }.flatten

  private val byName = spellings.flatMap { case (operation, names) => names.map(_ -> operation) }.toMap

  def of(name: String): Option[Operation] = byName.get(name.trim.toLowerCase(Locale.ROOT))

  /**
   * The characters that `String.trim` removes, for expressions that compare names in the same way.
   */
  val Trimmed: String = (0 to ' '.toInt).map(_.toChar).mkString
}
