package org.apache.spark.sql.streamjoin.laterows

import java.io.{BufferedWriter, CharArrayWriter, OutputStreamWriter}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.ZoneOffset
import java.time.format.DateTimeFormatter
import java.util.Locale

import scala.collection.mutable

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.catalyst.json.{JSONOptions, JacksonGenerator}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{JsonValues, StreamJoinConf}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, SparkSession}

import streamjoin.core.Side

/**
 * `<checkpoint>/late-rows`: rows that were dropped as late, changes without a primary key and, for
 * an arrangement, updates and deletes of unknown keys and changes that arrived too late. There is
 * one file of JSON lines per batch, per join or arrangement, and per task with such rows. A batch
 * that runs again overwrites the file with the same rows, so each row exists once.
 */
private[streamjoin] object LateRows {

  def folder(checkpoint: Path): Path = new Path(checkpoint, "late-rows")

  /**
   * One row of a file. The late row itself is nested as JSON text, because every input has its own
   * schema. A row of an arrangement has only the batch, the arrangement as its input, and the row;
   * one that arrived too late also names its time column.
   */
  val Schema: StructType = new StructType()
    .add("batch", LongType)
    .add("join", IntegerType)
    .add("side", StringType)
    .add("input", StringType)
    .add("column", StringType)
    .add("watermark", TimestampType)
    .add("row", StringType)

  /** Reads the folder as a table or as a stream. */
  def read(folder: Path, session: SparkSession, streaming: Boolean): DataFrame = {
    // Times are read as text, because the session's settings affect how times are parsed. Brackets
    // in a folder name are escaped because they are not a glob pattern.
    val schema = StructType(
      Schema.map(field => if (field.dataType == TimestampType) field.copy(dataType = StringType) else field)
    )
    val path = folder.toString.replaceAll("""([{}\[\]*?\\])""", """\\$1""")
    // Retention may remove a file that a reader has listed.
    val options = Map("ignoreMissingFiles" -> "true")
    val rows =
      if (streaming) session.readStream.schema(schema).options(options).json(path)
      else session.read.schema(schema).options(options).json(path)
    rows.withColumn("watermark", rows("watermark").cast(TimestampType))
  }

  val TimestampFormat = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
  val TimestampNtzFormat = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"

  /** Creates the folder, before the first row is written or read. */
  def prepare(folder: Path, hadoopConf: Configuration): Unit =
    CheckpointFileManager.create(folder, hadoopConf).mkdirs(folder)

  /**
   * The folder for the late rows of a batch that maintains an arrangement, if they are kept. It is
   * created, and old rows are purged, while the batch is planned.
   *
   * @param tasks
   *   number of tasks that write rows
   */
  def prepareForArrangement(
      execution: IncrementalExecution,
      tasks: Int,
      hadoopConf: Configuration
  ): Option[String] =
    Option.when(StreamJoinConf.keepsLateRows) {
      val rows = folder(new Path(execution.checkpointLocation).getParent)
      if (execution.isFirstBatch) {
        prepare(rows, hadoopConf)
        // The sink of an arrangement never skips a batch: its tasks will run.
        forget(rows, execution.currentBatchId, Map(operator(None) -> tasks), hadoopConf)
      }
      if (execution.isFirstBatch || execution.currentBatchId % PurgeInterval == 0) purge(rows, hadoopConf)
      rows.toString
    }

  /** The maximum age, in batches. */
  val PurgeInterval = 10

  /**
   * Before a batch runs again: removes the files of an attempt that had another number of tasks, or
   * other operators. The others stay, and will be overwritten with the same rows: a stream may be
   * about to read them.
   *
   * @param tasks
   *   by operator: the number of tasks
   */
  def forget(folder: Path, batch: Long, tasks: Map[String, Int], hadoopConf: Configuration): Unit =
    if (areIn(folder, hadoopConf)) {
      def isOfThis(operator: String, of: String) = tasks.get(operator).exists(_.toString == of)
      val files = CheckpointFileManager.create(folder, hadoopConf)
      files.list(folder).map(_.getPath).foreach { file =>
        file.getName match {
          case FileName(number, operator, of)
              if number.toLong > batch || number.toLong == batch && !isOfThis(operator, of) =>
            files.delete(file)
          case _ =>
        }
      }
    }

  // Earlier versions did not write the number of tasks.
  private val FileName = """batch-(\d+)-(.+)-task-\d+(?:-of-(\d+))?\.json""".r

  private[laterows] def fileName(spec: Spec, task: Int): String =
    f"batch-${spec.batch}%010d-${operator(spec.join)}-task-$task-of-${spec.tasks}.json"

  /**
   * An operator in the names of files.
   *
   * @param join
   *   number of the join, from 1; none for an arrangement
   */
  def operator(join: Option[Int]): String = join.fold("arrangement")(number => s"join-$number")

  /** Whether late rows are, or were, kept here. */
  def areIn(folder: Path, hadoopConf: Configuration): Boolean =
    CheckpointFileManager.create(folder, hadoopConf).exists(folder)

  /** A name for each column of a row: JSON cannot distinguish two columns with the same name. */
  def distinctNames(columns: Seq[String]): Seq[String] = {
    val seen = mutable.Set.empty[String]
    columns.map { name =>
      (name +: LazyList.from(2).map(number => s"${name}_$number")).find(seen.add).get
    }
  }

  /**
   * The rows of one side.
   *
   * @param columns
   *   names of the event-time columns
   */
  final case class Input(name: String, columns: Seq[String], schema: StructType)

  object Input {

    def apply(name: String, times: Seq[Attribute], output: Seq[Attribute]): Input = {
      val named = output.zip(distinctNames(output.map(_.name))).map { case (column, free) =>
        if (free == column.name) column else column.withName(free)
      }
      val columns = times.map(time => named(output.indexWhere(_.exprId == time.exprId)).name)
      Input(name, columns, DataTypeUtils.fromAttributes(named))
    }
  }

  /**
   * The data that the tasks of a join or an arrangement need to write late rows.
   *
   * @param join
   *   number of the join, from 1; none for an arrangement
   * @param tasks
   *   number of its tasks
   */
  final case class Spec(
      folder: String,
      batch: Long,
      join: Option[Int],
      inputs: Map[Side, Input],
      tasks: Int
  )

  /**
   * Removes files beyond the configured age, then the oldest ones until the rest fits the
   * configured size.
   */
  def purge(folder: Path, hadoopConf: Configuration): Unit = if (areIn(folder, hadoopConf)) {
    val maxAge = SQLConf.get.getConf(StreamJoinConf.LateRowsMaxAge)
    val maxBytes = SQLConf.get.getConf(StreamJoinConf.LateRowsMaxBytes)
    val files = CheckpointFileManager.create(folder, hadoopConf)
    // Includes files that a killed task left unfinished.
    val (old, recent) =
      files.list(folder).toSeq.partition(_.getModificationTime < System.currentTimeMillis() - maxAge)
    val newestFirst = recent.filter(_.getPath.getName.endsWith(".json")).sortBy(-_.getModificationTime)
    val sizes = newestFirst.scanLeft(0L)(_ + _.getLen).tail
    val beyond = newestFirst.zip(sizes).collect { case (file, size) if size > maxBytes => file }
    (old ++ beyond).foreach(file => files.delete(file.getPath))
  }
}

/** Writes the late rows of one task. Nothing is visible before [[commit]]. */
final private[streamjoin] class LateRowsWriter(
    spec: LateRows.Spec,
    partition: Int,
    hadoopConf: Configuration
) {
  import LateRowsWriter._

  private var file: CancellableFSDataOutputStream = _
  private var out: BufferedWriter = _

  private val generated = new CharArrayWriter
  private lazy val generators: Map[Side, InternalRow => Unit] = spec.inputs.transform { (_, input) =>
    SQLConf.withExistingConf(defaults) {
      val json = JsonValues.typeOf(input.schema).asInstanceOf[StructType]
      val generator = new JacksonGenerator(json, generated, options)
      lazy val converted = UnsafeProjection.create(JsonValues.columns(input.schema))
      // A row may have more columns, computed for the join.
      def isAsItIs(row: InternalRow) = json == input.schema && row.numFields == json.size
      (row: InternalRow) =>
        generator.write(if (isAsItIs(row)) row else converted(row))
        generator.flush()
    }
  }

  /**
   * @param at
   *   position of the event-time column that makes the row late
   * @param watermark
   *   watermark that the row is below, in microseconds
   */
  def add(side: Side, row: InternalRow, at: Int, watermark: Long): Unit = {
    val line = of(side)
      .put("column", spec.inputs(side).columns(at))
      .put("watermark", DateTimeUtils.microsToInstant(watermark).atOffset(ZoneOffset.UTC).format(clock))
    write(line.put("row", json(side, row)))
  }

  private def of(side: Side): ObjectNode = {
    val line = mapper.createObjectNode().put("batch", spec.batch)
    spec.join.foreach(line.put("join", _).put("side", side.name): ObjectNode)
    line.put("input", spec.inputs(side).name)
  }

  /**
   * Adds a change of a missing row, with its operation: its key is unknown to the arrangement, or
   * null.
   */
  def addUnknown(row: InternalRow, side: Side = Side.Left): Unit =
    write(of(side).put("row", json(side, row)))

  /** Adds a change that is older, by the time column, than the arrangement's row for its key. */
  def addOlder(row: InternalRow): Unit = {
    val line = of(Side.Left)
    spec.inputs(Side.Left).columns.headOption.foreach(line.put("column", _): ObjectNode)
    write(line.put("row", json(Side.Left, row)))
  }

  private def write(line: ObjectNode): Unit = {
    if (out == null) open()
    out.write(mapper.writeValueAsString(line))
    out.newLine()
  }

  private def json(side: Side, row: InternalRow): String = {
    generated.reset()
    generators(side)(row)
    generated.toString
  }

  private def open(): Unit = {
    val folder = new Path(spec.folder)
    file = CheckpointFileManager
      .create(folder, hadoopConf)
      .createAtomic(new Path(folder, LateRows.fileName(spec, partition)), overwriteIfPossible = true)
    out = new BufferedWriter(new OutputStreamWriter(file, UTF_8))
  }

  def commit(): Unit = if (out != null) {
    out.close()
    out = null
  }

  /** Discards the file. Does nothing after [[commit]]. */
  def abort(): Unit = if (out != null) {
    file.cancel()
    out = null
  }
}

private object LateRowsWriter {
  private val mapper = new ObjectMapper()
  private val clock = DateTimeFormatter.ofPattern(LateRows.TimestampFormat, Locale.ROOT)
  private val options = new JSONOptions(
    Map(
      "timestampFormat" -> LateRows.TimestampFormat,
      "timestampNTZFormat" -> LateRows.TimestampNtzFormat,
      "ignoreNullFields" -> "false"
    ),
    "UTC"
  )

  /** Default settings: formats must not depend on `spark.sql.legacy.timeParserPolicy`. */
  private val defaults = new SQLConf
}
