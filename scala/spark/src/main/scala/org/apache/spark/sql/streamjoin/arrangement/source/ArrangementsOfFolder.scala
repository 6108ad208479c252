package org.apache.spark.sql.streamjoin.arrangement.source

import java.sql.Timestamp

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.types._

/** The arrangements of a folder, or one of them, as a table. */
private[streamjoin] object ArrangementsOfFolder {
  private val Reader: StructType = new StructType()
    .add("name", StringType)
    .add("id", StringType, nullable = false)
    .add("version", LongType, nullable = false)
    .add("versions_behind", LongType, nullable = false)
    .add("since", TimestampType, nullable = false)

  /**
   * The oldest and newest version and the query id are null before the first version. For an
   * arrangement that cannot be read, only the name, the path and the problem are set.
   */
  val Schema: StructType = new StructType()
    .add("name", StringType, nullable = false)
    .add("path", StringType, nullable = false)
    .add("keys", ArrayType(ArrayType(StringType, false), false))
    .add("input", StringType)
    .add("oldest_version", LongType)
    .add("newest_version", LongType)
    .add("rows", LongType)
    .add("bytes", LongType)
    .add("partitions", IntegerType)
    .add("readers", ArrayType(Reader, false))
    .add("versions_behind", LongType)
    .add("query_id", StringType)
    .add("problem", StringType)

  /** An arrangement that cannot be read does not hide the others. */
  def rowOf(root: Path): Row =
    try row(ArrangementState.of(ArrangementFolder.open(root)))
    catch {
      case NonFatal(error) =>
        val nothing = Seq.fill(Schema.size - 3)(null)
        Row.fromSeq(Seq(root.getName, root.toString) ++ nothing :+ error.getMessage)
    }

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
      Row(
        reader.name.orNull,
        reader.id,
        reader.version,
        reader.versionsBehind,
        new Timestamp(reader.sinceMs)
      )
    },
    state.readers.map(_.versionsBehind).maxOption.orNull,
    state.queryId.map(_.toString).orNull,
    null
  )
}
