package org.apache.spark.sql.streamjoin.base

/** Empty messages of a changelog, if there are many of them and no others. */
private[streamjoin] object UnreadMessages {

  /** Fewer of them may be tombstones. */
  val Many = 200L

  /** The sentence about messages of an arrangement. */
  def ofTable(count: Long): String = s"$count messages were empty, and none contained a change: $Cause"

  /** The sentence about the versions of a join. */
  def ofVersions(count: Long): String =
    s"$count versions had no key or no time, and none had both: $Cause"

  private val Cause: String =
    "either the envelope is inside a payload, {\"schema\": ..., \"payload\": ...}, or the text lacks the columns " + "of the schema that it is parsed with. Write F.from_json(value, \"payload STRUCT<before: ..., after: ..., " +
      "op: STRING, ...>\") and select(\"payload.*\"), or compare the schema with a message."
}
