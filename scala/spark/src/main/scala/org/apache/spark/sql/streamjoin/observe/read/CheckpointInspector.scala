package org.apache.spark.sql.streamjoin.observe.read

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{NextOffsets, OptionValues, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.checkpoint.{
  CommittedBatches,
  Generation,
  OperatorLog,
  OperatorOutline,
  OutlineLog
}
import org.apache.spark.sql.streamjoin.operator.StateStores
import org.apache.spark.sql.streamjoin.watermark.KeyedWatermarkLog

/**
 * Reads the state in a checkpoint. It changes nothing, and the query may be running.
 *
 * @param root
 *   root folder of the checkpoint
 */
final private[streamjoin] class CheckpointInspector(val session: SparkSession, val root: Path) {
  private val classic = session.asInstanceOf[ClassicSession]
  val hadoopConf: Configuration = classic.sessionState.newHadoopConf()

  private def folder(name: String) = new Path(root, name)

  /** The logs create their folders, so they are opened only if the folders exist. */
  private def has(directory: String): Boolean =
    folder(directory).getFileSystem(hadoopConf).exists(folder(directory))

  /** The batches whose state may still exist, up to the last committed one. */
  lazy val batches: Seq[Long] = {
    val found = CommittedBatches.all(root, hadoopConf)
    if (found.isEmpty)
      throw nothing("STREAMJOIN_NO_STATE.NO_BATCH")
    found
  }

  /** Our stateful operators after the last batch, from the inputs up. */
  lazy val operators: Seq[OperatorOutline] =
    operators(CommittedBatches.last(root, hadoopConf).getOrElse(Long.MaxValue))

  /** Our stateful operators after a batch, from the inputs up. */
  def operators(batch: Long): Seq[OperatorOutline] = {
    val outlines = if (has(OutlineLog.Directory)) new OutlineLog(session, root).after(batch) else Nil
    // Operators may have been added since, or removed before.
    val others =
      if (!has(OperatorLog.Directory)) Set.empty[Int]
      else new OperatorLog(session, root).all.zipWithIndex.filterNot(_._1.isPartOf(batch)).map(_._2).toSet
    val found = outlines.filterNot(of => others(of.ordinal))
    if (found.isEmpty && has(OperatorLog.Directory))
      throw nothing("STREAMJOIN_NO_STATE.NOT_DESCRIBED")
    if (found.isEmpty)
      throw nothing("STREAMJOIN_NO_STATE.NO_OPERATOR")
    found
  }

  def operator(number: Int, batch: Long): OperatorOutline = {
    val found = operators(batch)
      .find(_.ordinal == number - 1)
      .getOrElse(
        throw OptionValues.rejected(
          StateOptions.Operator,
          number.toString,
          operators.map(of => s"${of.ordinal + 1} (${of.title})").mkString(" or ")
        )
      )
    val first = firstBatch(found)
    if (batch < first)
      throw OptionValues.rejected(
        StateOptions.Batch,
        batch.toString,
        s"a batch from $first on: Spark's own join has run the batches before"
      )
    found
  }

  /** The first batch after which an operator has state: it may have taken over Spark's own join. */
  def firstBatch(operator: OperatorOutline): Long = {
    val states =
      if (has(OperatorLog.Directory)) new OperatorLog(session, root).states(operator.ordinal) else None
    states.flatMap(_.headOption).filter(_.folder.isDefined).fold(0L)(_.from)
  }

  def partitions(operator: OperatorOutline, batch: Long): Int = generation(operator, batch).partitions

  /** Where the state of an operator is after a batch. */
  private def generation(operator: OperatorOutline, batch: Long): Generation = new OperatorLog(session, root)
    .states(operator.ordinal)
    .flatMap(Generation.after(batch, _))
    .getOrElse(throw nothing("STREAMJOIN_NO_STATE.NO_PARTITIONS", "operator" -> (operator.ordinal + 1)))

  /** The state stores of an operator after a batch. */
  def stores(operator: OperatorOutline, batch: Long): StateStores = {
    val id = new OperatorLog(session, root).id(operator.ordinal)
    val ids = new CommitLog(classic, folder("commits").toString).get(batch).flatMap(_.stateUniqueIds)
    val generation = this.generation(operator, batch)
    new StateStores(
      StatefulOperatorStateInfo(
        generation.root(folder("state")).toString,
        UUID.randomUUID(),
        id,
        generation.version(batch + 1),
        generation.partitions,
        None,
        ids.flatMap(_.get(id))
      ),
      generation.firstBatch,
      settings(batch),
      generation.provider
    )
  }

  /** The settings of this session, overridden by those that the checkpoint fixes. */
  private def settings(batch: Long): SQLConf = {
    val own = classic.sessionState.conf.clone()
    new OffsetSeqLog(classic, folder("offsets").toString)
      .get(batch)
      .foreach(NextOffsets.settings(_).foreach { case (name, value) => own.setConfString(name, value) })
    own
  }

  /**
   * The watermarks that an operator has received up to a batch, by watermark key, in microseconds.
   */
  def watermarks(operator: OperatorOutline, batch: Long): IndexedSeq[Option[Long]] = {
    val log = new KeyedWatermarkLog(session, root)
    Seq(batch + 1, batch).iterator
      .flatMap(log.written(_))
      .flatMap(_.received.get(operator.ordinal))
      .nextOption()
      .getOrElse(operator.columns.map(_ => None))
      .toIndexedSeq
  }

  private def nothing(condition: String, parameters: (String, Any)*) =
    StreamJoinErrors.analysis(condition, parameters :+ ("checkpoint" -> root): _*)
}
