package org.apache.spark.sql.streamjoin.arrangement.index

import java.io.IOException
import java.util.UUID
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicReference

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.TaskContext
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.source.SnapshotDiffReader
import org.apache.spark.sql.streamjoin.arrangement.storage.{BlockFile, BlockRef, Manifest, RowKey, Snapshot}
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementFiles, HookedFileSystem, Item, Model}
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, IndexMemory}

/** The indexes of a process, over files that the test writes. */
class IndexRegistrySuite extends AnyFunSuite {
  private val seeds = SparkTest.seeds(default = 1)
  private val keys = 6

  private def withFiles[T](conf: Configuration = new Configuration())(body: ArrangementFiles => T): T = {
    val files = new ArrangementFiles(conf)
    try body(files)
    finally files.delete()
  }

  private def on(fileSystem: Class[_]): Configuration = {
    val conf = new Configuration()
    conf.set("fs.file.impl", fileSystem.getName)
    conf.setBoolean("fs.file.impl.disable.cache", true)
    conf
  }

  private def registry(limit: Long = Long.MaxValue): IndexRegistry =
    new IndexRegistry(ExecutorMemory.Limit(new ExecutorMemory, limit))

  /** The index of a partition at a version. */
  private def get(
      files: ArrangementFiles,
      indexes: IndexRegistry,
      index: Int,
      partition: Int,
      version: Long
  ) =
    indexes.get(files.ref, index, partition, version, files.idOf(version), files.conf, new LoadStats)

  private def grow(
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
  private def addLarge(files: ArrangementFiles, random: Random): Unit = (0 until 30).foreach { at =>
    files.add(Seq.fill(40)(Item(Some(random.nextInt(keys)), "x" * 60, at.toLong) -> 1))
  }

  private val limits = Seq("enough memory" -> Long.MaxValue, "little memory" -> 2000L, "no memory" -> 0L)

  for ((name, limit) <- SparkTest.part(limits, every = 3))
    test(s"versions can be read in any order, by each key, with $name") {
      for (seed <- 0 until seeds) withFiles() { files =>
        val random = new Random(seed)
        val indexes = registry(limit)
        grow(files, random, 10)
        for (step <- 0 until 25) {
          val high = random.nextInt(files.newest.toInt + 1).toLong
          val low = random.nextInt(high.toInt + 1).toLong
          val version = low + random.nextInt((high - low).toInt + 1)
          val index = random.nextInt(2)
          val found = Model.sum((0 until files.partitions).iterator.flatMap { partition =>
            indexes
              .get(files.ref, index, partition, low, files.idOf(high), files.conf, new LoadStats)
              .rowsOf(version)
              .map { case (row, copies) => Item.of(row) -> copies }
          })
          assert(found == files.collections(version.toInt), s"step $step, seed $seed")
          if (random.nextInt(3) == 0) grow(files, random, 1 + random.nextInt(3))
          if (random.nextInt(10) == 0) indexes.clear()
          if (random.nextInt(10) == 0) indexes.sweep(0, 0)
        }
        indexes.clear()
        assert(indexes.bytes == 0, s"seed $seed")
        assert(indexes.size == 0, s"seed $seed")
      }
    }

  for ((name, limit) <- SparkTest.part(limits.take(2), every = 2, from = 1))
    test(s"readers with any number of partitions read files with any other, with $name") {
      for (seed <- 0 until seeds) withFiles() { files =>
        val random = new Random(seed)
        val indexes = registry(limit)
        for (_ <- 0 until 6) {
          files.written = 1 + random.nextInt(8)
          grow(files, random, 1 + random.nextInt(3))
          for (of <- Seq(2, 1 + random.nextInt(8))) {
            val ref = files.refOf(of)
            val low = random.nextInt(files.newest.toInt + 1).toLong
            val index = random.nextInt(2)
            val key = files.rowKey(index)
            val found = Model.sum((0 until of).iterator.flatMap { partition =>
              val high = files.idOf(files.newest)
              val own = indexes.get(ref, index, partition, low, high, files.conf, new LoadStats)
              own.rowsOf(low).map { case (row, copies) =>
                assert(key.partition(row, of) == partition, s"$of partitions, seed $seed")
                Item.of(row) -> copies
              }
            })
            assert(found == files.collections(low.toInt), s"$of partitions, version $low, seed $seed")
            checkChanges(files, ref, low, indexes)
          }
          if (random.nextInt(3) == 0) indexes.clear()
        }
        indexes.clear()
        assert(indexes.bytes == 0, s"seed $seed")
      }
    }

  /** The changes after a version lead to the newest one. */
  private def checkChanges(
      files: ArrangementFiles,
      ref: ArrangementRef,
      low: Long,
      indexes: IndexRegistry
  ): Unit = {
    def snapshot(version: Long) = Snapshot(version, id = Some(files.idOf(version).id))
    val reader = new SnapshotDiffReader(ref, indexes, files.conf)
    val changes = (0 until ref.meta.partitions).flatMap { partition =>
      reader.changes(partition, snapshot(low), snapshot(files.newest)).map { change =>
        Item.of(change.row) -> change.copies.toInt
      }
    }
    assert(Model.plus(files.collections(low.toInt), changes) == files.collections.last)
  }

  test("a partition reads only the blocks that can have its rows, and has only its rows in memory") {
    withFiles() { files =>
      files.written = 4
      files.add((0 until 40).map(at => Item(Some(at), "", 0) -> 1))
      def loaded(of: Int, partition: Int = 0) = {
        val stats = new LoadStats
        registry().get(files.refOf(of), 0, partition, 0, files.idOf(0), files.conf, stats)
        (stats.rows, stats.bytes)
      }
      assert(loaded(1)._1 == 40)
      val (quarter, quarterBytes) = loaded(4)
      assert(quarter < 20)
      assert(loaded(8)._1 + loaded(8, 4)._1 == quarter)
      assert(loaded(8)._2 == quarterBytes, "a part of the same block")
      assert((0 until 3).map(loaded(3, _)._1).sum == 40)
      assert(loaded(3)._2 > quarterBytes)
    }
  }

  test("an executor reads each block once for all partitions of a reader") {
    withFiles() { files =>
      files.written = 4
      files.add((0 until 40).map(at => Item(Some(at), "", 0) -> 1))
      val (indexes, ref) = (registry(), files.refOf(7))
      def rows(partitions: Range) = partitions.map { partition =>
        indexes.get(ref, 0, partition, 0, files.idOf(0), files.conf, new LoadStats).rowsOf(0).size
      }.sum
      def changes() =
        new SnapshotDiffReader(ref, indexes, files.conf)
          .changes(6, Snapshot(0, id = Some(files.idOf(0).id)), Snapshot(1, id = Some(files.idOf(1).id)))
          .size
      val first = rows(0 to 0)
      files.removeChanges(0)
      assert(first + rows(1 to 6) == 40)
      indexes.sweep(0, 0)
      assert(indexes.bytes == 0)
      files.add((40 until 80).map(at => Item(Some(at), "", 0) -> 1))
      val read = changes()
      files.removeChanges(1)
      assert(changes() == read)
    }
  }

  test("an index advances by the changes, and is replaced if it cannot") {
    withFiles() { files =>
      val random = new Random(1)
      grow(files, random, 5, bases = false)
      val indexes = registry()
      def get(low: Long, high: Long) = {
        val stats = new LoadStats
        (indexes.get(files.ref, 0, 0, low, files.idOf(high), files.conf, stats), stats)
      }
      val (first, built) = get(2, 2)
      assert(built.rebuilt)
      assert(get(1, 2)._1.eq(first))
      val (next, advanced) = get(2, 4)
      assert(next.eq(first))
      assert(!advanced.rebuilt)
      assert(first.newest == 4)
      // A base, so that an index of the newest version need not start at the beginning.
      files.add(Nil, base = true)
      indexes.clear()
      val (later, _) = get(5, 5)
      assert(later.oldest == 4)
      val held = later.rowsOf(5).map { case (row, copies) => Item.of(row) -> copies }.toSeq
      val (earlier, rebuilt) = get(2, 3)
      assert(rebuilt.rebuilt)
      assert(earlier.ne(later))
      assert(earlier.covers(2, 5))
      // Tasks that hold the old index keep using it.
      assert(later.oldest == 4)
      assert(later.newest == 5)
      assert(later.rowsOf(5).map { case (row, copies) => Item.of(row) -> copies }.toSeq == held)
      assert(get(5, 5)._1.eq(earlier))
    }
  }

  test("the bytes that are counted are those that the indexes hold") {
    withFiles() { files =>
      val memory = new ExecutorMemory
      val indexes = new IndexRegistry(ExecutorMemory.Limit(memory, Long.MaxValue))
      grow(files, new Random(3), 6, bases = false, most = 40)
      files.rows(indexes, 2)
      val some = indexes.bytes
      files.rows(indexes, 5)
      assert(some > 0)
      assert(indexes.bytes > some)
      assert(memory.used == indexes.bytes)
      assert(indexes.size == files.partitions)
      val before = indexes.bytes
      files.rows(indexes, 5)
      assert(indexes.bytes == before)
      indexes.sweep()
      assert(indexes.size == files.partitions)
      indexes.sweep(idleNanos = 0)
      assert(indexes.size == 0)
      assert(indexes.bytes == 0)
      assert(memory.used == 0)
      assert(files.rows(indexes, 5) == files.collections(5))
      assert(indexes.bytes == before)
    }
  }

  test("an index stays while a task uses it, and the one that was used last stays longest") {
    withFiles() { files =>
      grow(files, new Random(13), 4, bases = false)
      val memory = new ExecutorMemory
      val indexes = new IndexRegistry(ExecutorMemory.Limit(memory, 0))
      def get(partition: Int) = this.get(files, indexes, 0, partition, 3)
      val task = TaskContext.empty()
      try {
        TaskContext.setTaskContext(task)
        get(0)
        get(0)
      } finally TaskContext.unset()
      get(1)
      assert(indexes.size == 2)
      indexes.sweep(idleNanos = 0, scarceNanos = 0)
      assert(indexes.size == 1, "the task is running")
      assert(get(0).covers(3, 3))
      task.markTaskCompleted(None)
      indexes.sweep(scarceNanos = 1L << 40)
      assert(indexes.size == 1, "it has just been used")
      indexes.sweep(scarceNanos = 0)
      assert(indexes.size == 0)
      assert(indexes.bytes == 0)
    }
  }

  test("while memory is scarce, indexes go in the order of their last use until there is room") {
    withFiles() { files =>
      grow(files, new Random(14), 6, bases = false, most = 40)
      val first = registry()
      def get(indexes: IndexRegistry, index: Int) = this.get(files, indexes, index, 0, 5)
      get(first, 0)
      val some = first.bytes
      get(first, 1)
      val memory = new ExecutorMemory
      val indexes = new IndexRegistry(ExecutorMemory.Limit(memory, first.bytes))
      get(indexes, 0)
      get(indexes, 1)
      indexes.sweep(scarceNanos = 0)
      assert(indexes.size == 2, "there is room")
      // Another index of the executor, as that of a join.
      new IndexMemory(Long.MaxValue, ExecutorMemory.Limit(memory, first.bytes)).add(some / 2)
      indexes.sweep(scarceNanos = 0)
      assert(indexes.size == 1, "the room of one is enough")
      val stats = new LoadStats
      indexes.get(files.ref, 1, 0, 5, files.idOf(5), files.conf, stats)
      assert(stats.rows == 0, "the one that was used last")
    }
  }

  test("with little memory, blocks are reread and the indexes stay within the limit") {
    withFiles() { files =>
      addLarge(files, new Random(4))
      val all = registry()
      assert(files.rows(all, 29) == files.collections(29))
      val limit = all.bytes / 3
      val little = registry(limit)
      for (_ <- 0 until 3) {
        assert(files.rows(little, 29) == files.collections(29))
        // The limit, and one block.
        assert(little.bytes <= limit + 20000, s"${little.bytes} of $limit, of ${all.bytes}")
      }
      val index = get(files, little, 0, 0, 29)
      (None +: (0 until keys).map(Some(_))).foreach { key =>
        val found = files.find(index, key, 29)
        assert(found.isEmpty || found == files.collections(29).filter(_._1.key == key))
      }
      little.clear()
      assert(little.bytes == 0)
    }
  }

  test("a version older than what is retained is rejected") {
    withFiles() { files =>
      grow(files, new Random(5), 6)
      files.add(Nil, base = true, since = 4)
      val indexes = registry()
      assert(files.rows(indexes, 6, low = Some(4)) == files.collections(6))
      indexes.clear()
      val error = intercept[Exception](files.rows(indexes, 6, low = Some(3)))
      assert(SparkTest.errorClass(error).contains("STREAMJOIN_ARRANGEMENT_RETENTION"), error)
      assert(files.rows(indexes, 6, low = Some(5)) == files.collections(6))
    }
  }

  /** Each read fails in turn and is retried. */
  test("after a failed read, the next attempt has each row once, and no memory stays counted") {
    val some = SparkTest.part(Seq(Long.MaxValue, 0L), every = 2)
    for (limit <- some) withFiles(on(classOf[FailingReads])) { files =>
      FailingReads.failAt(-1)
      val random = new Random(6)
      grow(files, random, 6, most = 30)
      // One index that exists and advances, and one that is new.
      for (
        begun <- Seq(true, false); call <- SparkTest.part(0 until 40, every = 8, from = if (begun) 1 else 0)
      ) {
        val indexes = registry(limit)
        if (begun) files.rows(indexes, 2)
        FailingReads.failAt(call)
        val failed =
          try {
            files.rows(indexes, 5, low = Some(2))
            false
          } catch { case error: IOException => error.getMessage.contains("injected") }
        FailingReads.failAt(-1)
        assert(files.rows(indexes, 5) == files.collections(5), s"call $call, begun: $begun, failed: $failed")
        assert(files.rows(indexes, 3, low = Some(2)) == files.collections(3))
        indexes.clear()
        assert(indexes.bytes == 0, s"call $call, begun: $begun, failed: $failed")
      }
    }
  }

  for (limit <- Seq(Long.MaxValue, 0L))
    test(s"an index is readable when its files are removed${if (limit == 0) ", and not in memory" else ""}") {
      withFiles() { files =>
        grow(files, new Random(7), 6, bases = false)
        val indexes = registry(limit)
        // Loaded at the newest version; the maintainer then writes its base and removes the files
        // before it.
        assert(files.rows(indexes, 5) == files.collections(5))
        files.add(Seq(Item(Some(1), "new", 1) -> 1), base = true, since = 5)
        files.files.remove(0L until 5L)
        assert(files.rows(indexes, 5) == files.collections(5))
        assert(files.rows(indexes, 6, low = Some(5)) == files.collections(6))
        indexes.clear()
        // The base of a version is named by the manifest after it.
        assert(files.rows(indexes, 5) == files.collections(5))
        assert(files.rows(indexes, 6, low = Some(5)) == files.collections(6))
      }
    }

  for (limit <- SparkTest.part(Seq(0L, Long.MaxValue, 2000L), every = 3, from = 1))
    test(s"bases between the oldest and the newest go, and each version can be read, with $limit bytes") {
      withFiles() { files =>
        val random = new Random(11)
        grow(files, random, 4, bases = false)
        val known = registry(limit)
        for (round <- 0 until 8) {
          val before = files.collections.last
          files.add(Model.changes(random, before, keys, 12), base = round % 2 == 0, since = 3)
          // One that was begun from a base that goes, and one that is new.
          for (indexes <- Seq(known, registry(limit)); version <- 3L to files.newest)
            assert(files.rows(indexes, version) == files.collections(version.toInt), s"$version in $round")
          files.removeBases()
          assert(files.files.baseNumbers.size <= 3, s"round $round")
          for (version <- files.newest to 3L by -1)
            assert(files.rows(known, version) == files.collections(version.toInt), s"$version in $round")
        }
        assert(files.files.baseNumbers == Seq(4L, 8L, 10L))
      }
    }

  test("a base that goes while an index is built from it is replaced by another") {
    withFiles(on(classOf[FailingReads])) { files =>
      FailingReads.failAt(-1)
      val random = new Random(12)
      grow(files, random, 4, bases = false)
      def add() = files.add(Model.changes(random, files.collections.last, keys, 12), base = true, since = 3)
      (0 until 3).foreach(_ => add())
      // Version 5 is built from the base of version 4, which the next version no longer keeps.
      var hasGone = false
      FailingReads.before = path =>
        if (path.toString.contains("/bases/5/") && !hasGone) {
          hasGone = true
          add()
          files.removeBases()
        }
      try assert(files.rows(registry(), 4) == files.collections(4))
      finally FailingReads.before = _ => ()
      assert(hasGone)
      assert(files.files.baseNumbers == Seq(4L, 6L, 7L))
    }
  }

  test("an index that is far behind is replaced if a later version has removed the files between") {
    for (isRemoving <- Seq(true, false)) withFiles() { files =>
      def add(base: Boolean = false, since: Long = 0): Unit =
        files.add(Seq.tabulate(8)(at => Item(Some(at), "x", files.newest) -> 1), base, since)
      (0 to 2).foreach(_ => add())
      val indexes = registry()
      files.rows(indexes, 0)
      // Version 4 still needs all of them; version 5 needs only the base of version 2.
      add(base = true)
      add()
      add(since = 3)
      // The manifest of a version is removed last.
      if (isRemoving) files.removeChanges(1) else files.files.remove(0L until 2L)
      for (_ <- 1 to 2) assert(files.rows(indexes, 4, low = Some(3)) == files.collections(4))
      assert(files.rows(indexes, 5, low = Some(3)) == files.collections(5))
      indexes.clear()
      assert(indexes.bytes == 0)
    }
  }

  test("indexes by different keys of one number are different") {
    withFiles() { files =>
      files.add((0 until 40).map(at => Item(Some(at), s"n${at % 7}", at.toLong) -> 1))
      val indexes = registry()
      // As if a query had failed before its first version, and had then continued with another key.
      for (added <- Seq("name", "value")) {
        val meta = files.meta.copy(keys = files.keys :+ Seq(added), addedKeys = 1)
        val key = RowKey.of(meta, 2)
        val ref = ArrangementRef(files.root.toString, meta)
        val found = (0 until files.partitions).map { partition =>
          val own = indexes.get(ref, 2, partition, 0, files.idOf(0), files.conf, new LoadStats)
          own.rowsOf(0).count { case (row, _) => key.partition(row, files.partitions) == partition }
        }
        assert(found.sum == 40, added)
      }
    }
  }

  test("the newest of many versions is found without a list, and without looking for each") {
    withFiles(on(classOf[FileCalls])) { files =>
      (0 to 300).foreach(version => files.write(s"versions/$version", ""))
      val folder = files.files
      for (known <- 0 to 300) {
        FileCalls.count()
        assert(folder.newestFrom(known.toLong) == 300)
        assert(FileCalls.listed.isEmpty)
        assert(FileCalls.lookedAt.size <= 50, known)
      }
      assert(folder.newestFrom(301) == 300)
    }
  }

  test("an index stays readable when its files are removed before memory gets scarce") {
    withFiles() { files =>
      grow(files, new Random(7), 6, bases = false)
      val all = registry()
      files.rows(all, 5)
      val indexes = registry(all.bytes)
      assert(files.rows(indexes, 5) == files.collections(5))
      files.add(Seq(Item(Some(1), "new", 1) -> 1), base = true, since = 5)
      files.files.remove(0L until 5L)
      // The index advances from its old blocks, and the next index needs their memory.
      assert(files.rows(indexes, 6, low = Some(5)) == files.collections(6))
      withFiles() { others =>
        grow(others, new Random(8), 6, bases = false)
        assert(others.rows(indexes, 5) == others.collections(5))
        assert(files.rows(indexes, 6, low = Some(5)) == files.collections(6))
        assert(others.rows(indexes, 5) == others.collections(5))
      }
    }
  }

  if (SparkTest.isLong)
    test("each manifest is read once, however many partitions are as many versions behind") {
      withFiles(on(classOf[FileCalls])) { files =>
        val random = new Random(13)
        grow(files, random, 2, bases = false)
        val indexes = registry()
        for (index <- 0 until 2) files.rows(indexes, 1, index)
        // The last version again, without changes.
        (0 until 600).foreach(_ => files.add(Nil))
        FileCalls.count()
        val tasks =
          Seq.tabulate(2)(index => new Thread(() => assert(files.rows(indexes, 601, index).nonEmpty)))
        tasks.foreach(_.start())
        tasks.foreach(_.join())
        val reader = new SnapshotDiffReader(files.ref, indexes, files.conf)
        val end = Snapshot(601, id = Some(files.idOf(601).id))
        val changes = (0 until files.partitions).flatMap(reader.changes(_, Snapshot(1), end))
        assert(changes.isEmpty)
        assert(FileCalls.opened.filter(_.getParent.getName == "versions").distinct.size == 600)
        assert(FileCalls.opened.count(_.getParent.getName == "versions") == 600)
      }
    }

  test("the manifests of a long line are read once, even if they do not fit among recent ones") {
    withFiles(on(classOf[FileCalls])) { files =>
      (0 to 300).foreach(_ => files.add(Nil))
      val manifests = new ManifestCache(1)
      def versions(from: Long, to: Long) =
        manifests.line(files.ref, from, files.idOf(to), files.files).map(_.version)
      FileCalls.count()
      for (_ <- 1 to 3) assert(versions(1, 300) == (1L to 300L))
      assert(FileCalls.opened.count(_.getParent.getName == "versions") == 300)
      // Another line, and a short one.
      assert(versions(2, 300) == (2L to 300L))
      assert(versions(299, 300) == (299L to 300L))
      files.restore(299)
      files.add(Nil)
      assert(versions(1, 300) == (1L to 300L))
      assert(manifests.line(files.ref, 1, files.idOf(300), files.files).last.id == files.idOf(300).id)
    }
  }

  test("recently read manifests are kept while they fit") {
    val files = Seq(BlockFile("file", Seq.fill(1000)(BlockRef(0, 0, 0, 1, 1, 1, 0))))
    def manifest(version: Int, changes: Seq[BlockFile]) =
      Manifest(version.toLong, UUID.randomUUID(), 0, 0, 1, Nil, changes, Nil, Map.empty)
    def key(version: Int) = ("root", new UUID(0, 0), version.toLong)
    val size = RecentManifests.sizeOf(manifest(0, files))
    assert(RecentManifests.sizeOf(manifest(0, Nil)) < size / 20)
    val recent = new RecentManifests(100 * size)
    (0 until 300).foreach(version => recent.put(key(version), manifest(version, files)))
    assert((0 until 300).filter(version => recent.get(key(version)).isDefined) == (200 until 300))
    // Replaced, not counted twice.
    (0 until 300).foreach(_ => recent.put(key(299), manifest(299, files)))
    assert(recent.get(key(200)).isDefined)
    val tiny = new RecentManifests(1)
    (0 until 300).foreach(version => tiny.put(key(version), manifest(version, files)))
    assert(tiny.get(key(299)).isDefined)
    assert(tiny.get(key(200)).isEmpty)
  }

  test("once memory suffices again, nothing is looked for and blocks are in memory") {
    withFiles(on(classOf[FileCalls])) { files =>
      addLarge(files, new Random(14))
      val all = registry()
      files.rows(all, 29)
      val limit = ExecutorMemory.Limit(new ExecutorMemory, all.bytes * 3 / 2)
      val indexes = new IndexRegistry(limit)
      def rows() = assert(files.rows(indexes, 29) == files.collections(29))
      // Whether there are newer versions.
      def looks() = {
        FileCalls.count()
        rows()
        assert(!FileCalls.listed.exists(_.getName == "versions"))
        FileCalls.lookedAt.count(_.getName == "30")
      }
      rows()
      assert(looks() == 0)
      assert(FileCalls.opened.isEmpty)
      // Something else needs the memory.
      val other = new IndexMemory(Long.MaxValue, limit)
      other.add(limit.limit)
      assert(looks() == files.partitions)
      // It is there again.
      other.close()
      assert(looks() <= files.partitions)
      for (_ <- 1 to 3) {
        assert(looks() == 0)
        assert(FileCalls.opened.isEmpty, "blocks are not read again")
      }
    }
  }

  test("a version whose files were removed is rejected as no longer retained") {
    withFiles() { files =>
      grow(files, new Random(9), 6, bases = false)
      files.add(Nil, base = true, since = 5)
      files.files.remove(0L until 5L)
      for ((low, high) <- Seq((3L, 3L), (3L, 6L), (0L, 0L), (4L, 5L))) {
        val error = intercept[Exception](files.rows(registry(), high, low = Some(low)))
        assert(SparkTest.errorClass(error).contains("STREAMJOIN_ARRANGEMENT_RETENTION"), s"$low $high")
      }
      assert(files.rows(registry(), 6, low = Some(5)) == files.collections(6))
    }
  }

  test("tasks can read different versions at the same time") {
    for (seed <- 0 until seeds) withFiles() { files =>
      val random = new Random(seed)
      grow(files, random, 20)
      val indexes = registry(if (seed % 2 == 0) Long.MaxValue else 3000L)
      val failure = new AtomicReference[Throwable]
      val tasks = Seq.tabulate(4)(task =>
        new Thread(() =>
          try
            for (version <- (task % 2 * 5) to 19)
              assert(
                files.rows(indexes, version, low = Some(math.max(0, version - 1))) ==
                  files.collections(version),
                s"version $version, seed $seed"
              )
          catch { case error: Throwable => failure.set(error) }
        )
      )
      tasks.foreach(_.start())
      tasks.foreach(_.join())
      Option(failure.get).foreach(error => fail(s"seed $seed", error))
      indexes.clear()
      assert(indexes.bytes == 0, s"seed $seed")
    }
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
