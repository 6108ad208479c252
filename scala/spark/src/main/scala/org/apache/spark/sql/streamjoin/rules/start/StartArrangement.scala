package org.apache.spark.sql.streamjoin.rules.start

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.{InternalOutputModes, WriteToStream}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.streamjoin.arrangement.maintain.{Arrange, ArrangementWrite}
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementTable
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, ArrangementMeta, InputKind}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/**
 * `start()` of a query that maintains an arrangement: the first query defines the arrangement, and
 * only that query may continue it.
 */
final private[streamjoin] case class StartArrangement(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStream =>
      write.inputQuery match {
        case arrange: Arrange => start(write, arrange)
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
            "STREAMJOIN_ARRANGE",
            "problem" -> s"it was called for ${arrange.root}, and the query would write to ${table.options.root}",
            "advice" -> "Give the name or the path to sj.arrange, none to start(), and leave spark.streamjoin.arrangements as it is in between."
          )
        table.run.begin(table.options.open())
      case _ =>
    }
    if (meta == arrange.meta) write else write.copy(inputQuery = arrange.copy(meta = meta))
  }

  private def checkMode(arrange: Arrange, mode: OutputMode): Unit = {
    def refused(reason: String, advice: String) = StreamJoinErrors.analysis(
      "STREAMJOIN_ARRANGEMENT_OUTPUT_MODE",
      "arrangement" -> arrange.root,
      "mode" -> mode.toString.toLowerCase,
      "reason" -> reason,
      "advice" -> advice
    )
    val changelog = "sj.arrange(df, name, keys=[the columns of the group], op=...)"
    if (mode == InternalOutputModes.Complete)
      throw refused(
        "a batch would have all rows, and not what has changed",
        s"Write .outputMode(\"update\") and arrange a changelog: $changelog, where op= names a column that says \"update\"."
      )
    if (mode == InternalOutputModes.Update && arrange.meta.input != InputKind.Changelog)
      throw refused(
        "a row does not say which one it replaces",
        s"Write .outputMode(\"append\"), or arrange a changelog: $changelog."
      )
  }

  private def begun(arrange: Arrange, checkpoint: String): ArrangementMeta = {
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    val folder = new ArrangementFolder(new Path(arrange.root), hadoopConf)
    if (!folder.exists) folder.create(arrange.meta)
    check(arrange, folder.meta)
    val newest = folder.newest
    if (newest >= 0) {
      val metadata = StreamMetadata.read(new Path(checkpoint, "metadata"), hadoopConf)
      // A new query gets a new id.
      val query = metadata.map(found => UUID.fromString(found.id)).getOrElse(UUID.randomUUID())
      ArrangementWrite.checkOwner(folder.root, folder.manifest(newest), query)
    }
    folder.meta
  }

  private def check(arrange: Arrange, is: ArrangementMeta): Unit = {
    val wanted = arrange.meta
    def columns(of: ArrangementMeta) =
      of.schema.map(field => s"${field.name} ${field.dataType.sql}").mkString(", ")
    def keys(of: ArrangementMeta) = of.keys.map(_.mkString("[", ", ", "]")).mkString(", ")
    Seq[(String, ArrangementMeta => String)](
      "columns" -> columns,
      "keys" -> keys,
      "input" -> (_.input.name),
      "time" -> (_.time.getOrElse("none")),
      "order" -> (_.order.getOrElse("none"))
    ).find { case (_, of) => of(wanted) != of(is) }.foreach { case (what, of) =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGEMENT_CHANGED",
        "arrangement" -> arrange.root,
        "what" -> what,
        "was" -> of(is),
        "is" -> of(wanted)
      )
    }
  }
}
