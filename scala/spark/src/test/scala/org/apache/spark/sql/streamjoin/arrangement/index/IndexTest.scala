package org.apache.spark.sql.streamjoin.arrangement.index

import java.io.IOException
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementFiles, HookedFileSystem, Item, Model}
import org.apache.spark.sql.streamjoin.state.ExecutorMemory

/** Indexes of a process, over files that the test writes. */
trait IndexTest {
  protected val seeds = SparkTest.seeds(default = 1)
  protected val keys = 6

  protected def withFiles[T](conf: Configuration = new Configuration())(body: ArrangementFiles => T): T = {
    val files = new ArrangementFiles(conf)
    try body(files)
    finally files.delete()
  }

  protected def on(fileSystem: Class[_]): Configuration = {
    val conf = new Configuration()
    conf.set("fs.file.impl", fileSystem.getName)
    conf.setBoolean("fs.file.impl.disable.cache", true)
    conf
  }

  protected def registry(limit: Long = Long.MaxValue): IndexRegistry =
    new IndexRegistry(ExecutorMemory.Limit(new ExecutorMemory, limit))

  /** The index of a partition at a version. */
  protected def get(
      files: ArrangementFiles,
      indexes: IndexRegistry,
      index: Int,
      partition: Int,
      version: Long
  ) =
    indexes.get(files.ref, index, partition, version, files.idOf(version), files.conf, new LoadStats)

  protected def grow(
      files: ArrangementFiles,
      random: Random,
      versions: Int,
      bases: Boolean = true,
      most: Int = 12
  ): Unit =
    (0 until versions).foreach { _ =>
      val before = files.collections.lastOption.getOrElse(Map.empty[Item, Long])
      files.add(
        Model.changes(random, before, keys, most),
        base = bases && files.newest >= 0 && random.nextInt(6) == 0
      )
    }

  /** 30 versions with blocks that take some memory. */
  protected def addLarge(files: ArrangementFiles, random: Random): Unit = (0 until 30).foreach { at =>
    files.add(Seq.fill(40)(Item(Some(random.nextInt(keys)), "x" * 60, at.toLong) -> 1))
  }
}

/** The local file system, with the files and folders that are opened, listed and looked at. */
class FileCalls extends HookedFileSystem {
  override protected def before(call: String, path: Path): Unit = call match {
    case "open" => FileCalls.opens.add(path): Unit
    case "list" => FileCalls.lists.add(path): Unit
    case "look at" => FileCalls.looks.add(path): Unit
    case _ =>
  }
}

object FileCalls {
  private val opens = new ConcurrentLinkedQueue[Path]
  private val lists = new ConcurrentLinkedQueue[Path]
  private val looks = new ConcurrentLinkedQueue[Path]

  /** Begins to count. */
  def count(): Unit = {
    opens.clear()
    lists.clear()
    looks.clear()
  }

  def opened: Seq[Path] = opens.asScala.toSeq
  def listed: Seq[Path] = lists.asScala.toSeq
  def lookedAt: Seq[Path] = looks.asScala.toSeq
}

/** The local file system; one of the calls that open a file to read it fails. */
class FailingReads extends HookedFileSystem {
  override protected def before(call: String, path: Path): Unit = if (call == "open") {
    FailingReads.before(path)
    FailingReads.call(path)
  }
}

object FailingReads {
  private var calls = 0
  private var failing = -1

  /** Called with each path. */
  @volatile var before: Path => Unit = _ => ()

  def failAt(call: Int): Unit = synchronized {
    calls = 0
    failing = call
  }

  private def call(path: Path): Unit = synchronized {
    calls += 1
    if (calls - 1 == failing) throw new IOException(s"injected: open $path")
  }
}
