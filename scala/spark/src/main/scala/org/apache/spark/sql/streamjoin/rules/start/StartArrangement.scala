package org.apache.spark.sql.streamjoin.rules.start

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.{InternalOutputModes, WriteToStream}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.streamjoin.arrangement.maintain.{
  Arrange,
  ArrangementChanges,
  ArrangementWrite,
  MaintainerCheckpoint
}
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementTable
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, ArrangementMeta, InputKind}
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors}

/**
 * `start()` of a query that maintains an arrangement: the first query defines the arrangement, and
 * only that query may continue it.
 */
final private[streamjoin] case class StartArrangement(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStream =>
      (write.inputQuery, write.sink) match {
        case (arrange: Arrange, _) => start(write, arrange)
        case (_, table: ArrangementTable) => throw ArrangementWrite.notOurs(table.options.root)
        case _ => write
      }
    case other => other
  }

  private def start(write: WriteToStream, arrange: Arrange): WriteToStream = {
    checkMode(arrange, write.outputMode)
    val meta = begun(arrange, write.resolvedCheckpointLocation)
    write.sink match {
      case table: ArrangementTable =>
        if (table.options.root.toString != arrange.root)
          throw StreamJoinErrors.analysis(
            "STREAMJOIN_ARRANGE.OTHER_TARGET",
            "arrangement" -> arrange.root,
            "target" -> table.options.root
          )
        table.run.begin(table.options.open(), meta)
      case _ =>
    }
    if (meta == arrange.meta) write else write.copy(inputQuery = arrange.copy(meta = meta))
  }

  private def checkMode(arrange: Arrange, mode: OutputMode): Unit = {
    def rejected(condition: String) =
      StreamJoinErrors.analysis(condition, "arrangement" -> arrange.root, "mode" -> mode.toString.toLowerCase)
    if (mode == InternalOutputModes.Complete)
      throw rejected("STREAMJOIN_ARRANGEMENT_OUTPUT_MODE.COMPLETE")
    if (mode == InternalOutputModes.Update && arrange.meta.input != InputKind.Changelog)
      throw rejected("STREAMJOIN_ARRANGEMENT_OUTPUT_MODE.UPDATE")
  }

  private def begun(arrange: Arrange, checkpoint: String): ArrangementMeta = {
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    def folder = new ArrangementFolder(new Path(arrange.root), hadoopConf)
    val (found, own) = (folder, new MaintainerCheckpoint(checkpoint, hadoopConf))
    // Generated here, because the writer may be started again after the arrangement was dropped.
    val set = StreamJoinConf.setPartitions
    lazy val anew =
      arrange.meta.copy(id = UUID.randomUUID(), partitions = set.getOrElse(arrange.meta.partitions))
    if (!found.exists) {
      own.check(found)
      found.checkIsEmpty()
      found.create(anew)
    } else if (found.newest < 0) {
      own.check(found)
      // Nothing has been written or read yet.
      val isOther = ArrangementChanges.all(found.meta, arrange.meta, set).nonEmpty
      if (isOther) found.redefine(anew)
    } else {
      val newest = found.manifest(found.newest)
      found.checkWriter(newest)
      ArrangementChanges.check(arrange.root, found.metaOf(newest), arrange.meta)
      // A new query gets a new id.
      val query = own.query.getOrElse(UUID.randomUUID())
      ArrangementWrite.checkOwner(found.root, newest, query)
      own.check(found)
    }
    val is = folder.current
    is.copy(
      schema = arrange.meta.schema,
      partitions = set.getOrElse(is.partitions),
      keys = arrange.meta.keys,
      addedKeys = is.addedKeys + arrange.meta.keys.size - is.keys.size,
      expires = arrange.meta.expires
    )
  }
}
