package org.apache.spark.sql.streamjoin.rules.start

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.files.AtomicCheckpointFileManager

/**
 * Sets [[AtomicCheckpointFileManager]] as the session's manager of checkpoint files, unless the
 * user has chosen one. Spark calls the rule at `start()`, before it opens the first of these files.
 * It opens a query's logs with the settings of the session that starts it, and the state stores
 * with a copy made after this rule, so only the session's settings reach both.
 */
final private[streamjoin] case class UseAtomicFiles(session: SparkSession) extends Rule[LogicalPlan] {
  import AtomicCheckpointFileManager.Setting

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStreamStatement if StreamJoinConf.enabled && write.hadoopConf.get(Setting) == null =>
      setUnlessChosen()
      // The statement has an earlier copy of the settings, with which Spark creates the
      // checkpoint's folder.
      write.copy(hadoopConf = state.newHadoopConf())
    case other => other
  }

  private def setUnlessChosen(): Unit =
    // Hadoop's settings are those of the session and of `spark.hadoop.*`.
    if (state.newHadoopConf().get(Setting) == null)
      state.conf.setConfString(Setting, classOf[AtomicCheckpointFileManager].getName)

  private def state = session.asInstanceOf[ClassicSession].sessionState
}
