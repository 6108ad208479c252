package org.apache.spark.sql.streamjoin.operators

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
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.json.{JSONOptions, JacksonGenerator}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, SparkSession}

import streamjoin.core.Side

/**
 * `<checkpoint>/late-rows`: the rows that were dropped as late, and of an arrangement the updates
 * and
 * deletes of keys that it does not know and the changes that came too late, one file of JSON lines
 * for each batch, join or arrangement,
 * and task that had some. A batch that is done again writes the same rows over the same file, so
 * that each is there once.
 */
private[streamjoin] object LateRows {

  def folder(checkpoint: Path): Path = new Path(checkpoint, "late-rows")

  /**
   * One row of a file. The row that was late is JSON in itself, for every input has a schema of its
   * own. One of an arrangement has a batch, the arrangement as its input, and the row; one that
   * came
   * too late also the column with its time.
   */
  val Schema: StructType = new StructType()
    .add("batch", LongType)
    .add("join", IntegerType)
    .add("side", StringType)
    .add("input", StringType)
    .add("column", StringType)
    .add("watermark", TimestampType)
    .add("row", StringType)

  /** The folder as a table or as a stream. */
  def read(folder: Path, session: SparkSession, streaming: Boolean): DataFrame = {
    // As text, for how times are parsed is up to the session. A name with a bracket is no pattern.
    val schema = StructType(
      Schema.map(field => if (field.dataType == TimestampType) field.copy(dataType = StringType) else field)
    )
    val path = folder.toString.replaceAll("""([{}\[\]*?\\])""", """\\$1""")
    // Retention may remove a file that a reader has seen.
    val options = Map("ignoreMissingFiles" -> "true")
    val rows =
      if (streaming) session.readStream.schema(schema).options(options).json(path)
      else session.read.schema(schema).options(options).json(path)
    rows.withColumn("watermark", rows("watermark").cast(TimestampType))
  }

  val TimestampFormat = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
  val TimestampNtzFormat = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"

  /** Makes the folder, before the first row is written or looked for. */
  def prepare(folder: Path, hadoopConf: Configuration): Unit =
    CheckpointFileManager.create(folder, hadoopConf).mkdirs(folder)

  /**
   * The folder of the late rows of a batch that maintains an arrangement, if they are kept. It is
   * made, and old rows are removed, while the batch is planned.
   */
  def prepareForArrangement(execution: IncrementalExecution, hadoopConf: Configuration): Option[String] =
    Option.when(StreamJoinConf.keepsLateRows) {
      val rows = folder(new Path(execution.checkpointLocation).getParent)
      if (execution.isFirstBatch) prepare(rows, hadoopConf)
      if (execution.isFirstBatch || execution.currentBatchId % PurgeInterval == 0) purge(rows, hadoopConf)
      rows.toString
    }

  /** In batches. */
  val PurgeInterval = 10

  /** They are kept, or were. */
  def areIn(folder: Path, hadoopConf: Configuration): Boolean =
    CheckpointFileManager.create(folder, hadoopConf).exists(folder)

  /**
   * The rows of a side.
   *
   * @param columns
   *   the names of its event-time columns
   */
  final case class Input(name: String, columns: Seq[String], schema: StructType)

  object Input {

    /** Each column with a name of its own: JSON would not keep two of one name apart. */
    def apply(name: String, times: Seq[Attribute], output: Seq[Attribute]): Input = {
      val seen = mutable.Set.empty[String]
      val named = output.map { column =>
        val names = column.name +: LazyList.from(2).map(number => s"${column.name}_$number")
        val free = names.find(seen.add).get
        if (free == column.name) column else column.withName(free)
      }
      val columns = times.map(time => named(output.indexWhere(_.exprId == time.exprId)).name)
      Input(name, columns, DataTypeUtils.fromAttributes(named))
    }
  }

  /**
   * What the tasks of a join need to keep late rows.
   *
   * @param join
   *   its number, from 1; none of an arrangement
   */
  final case class Spec(folder: String, batch: Long, join: Option[Int], inputs: Map[Side, Input])

  /**
   * Removes files that are older than the settings say, then the oldest until the rest is small
   * enough.
   */
  def purge(folder: Path, hadoopConf: Configuration): Unit = if (areIn(folder, hadoopConf)) {
    val maxAge = SQLConf.get.getConf(StreamJoinConf.LateRowsMaxAge)
    val maxBytes = SQLConf.get.getConf(StreamJoinConf.LateRowsMaxBytes)
    val files = CheckpointFileManager.create(folder, hadoopConf)
    // Those that a killed task has not finished, too.
    val (old, recent) =
      files.list(folder).toSeq.partition(_.getModificationTime < System.currentTimeMillis() - maxAge)
    val newestFirst = recent.filter(_.getPath.getName.endsWith(".json")).sortBy(-_.getModificationTime)
    val sizes = newestFirst.scanLeft(0L)(_ + _.getLen).tail
    val beyond = newestFirst.zip(sizes).collect { case (file, size) if size > maxBytes => file }
    (old ++ beyond).foreach(file => files.delete(file.getPath))
  }
}

/** Writes the late rows of one task. Nothing is there before [[commit]]. */
final private[streamjoin] class LateRowsWriter(
    spec: LateRows.Spec,
    partition: Int,
    hadoopConf: Configuration
) {
  import LateRowsWriter._

  private var file: CancellableFSDataOutputStream = _
  private var out: BufferedWriter = _

  private val generated = new CharArrayWriter
  private lazy val generators: Map[Side, JacksonGenerator] = spec.inputs.transform { (_, input) =>
    SQLConf.withExistingConf(defaults)(new JacksonGenerator(input.schema, generated, options))
  }

  /**
   * @param at
   *   the position of the event-time column by which the row is late
   * @param watermark
   *   in microseconds
   */
  def add(side: Side, row: InternalRow, at: Int, watermark: Long): Unit = {
    val input = spec.inputs(side)
    val line = mapper.createObjectNode().put("batch", spec.batch)
    spec.join.foreach(line.put("join", _): ObjectNode)
    line
      .put("side", side.name)
      .put("input", input.name)
      .put("column", input.columns(at))
      .put("watermark", DateTimeUtils.microsToInstant(watermark).atOffset(ZoneOffset.UTC).format(clock))
    write(line.put("row", json(side, row)))
  }

  /** An update or a delete of a key that an arrangement does not know, with its operation. */
  def addUnknown(row: InternalRow): Unit = {
    val line = mapper.createObjectNode().put("batch", spec.batch).put("input", spec.inputs(Side.Left).name)
    write(line.put("row", json(Side.Left, row)))
  }

  /**
   * A change of an arrangement that is older than what its key has, by the column with the time.
   */
  def addOlder(row: InternalRow): Unit = {
    val input = spec.inputs(Side.Left)
    val line = mapper.createObjectNode().put("batch", spec.batch).put("input", input.name)
    input.columns.headOption.foreach(line.put("column", _): ObjectNode)
    write(line.put("row", json(Side.Left, row)))
  }

  private def write(line: ObjectNode): Unit = {
    if (out == null) open()
    out.write(mapper.writeValueAsString(line))
    out.newLine()
  }

  private def json(side: Side, row: InternalRow): String = {
    generated.reset()
    generators(side).write(row)
    generators(side).flush()
    generated.toString
  }

  private def open(): Unit = {
    val folder = new Path(spec.folder)
    val operator = spec.join.fold("arrangement")(number => s"join-$number")
    val name = f"batch-${spec.batch}%010d-$operator-task-$partition.json"
    file = CheckpointFileManager
      .create(folder, hadoopConf)
      .createAtomic(new Path(folder, name), overwriteIfPossible = true)
    out = new BufferedWriter(new OutputStreamWriter(file, UTF_8))
  }

  def commit(): Unit = if (out != null) {
    out.close()
    out = null
  }

  /** After [[commit]], nothing. */
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

  /** Formats mean the same whatever the session has as `spark.sql.legacy.timeParserPolicy`. */
  private val defaults = new SQLConf
}
