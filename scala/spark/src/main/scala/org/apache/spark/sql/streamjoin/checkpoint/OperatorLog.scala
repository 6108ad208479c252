package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.plans.StatefulNode

/**
 * `<checkpoint>/stream-joins/<n>`: our stateful operators in a query, by ordinal, each recorded
 * before its first batch.
 *
 * @param checkpoint
 *   root folder of the checkpoint
 */
final private[streamjoin] class OperatorLog(session: SparkSession, checkpoint: Path)
    extends DescriptionLog(session, checkpoint, OperatorLog.Directory) {

  override protected def version: Int = 2

  /** The number of partitions that an operator started with. */
  def partitions(ordinal: Int): Option[Int] = get(ordinal.toLong).map { recorded =>
    recorded.partitions.getOrElse(throw unreadable(s"it has no ${Description.PartitionsKey}"))
  }

  /** The record of an operator, if there is one. */
  def recorded(ordinal: Int): Option[Description] = get(ordinal.toLong)

  /** Checks the query's description of an operator against the record, if there is one. */
  def verifyWritten(node: StatefulNode): Unit =
    get(node.ordinal.toLong).foreach(verify(_, Description(node.kind, node.description.written)))

  /** Called before the first batch of a run. */
  def verifyOrRecord(node: StatefulNode, partitions: Int): Unit = {
    val now = Description(node.kind, node.description.all, partitions = Some(partitions))
    val number = node.ordinal.toLong
    if (!add(number, now.recordedNow)) get(number).foreach(verifyAndComplete(number, _, now))
  }
}

private[streamjoin] object OperatorLog {
  val Directory = "stream-joins"

  /** The property that is reported if the number of operators has changed. */
  val Number = "number_of_operators"
}
