package org.apache.spark.sql.streamjoin.observe.publish

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.HexFormat

import scala.util.control.NonFatal

import com.ibm.icu.text.Transliterator

/**
 * Names of metrics: `query__operator__input__column__figure`, each part of letters, digits and
 * single `_`. Prometheus allows no others, and a rule can split such a name.
 */
private[publish] object MetricNames {
  val Separator = "__"

  /**
   * A user's name as a part: characters other than ASCII letters and digits become `_`. A name with
   * letters of another script is transliterated to ASCII, followed by the start of its SHA-256: so
   * it is the same in each run and unique.
   */
  def part(name: String): String = {
    val plain = legal(name)
    if (name.exists(each => each > 127 && Character.isLetterOrDigit(each)) || hasPairs(name) || plain.isEmpty)
      Seq(legal(inLatin(name)), unique(name)).filter(_.nonEmpty).mkString("_")
    else plain
  }

  /** The start of the SHA-256 of a name. */
  def unique(name: String): String =
    HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(name.getBytes(UTF_8))).take(8)

  private def legal(name: String): String =
    name.replaceAll("[^A-Za-z0-9]+", "_").stripPrefix("_").stripSuffix("_")

  /** Letters beyond the first plane are pairs of characters. */
  private def hasPairs(name: String): Boolean = name.exists(Character.isSurrogate)

  /** The text without characters that ICU cannot transliterate. */
  private def inLatin(name: String): String = latin.fold(name)(_.transliterate(name))

  /** None if a platform has Spark without ICU. */
  private lazy val latin: Option[Transliterator] =
    try Some(Transliterator.getInstance("Any-Latin; Latin-ASCII"))
    catch { case NonFatal(_) | _: LinkageError => None }

  /** Figures by name. If two names have become equal, the later one gets a number. */
  def distinct(figures: Seq[(Seq[String], Long)]): Map[String, Long] =
    figures.foldLeft(Map.empty[String, Long]) { case (all, (parts, value)) =>
      val name = parts.mkString(Separator)
      val other = Iterator.from(2).map(n => (parts.init :+ s"${n}_${parts.last}").mkString(Separator))
      all + ((Iterator(name) ++ other).find(!all.contains(_)).get -> value)
    }
}
