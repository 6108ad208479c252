package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state._

/** An operator with state, as Spark knows it. */
final private[streamjoin] case class SparksOperator(id: Long, name: String, partitions: Int)

/**
 * `<checkpoint>/state/<id>/_metadata`: what Spark records of each of our operators. In the first
 * batch of a run, Spark compares the ids and names with those of the query
 * (`IncrementalExecution.checkOperatorValidWithMetadata`), after our operators are planned.
 *
 * {{{
 *   our operator                     in the checkpoint    in the plan
 *   was added                        is written first     yes
 *   was added by an abandoned        is deleted first     no
 *     attempt
 *   is of an attempt at the very     is deleted before    no
 *     first batch                      tasks run
 *   was removed                      stays                a stand-in, until its state is deleted
 * }}}
 */
final private[streamjoin] class SparksMetadata(session: SparkSession, checkpoint: Path) {
  private val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
  private val states = new Path(checkpoint, "state")
  private val files = CheckpointFileManager.create(states, hadoopConf)

  private def folder(id: Long) = new Path(states, id.toString)

  def add(operator: SparksOperator): Unit = {
    val store = StateStoreMetadataV1(StateStoreId.DEFAULT_STORE_NAME, 0, operator.partitions)
    val metadata = OperatorStateMetadataV1(OperatorInfoV1(operator.id, operator.name), Array(store))
    // It does nothing if they are there.
    OperatorStateMetadataWriter
      .createWriter(folder(operator.id), hadoopConf, metadata.version, None)
      .write(metadata)
  }

  /** Deletes all that Spark has recorded of an operator. */
  def delete(id: Long): Unit = files.delete(folder(id))

  /** Deletes what Spark has recorded of other operators than these. */
  def keepOnly(operators: Seq[SparksOperator]): Unit = if (files.exists(states)) {
    val ids = operators.map(_.id).toSet
    files.list(states).flatMap(_.getPath.getName.toLongOption).filterNot(ids).foreach(delete)
    val known =
      recorded(operators.map(_.id).filter(_ >= OperatorLog.FirstId)).map(of => of.id -> of.name).toMap
    operators.filter(of => known.get(of.id).exists(_ != of.name)).foreach { operator =>
      files.delete(OperatorStateMetadataV1.metadataFilePath(folder(operator.id)))
      add(operator)
    }
  }

  /** The operators among these that Spark has recorded. */
  def recorded(ids: Seq[Long]): Seq[SparksOperator] = for {
    id <- ids
    if files.exists(OperatorStateMetadataV1.metadataFilePath(folder(id)))
    metadata <- OperatorStateMetadataReader.createReader(folder(id), hadoopConf, 1, 0).read()
  } yield SparksOperator(
    id,
    metadata.operatorInfo.operatorName,
    metadata.asInstanceOf[OperatorStateMetadataV1].stateStoreInfo.head.numPartitions
  )
}
