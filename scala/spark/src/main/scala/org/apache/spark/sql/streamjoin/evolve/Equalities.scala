package org.apache.spark.sql.streamjoin.evolve

import scala.util.Try

import org.apache.spark.sql.streamjoin.checkpoint.JsonProperty

/** The equalities by which a join stores and finds its rows: a property of its description. */
private[streamjoin] object Equalities {
  private val Property = "equalities"

  /** @param all as text, stable across runs */
  def properties(all: Seq[String]): Map[String, String] = Map(Property -> JsonProperty.texts(all))

  /** None if an older version has recorded the join. */
  def of(properties: Map[String, String]): Option[Seq[String]] =
    Try(JsonProperty.elements(properties(Property)).map(_.asText)).toOption
}
