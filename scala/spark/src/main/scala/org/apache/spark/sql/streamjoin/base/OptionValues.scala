package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Reads the options of a source. A blank value counts as missing. */
private[streamjoin] trait OptionValues {
  def options: CaseInsensitiveStringMap

  def text(name: String): Option[String] = Option(options.get(name)).map(_.trim).filter(_.nonEmpty)

  def number(name: String, least: Long): Option[Long] = text(name).map { value =>
    value.toLongOption.filter(_ >= least).getOrElse {
      throw OptionValues.rejected(
        name,
        value,
        s"a whole number from $least on, such as option(\"$name\", 10)"
      )
    }
  }
}

private[streamjoin] object OptionValues {
  def rejected(option: String, value: String, wanted: String): AnalysisException =
    StreamJoinErrors.analysis("STREAMJOIN_OPTION", "option" -> option, "value" -> value, "wanted" -> wanted)
}
