package org.apache.spark.sql.streamjoin.monitor

/**
 * Names of metrics: `query__operator__input__column__figure`, each part of letters, digits and
 * single `_`. Prometheus allows no others, and so a rule can take a name apart.
 */
private[monitor] object MetricNames {
  val Separator = "__"

  /** A name of users as a part: what is not a letter or a digit of ASCII becomes `_`. */
  def part(name: String): String = {
    val legal = name.replaceAll("[^A-Za-z0-9]+", "_").stripPrefix("_").stripSuffix("_")
    if (legal.isEmpty) "_" else legal
  }

  /** Figures by name. Of two names that have become one, the later one gets a number. */
  def distinct(figures: Seq[(Seq[String], Long)]): Map[String, Long] =
    figures.foldLeft(Map.empty[String, Long]) { case (all, (parts, value)) =>
      val name = parts.mkString(Separator)
      val other = Iterator.from(2).map(n => (parts.init :+ s"${n}_${parts.last}").mkString(Separator))
      all + ((Iterator(name) ++ other).find(!all.contains(_)).get -> value)
    }
}
