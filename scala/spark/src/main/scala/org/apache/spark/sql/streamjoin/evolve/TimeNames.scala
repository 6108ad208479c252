package org.apache.spark.sql.streamjoin.evolve

import scala.util.Try

import org.apache.spark.sql.streamjoin.checkpoint.JsonProperty

/**
 * The event-time columns of an operator, by watermark key: a property of its description. In a
 * changed query, a column may have another key.
 */
private[streamjoin] object TimeNames {
  private val Property = "time_names"

  /** @param names as in the rows of an input, so that no other column has one of them */
  def properties(names: Seq[String]): Map[String, String] = Map(Property -> JsonProperty.texts(names))

  /** None if an older version has recorded the operator. */
  def of(properties: Map[String, String]): Option[Seq[String]] =
    Try(JsonProperty.elements(properties(Property)).map(_.asText)).toOption

  /** For each key now, the key of the same column before. */
  def before(was: Seq[String], is: Seq[String]): Seq[Option[Int]] =
    if (was == is) is.indices.map(Some(_))
    else is.map(name => Option.when(Seq(was, is).forall(_.count(_ == name) == 1))(was.indexOf(name)))
}
