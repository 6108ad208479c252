package org.apache.spark.sql.streamjoin.arrangement

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => NioPath}
import java.util.UUID

import scala.util.Random

import com.fasterxml.jackson.databind.ObjectMapper
import com.github.luben.zstd.Zstd
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.index.{
  ArrangementRef,
  IndexRegistry,
  KeyIndex,
  LoadStats,
  LoadedBlock,
  ProbeResult
}
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  BaseRef,
  BlockBuilder,
  BlockFile,
  BlockFileWriter,
  InputKind,
  Manifest,
  RowKey,
  VersionId
}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A row of the index tests. */
final case class Item(key: Option[Int], name: String, value: Long)

object Item {
  val Schema: StructType =
    new StructType().add("key", IntegerType).add("name", StringType).add("value", LongType)
  private val toUnsafe = ThreadLocal.withInitial(() => UnsafeProjection.create(Schema))

  def row(item: Item): UnsafeRow =
    toUnsafe.get
      .apply(
        InternalRow(item.key.map(Int.box).orNull[Any], UTF8String.fromString(item.name), item.value)
      )
      .copy()

  def of(row: UnsafeRow): Item =
    Item(Option.when(!row.isNullAt(0))(row.getInt(0)), row.getUTF8String(1).toString, row.getLong(2))

  def random(random: Random, keys: Int): Item = Item(
    Option.when(random.nextInt(8) > 0)(random.nextInt(keys)),
    "n" * random.nextInt(3),
    random.nextInt(3).toLong
  )
}

/** A plain model of a collection: the number of copies of each row. */
object Model {
  type Collection = Map[Item, Long]

  def plus(collection: Collection, changes: Seq[(Item, Int)]): Collection =
    changes
      .foldLeft(collection) { case (sum, (item, copies)) =>
        sum.updated(item, sum.getOrElse(item, 0L) + copies)
      }
      .filter(_._2 != 0)

  /** Removes existing rows and adds others; sometimes removes more copies than there are. */
  def changes(random: Random, collection: Collection, keys: Int, most: Int): Seq[(Item, Int)] = {
    val present = collection.keys.toIndexedSeq
    Seq.fill(random.nextInt(most + 1)) {
      random.nextInt(10) match {
        case 0 => Item.random(random, keys) -> -(1 + random.nextInt(2))
        case n if n < 5 && present.nonEmpty =>
          val item = present(random.nextInt(present.size))
          item -> -math.max(1, collection(item).toInt)
        case n if n < 7 && present.nonEmpty => present(random.nextInt(present.size)) -> 1
        case _ => Item.random(random, keys) -> (1 + random.nextInt(2))
      }
    }
  }

  def sum(rows: Iterator[(Item, Int)]): Collection =
    rows.foldLeft(Map.empty[Item, Long]) { case (sum, (item, copies)) =>
      sum.updated(item, sum.getOrElse(item, 0L) + copies)
    }
}

/** A block in memory. */
final class MemoryBlock(val bytes: Array[Byte]) extends LoadedBlock {
  override def bytesInMemory: Array[Byte] = bytes
}

object MemoryBlock {
  def of(changes: Seq[(Item, Int)]): (LoadedBlock, Int) = {
    val builder = new BlockBuilder
    changes.foreach { case (item, copies) => builder.add(Item.row(item), copies) }
    (new MemoryBlock(Zstd.decompress(builder.compressed, builder.size)), builder.size)
  }
}

/**
 * The folder of an arrangement that a test writes without a query. Its keys are `key`, and `name`
 * with `value`.
 */
final class ArrangementFiles(val conf: Configuration = new Configuration()) {
  val folder: NioPath = Files.createTempDirectory("arrangement-")
  val root = new Path(folder.toUri)
  val keys: Seq[Seq[String]] = Seq(Seq("key"), Seq("name", "value"))
  val partitions = 2
  val meta: ArrangementMeta =
    ArrangementMeta(UUID.randomUUID(), Item.Schema, keys, partitions, InputKind.Updates, None)
  val ref: ArrangementRef = refOf(partitions)

  /** The arrangement for a reader with another number of partitions. */
  def refOf(partitions: Int): ArrangementRef =
    ArrangementRef(root.toString, meta.copy(partitions = partitions))

  /** The number of partitions with which the next versions are written. */
  var written: Int = partitions
  val query: UUID = UUID.randomUUID()
  private val mapper = new ObjectMapper()

  def files: ArrangementFolder = new ArrangementFolder(root, conf)
  write("meta.json", new String(meta.toJson, UTF_8))

  /** The rows of each version. */
  var collections: Vector[Model.Collection] = Vector.empty
  private var bases = Seq.empty[BaseRef]
  private var ids = Map.empty[Long, UUID]
  private var added = 0L

  def newest: Long = collections.size - 1L

  def rowKey(index: Int): RowKey = RowKey.of(meta, index)

  private def write(folder: String, rows: Seq[(Item, Int)]): Seq[BlockFile] = {
    // Two tasks, each with blocks for all partitions.
    val writers = Seq.tabulate(2)(new BlockFileWriter(root, folder, _, UUID.randomUUID(), conf))
    for (index <- keys.indices) {
      val key = rowKey(index)
      rows.zipWithIndex.foreach { case ((item, copies), at) =>
        val row = Item.row(item)
        writers(at % 2).add(index, key.partition(row, written), row, copies)
      }
    }
    writers.flatMap(_.commit())
  }

  /** Adds a version, and optionally a base of the one before. */
  def add(changes: Seq[(Item, Int)], base: Boolean = false, since: Long = 0): Unit = {
    val version = newest + 1
    added += 1
    val before = collections.lastOption.getOrElse(Map.empty[Item, Long])
    val baseFiles =
      if (base) write(s"bases/$version", before.toSeq.map { case (item, copies) => item -> copies.toInt })
      else Nil
    if (base) bases = Manifest.keptBases(bases :+ BaseRef(version - 1, version), since)
    collections :+= Model.plus(before, changes)
    val changeFiles = write(s"changes/$version", changes)
    put(
      Manifest(version, query, timeMs = added, since, written, bases, changeFiles, baseFiles, Map.empty)
        .copy(previous = ids.get(version - 1))
    )
  }

  /** Restores the state after a version. */
  def restore(version: Long): Unit = {
    files.remove(version + 1 to newest)
    collections = collections.take(version.toInt + 1)
    bases = bases.filter(_.manifest <= version)
    ids = ids.filter(_._1 <= version)
  }

  /** The newest version without what says which one it is, as an earlier release wrote it. */
  def forgetIds(): Unit = {
    val file = s"versions/$newest"
    val text = Files.readString(folder.resolve(file))
    write(file, text.replaceAll(",\"(id|previous)\":\"[^\"]*\"", ""))
    ids += newest -> files.manifest(newest).id
  }

  /** Removes the files with the changes of a version. */
  def removeChanges(version: Long): Unit =
    assert(files.fs.delete(new Path(root, s"${ArrangementFolder.Changes}/$version"), true))

  /** Removes the bases that the newest manifest does not keep. */
  def removeBases(): Unit = files.removeBases(files.baseNumbers.diff(bases.map(_.manifest)))

  def put(manifest: Manifest): Unit = {
    ids += manifest.version -> manifest.id
    val node = mapper.createObjectNode().put("version", Manifest.formatOf(manifest, partitions))
    Manifest.toJson(manifest, node)
    write(s"versions/${manifest.version}", mapper.writeValueAsString(node))
  }

  /** Writes any text to a file. */
  def write(file: String, text: String): Unit = {
    val path = folder.resolve(file)
    Files.createDirectories(path.getParent)
    SparkTest.overwrite(path, text)
  }

  /** The rows of a version in all partitions, read from the indexes of a registry. */
  def rows(
      registry: IndexRegistry,
      version: Long,
      index: Int = 0,
      low: Option[Long] = None,
      stats: LoadStats = new LoadStats
  ): Model.Collection =
    Model.sum((0 until partitions).iterator.flatMap { partition =>
      registry
        .get(ref, index, partition, low.getOrElse(version), idOf(version), conf, stats)
        .rowsOf(version)
        .map { case (row, copies) => Item.of(row) -> copies }
    })

  /** The id of a version; of one that is not there, some id. */
  def idOf(version: Long): VersionId =
    VersionId(version, ids.getOrElse(version, UUID.randomUUID()))

  /** The rows of a key, found in an index by the first key. */
  def find(index: KeyIndex, key: Option[Int], version: Long): Model.Collection = {
    val own = rowKey(0)
    val probe = new ProbeResult(Item.Schema.length, rowKey(0))
    val row = Item.row(Item(key, "", 0))
    index.find(row, own.hash(row), version, probe)
    Model.sum(Iterator.range(0, probe.size).map(i => Item.of(probe.row(i)) -> probe.copies(i)))
  }

  def delete(): Unit = JavaUtils.deleteRecursively(folder.toFile)
}
