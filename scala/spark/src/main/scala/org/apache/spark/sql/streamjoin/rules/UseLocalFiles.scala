package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.files.LocalCheckpointFileManager

/**
 * `start()`: the session takes [[LocalCheckpointFileManager]] for the files of its checkpoints,
 * unless the user has chosen one. Spark opens a query's logs with the settings of the session that
 * starts it, and the state stores with a copy of them that it makes after this rule; so the
 * session's settings are the one place that reaches all of them.
 */
final private[streamjoin] case class UseLocalFiles(session: SparkSession) extends Rule[LogicalPlan] {
  import LocalCheckpointFileManager.Setting

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStreamStatement if StreamJoinConf.enabled && write.hadoopConf.get(Setting) == null =>
      setUnlessChosen()
      // The statement has a copy of its own, from before, with which Spark makes the checkpoint's
      // folder.
      write.copy(hadoopConf = state.newHadoopConf())
    case other => other
  }

  private def setUnlessChosen(): Unit =
    // Hadoop's settings are those of the session and of `spark.hadoop.*`.
    if (state.newHadoopConf().get(Setting) == null)
      state.conf.setConfString(Setting, classOf[LocalCheckpointFileManager].getName)

  private def state = session.asInstanceOf[ClassicSession].sessionState
}
