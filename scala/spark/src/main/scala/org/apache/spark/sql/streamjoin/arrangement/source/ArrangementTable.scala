package org.apache.spark.sql.streamjoin.arrangement.source

import java.util.concurrent.ConcurrentHashMap
import java.util.{EnumSet, Map => JMap, Set => JSet, UUID}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder}
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.maintain.{ArrangementWriteBuilder, MaintainingRun}
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  ChangeColumns,
  ChangedColumns,
  InputKind
}
import org.apache.spark.sql.streamjoin.base.OptionValues
import org.apache.spark.sql.types.{LongType, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.{DataFrame, SparkSession}

/**
 * `format("streamjoin")` with a name or a path: an arrangement. A batch query reads its rows at a
 * version, a stream its changes.
 */
private[streamjoin] object ArrangementProvider {
  def schema(options: CaseInsensitiveStringMap): StructType = {
    val meta = ArrangementOptions(options).open().current
    if (TableOptions.isTable(options)) TableOptions.columns(meta) else meta.schema
  }

  def table(schema: StructType, options: CaseInsensitiveStringMap): Table =
    new ArrangementTable(schema, ArrangementOptions(options).checked)
}

/** The options of an arrangement. */
final private[streamjoin] case class ArrangementOptions(options: CaseInsensitiveStringMap)
    extends OptionValues {
  import ArrangementOptions._

  lazy val root: Path = ArrangementFolder.root(
    text(PathOption).getOrElse(
      throw OptionValues
        .rejected(PathOption, "", "the name or the path of an arrangement: load(\"orders\")")
    )
  )

  def source: Option[String] = text(Source)

  /** Whether a SQL query refers to it by name. */
  def isByName: Boolean = options.getBoolean(ByName, false)

  def version: Option[Long] = number(VersionOption, 0)
  def maxVersions: Option[Long] = number(MaxVersions, 1)
  def maxRows: Option[Long] = number(MaxRows, 1)

  /** Checks all options, before a query starts. */
  def checked: this.type = {
    Seq(version, maxVersions, maxRows)
    TableOptions(this)(None): Unit
    if (TableOptions.isTable(options)) checkHasNoVersion("for a table that a stream looks up")
    else
      for (name <- TableOptions.ofLookUps; value <- text(name))
        throw OptionValues.rejected(
          name,
          value,
          s"no value without option(\"${TableOptions.Table}\", true), by which a stream looks up the table"
        )
    this
  }

  /** A reader that would ignore the version must not get one. */
  def checkHasNoVersion(reader: String): Unit = version.foreach { number =>
    throw OptionValues.rejected(
      VersionOption,
      number.toString,
      s"no value $reader: load(name) without other options reads a version"
    )
  }

  def open(): ArrangementFolder = ArrangementFolder.open(root)
}

private[streamjoin] object ArrangementOptions {
  val PathOption = "path"
  val VersionOption = "version"
  val ByName = "streamjoin.byName"
  val Source = "streamjoin.source"
  val MaxVersions = "maxVersionsPerTrigger"
  val MaxRows = "maxRowsPerTrigger"
}

/** An arrangement as a source of its rows, and as the sink of `sj.arrange`. */
private[streamjoin] class ArrangementTable(
    rows: StructType,
    val options: ArrangementOptions,
    known: ReaderMeta = new ReaderMeta
) extends Table
    with SupportsRead
    with SupportsWrite
    with ReportsSinkMetrics {

  override def name: String = s"streamjoin ${options.root.getName}"

  override def columns: Array[Column] = CatalogV2Util.structTypeToV2Columns(rows)

  override def capabilities: JSet[TableCapability] = EnumSet.of(
    TableCapability.BATCH_READ,
    TableCapability.MICRO_BATCH_READ,
    TableCapability.STREAMING_WRITE,
    TableCapability.ACCEPT_ANY_SCHEMA
  )

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => scan(false)

  protected def scan(changes: Boolean): Scan = {
    val ref = reference
    val meta = ref.meta
    if (types(rows) != types(meta.schema))
      throw OptionValues.rejected(
        "schema",
        rows.toDDL,
        s"the columns of the arrangement, ${meta.schema.toDDL}: leave schema(...) out"
      )
    new ArrangementScan(ref, options, changes, newest.getOrElse(new NewestVersion))
  }

  /** The arrangement, with the columns and the number of partitions of this reader. */
  def reference: ArrangementRef = ArrangementRef(options.root.toString, known.in(options.open(), rows))

  /** The newest version that its scans see; none if each scan determines its own. */
  def newest: Option[NewestVersion] = None

  /** A copy of the table whose scans all see the same newest version. */
  def at(shared: NewestVersion): ArrangementTable = new ArrangementTable(rows, options, known) {
    override def newest: Option[NewestVersion] = Some(shared)
  }

  private def types(of: StructType): StructType =
    StructType(of.map(field => StructField(field.name, field.dataType))).asNullable

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val folder = options.open()
    // In update mode, Spark sends the new row of a key without the old one.
    val hasOneRowByKey = folder.exists && folder.meta.input == InputKind.Changelog
    if (hasOneRowByKey)
      new ArrangementWriteBuilder(options.root, info, run) with SupportsStreamingUpdateAsAppend
    else new ArrangementWriteBuilder(options.root, info, run)
  }

  /** The run of the maintaining query; Spark creates one table for each run. */
  private[streamjoin] val run = new MaintainingRun

  /** Spark calls this at the end of each trigger, even if the trigger found no data. */
  override def metrics: JMap[String, String] = {
    run.endTrigger(options.open())
    run.written
      .fold(Map.empty[String, String]) { manifest =>
        Map("version" -> manifest.version, "since" -> manifest.since).map { case (name, value) =>
          name -> value.toString
        } ++ manifest.counts.map { case (name, count) => name -> count.toString }
      }
      .asJava
  }

  /** The table of changes, for streams. */
  def changes: ChangesTable = {
    options.checkHasNoVersion("in a stream, which begins with the existing rows")
    new ChangesTable(rows, options)
  }
}

/**
 * An arrangement as a reader sees it. The maintaining query may change columns and the number of
 * partitions; a reader keeps its columns, and the number that it has found first, so that its
 * indexes and its state do not move.
 */
final private[streamjoin] class ReaderMeta {
  private val known = new ConcurrentHashMap[UUID, ArrangementMeta]

  /** @param rows columns of the reader: those of the newest version, or of an earlier one */
  def in(folder: ArrangementFolder, rows: StructType): ArrangementMeta =
    known.computeIfAbsent(
      folder.meta.id,
      _ => {
        val newest = folder.current
        def isOwn(schema: StructType) = ChangedColumns.areSame(schema, rows)
        val schema = if (isOwn(newest.schema)) None else folder.schemas.reverseIterator.find(isOwn)
        val own = schema.getOrElse(newest.schema)
        // A key that was added later may have columns that the reader lacks.
        val keys = newest.keys.takeWhile(_.forall(own.fieldNames.contains))
        newest.copy(schema = own, keys = keys, addedKeys = keys.size - newest.firstKeys)
      }
    )
}

/**
 * The changes of an arrangement: its rows, with the version in which they were added or removed.
 */
final private[streamjoin] class ChangesTable(val rows: StructType, options: ArrangementOptions)
    extends ArrangementTable(rows, options) {
  override def columns: Array[Column] = CatalogV2Util.structTypeToV2Columns(ChangesTable.schema(rows))
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => scan(true)

  /**
   * Whether rows that were added may be removed, by a change or because of their age. Earlier
   * versions recorded only how many rows had expired.
   */
  def takesBack: Boolean = {
    val folder = options.open()
    folder.meta.input != InputKind.Appended || Option(folder.newest)
      .filter(_ >= 0)
      .map(folder.manifest)
      .fold(folder.meta.expires)(newest => newest.expires || newest.counts.getOrElse("expiredRows", 0L) > 0)
  }
}

private[streamjoin] object ChangesTable {

  /** The changes of an arrangement as a stream, distinct from its other streams in a query. */
  def stream(session: SparkSession, nameOrPath: String, options: Map[String, String]): DataFrame =
    session.readStream
      .format("streamjoin")
      .options(options)
      .option(ArrangementOptions.Source, UUID.randomUUID().toString)
      .load(nameOrPath)

  /** The option that distinguishes a stream from the others. */
  def sourceOf(relation: StreamingRelationV2): Option[String] = relation.table match {
    case table: ChangesTable => table.options.source
    case _ => None
  }

  /** The changes as another, distinct stream. */
  def again(relation: StreamingRelationV2): StreamingRelationV2 = relation.table match {
    case table: ChangesTable =>
      val options = new java.util.HashMap[String, String](table.options.options.asCaseSensitiveMap)
      options.remove(ArrangementOptions.Source.toLowerCase(java.util.Locale.ROOT))
      options.put(ArrangementOptions.Source, UUID.randomUUID().toString)
      val all = new CaseInsensitiveStringMap(options)
      relation.copy(
        table = new ChangesTable(table.rows, ArrangementOptions(all)),
        extraOptions = all,
        output = relation.output.map(_.newInstance())
      )
    case _ => relation
  }

  def schema(rows: StructType): StructType =
    rows
      .add(ChangeColumns.Version, LongType, nullable = false)
      .add(ChangeColumns.Diff, LongType, nullable = false)
}
