package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils.SYMMETRIC_HASH_JOIN_EXEC_OP_NAME
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{BooleanType, StructType}

import streamjoin.core.Side

/**
 * A join of two streams that Spark's own operator has run, as the checkpoint describes it.
 *
 * @param operator
 *   id of the operator, by which Spark finds its state
 * @param format
 *   version of the format of its state
 * @param keys
 *   the key of its state stores
 * @param columns
 *   by side: the columns of a row in state
 */
final private[streamjoin] case class SparksJoin(
    operator: Long,
    format: Int,
    keys: StructType,
    columns: Map[Side, StructType]
) {

  /** Whether a row in state has a flag that says whether it has matched. */
  def hasFlags: Boolean = SparksJoins.hasFlags(format)
}

private[streamjoin] object SparksJoins {

  /** From this format on, an operator has one state store per partition in place of four. */
  private val OneStore = 3

  /** Where the offset log has no format. */
  private val OldestFormat = 1

  private[checkpoint] def hasFlags(format: Int): Boolean = format > OldestFormat

  def hasOneStore(format: Int): Boolean = format >= OneStore

  private val FormatOfState = "\"spark\\.sql\\.streaming\\.join\\.stateFormatVersion\"\\s*:\\s*\"(\\d+)\"".r

  /** The name of a file with a version of a store: `7.delta`, `7_<id>.zip`. */
  private val VersionFile = "(\\d+)(?:_[^.]*)?\\..*".r

  /** The time that format 4 adds to each key. */
  private val TimeOfKey = "__event_time"
}

/** Spark's own joins of streams in a checkpoint. It only reads. */
final private[streamjoin] class SparksJoins(session: SparkSession, checkpoint: Path) {
  import SparksJoins._

  private val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
  private val files = CheckpointFileManager.create(checkpoint, hadoopConf)
  private val states = new Path(checkpoint, "state")

  /** As Spark numbers them: from the output down, and from left to right. */
  lazy val all: Seq[SparksJoin] = folders.map(_._1).map { operator =>
    if (hasOneStore(format)) inOneStore(operator) else inFourStores(operator)
  }

  /** Whether there are any, which does not depend on their description. */
  def exist: Boolean = folders.nonEmpty

  /** The newest version of an operator's stores; once its batch is committed, all have it. */
  def newestVersion(operator: Long): Option[Long] = {
    val first = new Path(folder(operator), "0")
    val stores = Seq(first, new Path(first, storeOf(Side.Left, "keyToNumValues")))
    stores
      .filter(files.exists)
      .flatMap(files.list(_).toSeq)
      .map(_.getPath.getName)
      .collect { case VersionFile(version) => version.toLong }
      .maxOption
  }

  private def folder(operator: Long) = new Path(states, operator.toString)

  private def storeOf(side: Side, content: String) = s"${side.name}-$content"

  private lazy val lastBatch: Option[Long] = CommittedBatches.lastPlanned(checkpoint, hadoopConf)

  private lazy val format: Int = lastBatch.fold(OldestFormat) { batch =>
    val in = files.open(new Path(checkpoint, s"offsets/$batch"))
    val text =
      try new String(in.readAllBytes(), "UTF-8")
      finally in.close()
    FormatOfState.findFirstMatchIn(text).fold(OldestFormat)(_.group(1).toInt)
  }

  private lazy val folders: Seq[(Long, OperatorStateMetadata)] = for {
    batch <- lastBatch.toSeq
    operator <- numbered(states).sorted
    (version, file) <- Seq(1 -> "_metadata/metadata", 2 -> "_metadata/v2")
    if files.exists(new Path(folder(operator), file))
    metadata <- OperatorStateMetadataReader
      .createReader(folder(operator), hadoopConf, version, batch)
      .read()
    if metadata.operatorInfo.operatorName == SYMMETRIC_HASH_JOIN_EXEC_OP_NAME
  } yield operator -> metadata

  private def numbered(directory: Path): Seq[Long] =
    if (!files.exists(directory)) Nil
    else files.list(directory).toSeq.flatMap(_.getPath.getName.toLongOption)

  private def inFourStores(operator: Long): SparksJoin = {
    def schema(side: Side, content: String) =
      read(new Path(folder(operator), s"0/${storeOf(side, content)}/_metadata/schema")).head
    SparksJoin(
      operator,
      format,
      schema(Side.Left, "keyToNumValues").keySchema,
      Side.both.map(side => side -> withoutFlag(schema(side, "keyWithIndexToValue").valueSchema)).toMap
    )
  }

  private def inOneStore(operator: Long): SparksJoin = {
    val paths = folders.collectFirst { case (`operator`, of: OperatorStateMetadataV2) =>
      of.stateStoreInfo.head.stateSchemaFilePaths
    }.get
    // The checkpoint may have been moved since.
    val newest = new Path(folder(operator), s"_stateSchema/default/${new Path(paths.last).getName}")
    val byName = read(newest).map(schema => schema.colFamilyName -> schema).toMap
    def rows(side: Side) = byName
      .get(storeOf(side, "keyWithIndexToValue"))
      .orElse(byName.get(storeOf(side, "keyWithTsToValues")))
      .get
    val keys = byName.getOrElse(storeOf(Side.Left, "keyToNumValues"), rows(Side.Left)).keySchema
    SparksJoin(
      operator,
      format,
      StructType(keys.filterNot(_.name == TimeOfKey)),
      Side.both.map(side => side -> withoutFlag(rows(side).valueSchema)).toMap
    )
  }

  private def read(schema: Path): Seq[StateStoreColFamilySchema] =
    StateSchemaCompatibilityChecker.readSchemaFile(files.open(schema))

  private def withoutFlag(row: StructType): StructType =
    if (!hasFlags(format)) row
    else {
      assert(row.last.dataType == BooleanType, s"the last column of $row is no flag")
      StructType(row.init)
    }
}
