package org.apache.spark.sql.streamjoin.arrangement.index

import java.io.IOException
import java.util.UUID

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.source.SnapshotDiffReader
import org.apache.spark.sql.streamjoin.arrangement.storage.{Snapshot, VersionId}
import org.apache.spark.sql.streamjoin.arrangement.{Item, Model}

/** Which files indexes read, and what happens if reads fail or files are gone. */
class IndexFilesSuite extends AnyFunSuite with IndexTest {

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

  test("whether a version follows one far behind it is decided without the manifests between them") {
    withFiles(on(classOf[FileCalls])) { files =>
      (0 to 100).foreach(_ => files.add(Nil))
      val manifests = new ManifestCache(1, mostIds = 16)
      def follows(version: VersionId, earlier: VersionId) =
        manifests.isOrFollows(files.ref, version, earlier, files.files)
      FileCalls.count()
      for (_ <- 1 to 3) assert(follows(files.idOf(100), files.idOf(2)))
      assert(FileCalls.opened.count(_.getParent.getName == "versions") <= 6)
      assert(follows(files.idOf(100), files.idOf(95)))
      assert(!follows(files.idOf(100), VersionId(2, UUID.randomUUID())))
      val gone = files.idOf(100)
      files.restore(99)
      files.add(Nil)
      assert(!follows(gone, files.idOf(2)))
      assert(follows(files.idOf(100), files.idOf(2)))
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
}
