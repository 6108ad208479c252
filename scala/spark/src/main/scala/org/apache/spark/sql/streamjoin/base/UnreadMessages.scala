package org.apache.spark.sql.streamjoin.base

/** Messages of a changelog that say nothing, where there are many and none that says something. */
private[streamjoin] object UnreadMessages {

  /** With fewer, they may be tombstones. */
  val Many = 200L

  /** The sentence about messages of an arrangement. */
  def ofTable(count: Long): String = s"$count messages said nothing, and none said something: $Cause"

  /** The sentence about the versions of a join. */
  def ofVersions(count: Long): String =
    s"$count versions came without a key or a time, and none with both: $Cause"

  private val Cause: String =
    "either the envelope is inside a payload, {\"schema\": ..., \"payload\": ...}, or the text does not have the columns " +
      "of the schema that it is parsed by. Write F.from_json(value, \"payload STRUCT<before: ..., after: ..., " +
      "op: STRING, ...>\") and select(\"payload.*\"), or compare the schema with a message."
}
