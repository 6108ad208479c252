package org.apache.spark.sql.streamjoin.arrangement.source

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, LeaseFiles}
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinErrors}
import org.apache.spark.sql.types.{LongType, StringType, StructType}
import org.apache.spark.sql.{Row, SparkSession}

/**
 * Removes an arrangement and all of its files: `sj_drop_arrangement`.
 *
 * @param force
 *   removes it even if it has readers; their queries then fail
 */
final private[streamjoin] case class DropArrangement(
    root: Path,
    force: Boolean,
    override val output: Seq[Attribute] = DataTypeUtils.toAttributes(DropArrangement.Schema)
) extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val folder = ArrangementFolder.open(root)
    // Without its description, it was dropped before, but not completely.
    if (folder.exists || folder.newest < 0) checkUnused(session, folder)
    folder.drop()
    Seq(Row(root.toString))
  }

  private def checkUnused(session: SparkSession, folder: ArrangementFolder): Unit = {
    val state = ArrangementState.of(folder)
    def rejected(user: String) =
      StreamJoinErrors.analysis("STREAMJOIN_ARRANGEMENT_USED", "arrangement" -> root.toString, "user" -> user)
    state.queryId.filter(RunningQuery.of(session, _).isDefined).foreach { id =>
      throw rejected(s"the query $id maintains it")
    }
    if (!force && state.readers.nonEmpty)
      throw rejected(s"it is read by ${state.readers.map(_.title).mkString(", ")}")
    val leases = new LeaseFiles(folder)
    leases.all.filter(leases.isUsedByOther(session, _)).foreach { lease =>
      throw rejected(s"the running query of another session reads it, as ${LeaseFiles.id(lease.reader)}")
    }
  }
}

private[streamjoin] object DropArrangement {
  private val Schema = new StructType().add("path", StringType, nullable = false)
}

/** Removes the lease of a reader that will not return: `sj_release_reader`. */
final private[streamjoin] case class ReleaseReader(
    root: Path,
    reader: String,
    override val output: Seq[Attribute] = DataTypeUtils.toAttributes(ReleaseReader.Schema)
) extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val folder = ArrangementFolder.open(root)
    folder.meta
    val leases = new LeaseFiles(folder)
    val all = leases.all
    // The reader's own user knows its checkpoint.
    val named =
      all.find(lease =>
        LeaseFiles.id(lease.reader) == reader || LeaseFiles.checkpoint(lease.reader) == reader
      )
    val lease = named.getOrElse {
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NO_READER",
        "arrangement" -> root.toString,
        "reader" -> reader,
        "readers" -> ArrangementState.of(folder).readers.map(_.title).sorted.mkString("[", ", ", "]")
      )
    }
    if (leases.isUsedByOther(session, lease))
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_READER_USED",
        "arrangement" -> root.toString,
        "reader" -> reader
      )
    leases.release(lease.reader)
    Seq(Row(reader, lease.version))
  }
}

private[streamjoin] object ReleaseReader {
  private val Schema =
    new StructType().add("reader", StringType, nullable = false).add("version", LongType, nullable = false)
}
