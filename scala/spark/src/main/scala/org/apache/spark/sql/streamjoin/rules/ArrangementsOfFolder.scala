package org.apache.spark.sql.streamjoin.rules

import java.sql.Timestamp

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.arrangement.ArrangementState
import org.apache.spark.sql.streamjoin.sql.TableFunction
import org.apache.spark.sql.types._

/** The arrangements of a folder, or one of them, as a table. */
private[streamjoin] object ArrangementsOfFolder {
  val Function: TableFunction = TableFunction(
    "sj_arrangements",
    "SELECT * FROM sj_arrangements(), or sj_arrangements('name or path') for one of them"
  )

  private val Reader: StructType = new StructType()
    .add("name", StringType, nullable = false)
    .add("version", LongType, nullable = false)
    .add("versions_behind", LongType, nullable = false)
    .add("since", TimestampType, nullable = false)

  /** The oldest and newest version and the query id are null before the first version. */
  val Schema: StructType = new StructType()
    .add("name", StringType, nullable = false)
    .add("path", StringType, nullable = false)
    .add("keys", ArrayType(ArrayType(StringType, false), false), nullable = false)
    .add("input", StringType, nullable = false)
    .add("oldest_version", LongType)
    .add("newest_version", LongType)
    .add("rows", LongType, nullable = false)
    .add("bytes", LongType, nullable = false)
    .add("partitions", IntegerType, nullable = false)
    .add("readers", ArrayType(Reader, false), nullable = false)
    .add("versions_behind", LongType)
    .add("query_id", StringType)

  def row(state: ArrangementState): Row = Row(
    state.root.getName,
    state.root.toString,
    state.meta.keys,
    state.meta.input.name,
    state.versions.map(_._1).orNull,
    state.versions.map(_._2).orNull,
    state.rows,
    state.bytes,
    state.meta.partitions,
    state.readers.map { reader =>
      Row(reader.name, reader.version, reader.versionsBehind, new Timestamp(reader.sinceMs))
    },
    state.readers.map(_.versionsBehind).maxOption.orNull,
    state.queryId.map(_.toString).orNull
  )
}
