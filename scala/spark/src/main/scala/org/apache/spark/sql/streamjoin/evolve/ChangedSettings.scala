package org.apache.spark.sql.streamjoin.evolve

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{NextOffsets, StreamJoinConf}
import org.apache.spark.sql.streamjoin.checkpoint.{Generation, OperatorLog}
import org.apache.spark.sql.streamjoin.plans.{FirstPartitions, StatefulNode}

/**
 * Settings of a session that the next batch of a checkpoint would have to rewrite the state for:
 * another number of partitions, another state store. They change no row and need no permission.
 *
 * @param batch
 *   the last committed batch
 */
final private[evolve] class ChangedSettings(session: ClassicSession, checkpoint: Path, batch: Long) {
  import ChangedSettings._

  private val conf = session.sessionState.conf
  private val log = new OperatorLog(session, checkpoint)

  /** Of those of an operator that differ from what its state has: name, old and new value. */
  def of(operator: QueryOperator): Seq[(String, String, String)] = for {
    state <- log.states(operator.ordinal).flatMap(Generation.after(batch, _)).toSeq
    (was, is) = providers(state.provider)
    number = (Partitions, state.partitions.toString, partitions(operator.node, state.partitions).toString)
    changed <- Seq(number, (Store, was, is)) if changed._2 != changed._3
  } yield changed

  private def partitions(node: StatefulNode, now: Int): Int = {
    val atOnce = math.max(FirstPartitions.atOnce(session.sparkContext), now)
    val set = conf.getConf(StreamJoinConf.Partitions).getOrElse(now)
    node.tasks.fold(now)(_.number(set, atOnce))
  }

  /** Without a setting, the state store stays. */
  private def providers(own: Option[String]): (String, String) = {
    val now = own.getOrElse(ofCheckpoint)
    now -> (if (conf.contains(Provider)) conf.stateStoreProviderClass else now)
  }

  private lazy val ofCheckpoint: String =
    new OffsetSeqLog(session, new Path(checkpoint, "offsets").toString)
      .get(batch)
      .flatMap(NextOffsets.settings(_).get(Provider))
      .getOrElse(conf.stateStoreProviderClass)
}

private[evolve] object ChangedSettings {
  val Partitions = "partitions"
  val Store = "state_store"
  val State = "rewritten"
  val Advice = "This needs no permission: the next batch reads and writes the state once."

  private val Provider = SQLConf.STATE_STORE_PROVIDER_CLASS.key
}
