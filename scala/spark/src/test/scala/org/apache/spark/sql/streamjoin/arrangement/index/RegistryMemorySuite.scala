package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.UUID

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.TaskContext
import org.apache.spark.sql.streamjoin.arrangement.Item
import org.apache.spark.sql.streamjoin.arrangement.storage.{BlockFile, BlockRef, Manifest}
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, IndexMemory}

/** The memory of the indexes of a process, and which of them goes first. */
class RegistryMemorySuite extends AnyFunSuite with IndexTest {

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
}
