package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path => NioPath}
import java.util.UUID

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.state.ExecutorMemory

/** The files of an arrangement: what is written is read, and what is damaged or gone has a name. */
class BlockFilesSuite extends AnyFunSuite {
  private def withFiles[T](body: ArrangementFiles => T): T = {
    val files = new ArrangementFiles
    try body(files)
    finally files.delete()
  }

  private def registry = new IndexRegistry(ExecutorMemory.Limit(new ExecutorMemory, Long.MaxValue))

  private def refused(body: => Any): Unit = {
    val error = intercept[Exception](body: Unit)
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_ARRANGEMENT_UNREADABLE"), error)
  }

  /** The checksum of Hadoop's local file system would find it first. */
  private def write(path: NioPath, bytes: Array[Byte]): Unit = {
    Files.write(path, bytes)
    Files.deleteIfExists(path.resolveSibling(s".${path.getFileName}.crc")): Unit
  }

  private val items = (0 until 200).map(n => Item(Some(n % 7), "name" * (n % 5), n.toLong) -> (n % 3 - 1))

  private def blockFile(files: ArrangementFiles): NioPath = {
    files.add(items)
    files.folder.resolve(files.files.manifest(0).changes.head.path)
  }

  test("rows of a file come back, with their copies, block by block") {
    withFiles { files =>
      files.add(items)
      val manifest = files.files.manifest(0)
      for (index <- 0 to 1) {
        val found = for {
          file <- manifest.changes
          block <- file.blocks if block.index == index
          bytes = BlockFiles.read(files.root, file.path, block, files.conf)
          at <- Iterator.iterate(0)(Block.next(bytes, _)).takeWhile(_ < bytes.length)
        } yield {
          val row = new UnsafeRow(3)
          Block.point(row, bytes, at)
          assert(files.rowKey(index).partition(row, files.partitions) == block.partition)
          Item.of(row) -> Block.copies(bytes, at)
        }
        assert(found.sortBy(_.toString) == items.sortBy(_.toString))
      }
      assert(manifest.changes.flatMap(_.blocks).map(_.rows).sum == 2 * items.size)
    }
  }

  test("large rows: a block is closed, and followed by another of the same partition") {
    withFiles { files =>
      val writer = new BlockFileWriter(files.root, "changes/0", 0, UUID.randomUUID(), files.conf)
      val random = new Random(1)
      val names = Seq(10, BlockFiles.LargestBlock / 2, BlockFiles.LargestBlock + 5000, 10, 100).map { size =>
        random.alphanumeric.take(50).mkString.padTo(size, 'x')
      }
      names.foreach(name => writer.add(0, 1, Item.row(Item(None, name, 1)), 1))
      val file = writer.commit().get
      assert(file.blocks.size == 2 && file.blocks.map(_.rows) == Seq(3, 2))
      val found = file.blocks.flatMap { block =>
        val bytes = BlockFiles.read(files.root, file.path, block, files.conf)
        assert(bytes.length == block.rawBytes)
        Iterator.iterate(0)(Block.next(bytes, _)).takeWhile(_ < bytes.length).map { at =>
          val row = new UnsafeRow(3)
          Block.point(row, bytes, at)
          Item.of(row).name
        }
      }
      assert(found == names)
    }
  }

  test("no rows, no file; a task that is given up leaves none") {
    withFiles { files =>
      def count = Option(files.folder.resolve("changes/0").toFile.listFiles).fold(0)(_.length)
      val empty = new BlockFileWriter(files.root, "changes/0", 0, UUID.randomUUID(), files.conf)
      assert(empty.commit().isEmpty && count == 0)
      empty.abort()
      val large = new BlockFileWriter(files.root, "changes/0", 1, UUID.randomUUID(), files.conf)
      large.add(0, 0, Item.row(Item(None, "x" * (BlockFiles.LargestBlock + 1), 1)), 1)
      assert(count > 0)
      large.abort()
      assert(count == 0)
    }
  }

  test("any damaged byte of a block is found") {
    withFiles { files =>
      val path = blockFile(files)
      val bytes = Files.readAllBytes(path)
      for (at <- bytes.indices by math.max(1, bytes.length / 40)) {
        write(path, bytes.updated(at, (bytes(at) ^ 0x10).toByte))
        refused((0 to 1).foreach(index => files.rows(registry, 0, index)))
      }
      write(path, bytes)
      assert(files.rows(registry, 0) == files.collections(0))
    }
  }

  test("a file that is cut, empty or gone") {
    withFiles { files =>
      val path = blockFile(files)
      val bytes = Files.readAllBytes(path)
      for (length <- Seq(bytes.length - 1, bytes.length / 2, 1, 0)) {
        write(path, bytes.take(length))
        refused((0 to 1).foreach(index => files.rows(registry, 0, index)))
      }
      Files.delete(path)
      refused(files.rows(registry, 0))
    }
  }

  test("a damaged byte, where the file system has checksums of its own") {
    withFiles { files =>
      val path = blockFile(files)
      val bytes = Files.readAllBytes(path)
      Files.write(path, bytes.updated(bytes.length / 2, (bytes(bytes.length / 2) ^ 1).toByte))
      refused((0 to 1).foreach(index => files.rows(registry, 0, index)))
    }
  }

  // Manifests.

  for (
    (name, text) <- Seq(
      "nothing" -> "",
      "no JSON" -> "garbage",
      "half of it" -> """{"version":1,"number":0,"query""",
      "no object" -> "[]",
      "nothing said" -> "{}",
      "another format" -> """{"version":99}""",
      "a version alone" -> """{"version":1}""",
      "numbers that are none" ->
        """{"version":1,"number":0,"query":"x","time":0,"since":0,"bases":[],"changes":[],"base_files":[],"counts":{}}""",
      "a block that is none" ->
        ("""{"version":1,"number":0,"query":"00000000-0000-0000-0000-000000000000","time":0,"since":0,"bases":[],""" +
          """"changes":[{"path":"changes/0/x","blocks":[[0,0]]}],"base_files":[],"counts":{}}""")
    )
  ) test(s"a manifest with $name in it") {
    withFiles { files =>
      files.add(items)
      files.write("versions/0", text)
      refused(files.rows(registry, 0))
      refused(files.files.manifest(0))
    }
  }

  test("a manifest that is gone") {
    withFiles { files =>
      (0 until 3).foreach(_ => files.add(items))
      Files.delete(files.folder.resolve("versions/1"))
      refused(files.rows(registry, 2))
      assert(files.files.manifestOf(1).isEmpty && files.files.newest == 2)
    }
  }

  // What it is.

  for (
    (name, text) <- Seq(
      "nothing" -> "",
      "no JSON" -> "garbage",
      "no object" -> "[]",
      "nothing said" -> "{}",
      "another format" -> """{"version":2}""",
      "a version alone" -> """{"version":1}""",
      "an id that is none" -> """{"version":1,"id":"x","schema":{},"keys":[],"partitions":1,"input":"append"}""",
      "no kind of input" ->
        ("""{"version":1,"id":"00000000-0000-0000-0000-000000000000","schema":{"type":"struct","fields":[]},""" +
          """"keys":[],"partitions":1,"input":"tables"}"""),
      "no schema" ->
        """{"version":1,"id":"00000000-0000-0000-0000-000000000000","schema":"int","keys":[],"partitions":1,"input":"append"}"""
    )
  ) test(s"a meta.json with $name in it") {
    withFiles { files =>
      files.write("meta.json", text)
      refused(files.files.meta)
    }
  }

  test("meta.json says all") {
    withFiles { files =>
      assert(files.files.meta == files.meta)
      val other = files.meta.copy(time = Some("value"), input = InputKind.Changelog, keys = Seq(Seq("key")))
      assert(ArrangementMeta.fromJson(other.toJson, "x") == other)
      // Who comes second finds what the first has written.
      files.files.create(other)
      assert(files.files.meta == files.meta)
    }
  }

  test("names and paths") {
    assert(ArrangementFolder.path("orders", Some("/data")).toString == "/data/orders")
    assert(ArrangementFolder.path("/a/orders", None).toString == "/a/orders")
    val error = intercept[Exception](ArrangementFolder.path("orders", None))
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_NO_ARRANGEMENTS_FOLDER"))
  }

  // Leases.

  test("a reader has one lease, the newest; another does not see it as its own") {
    withFiles { files =>
      val leases = new Leases(files.files)
      assert(leases.all.isEmpty)
      leases.renew("a", 3)
      leases.renew("b", 5)
      leases.renew("a", 4)
      leases.renew("a", 4)
      assert(leases.all.map(lease => lease.reader -> lease.version).toMap == Map("a" -> 4L, "b" -> 5L))
      leases.release("a")
      leases.release("never was")
      assert(leases.all.map(_.reader) == Seq("b"))
    }
  }

  test("while it is renewed the older one counts") {
    withFiles { files =>
      val leases = new Leases(files.files)
      leases.renew("a", 7)
      // As it is if the reader dies between the two steps.
      Files.createFile(files.folder.resolve("readers/a/9"))
      assert(leases.all.map(_.version) == Seq(7L))
      leases.renew("a", 9)
      assert(leases.all.map(_.version) == Seq(9L))
    }
  }

  test("a reader that comes, even to the version where it was, is not forgotten") {
    withFiles { files =>
      val leases = new Leases(files.files)
      def age(): Unit = Files.setLastModifiedTime(
        files.folder.resolve("readers/a/7"),
        java.nio.file.attribute.FileTime.fromMillis(1000)
      ): Unit
      leases.renew("a", 7)
      age()
      leases.renew("a", 7)
      leases.expire(olderThanMs = 5000)
      assert(leases.all.map(_.version) == Seq(7L))
      age()
      leases.expire(olderThanMs = 5000)
      assert(leases.all.isEmpty)
    }
  }

  test("a reader that comes back just before it is forgotten stays") {
    withFiles { files =>
      val leases = new Leases(files.files)
      leases.renew("a", 7)
      Files.setLastModifiedTime(
        files.folder.resolve("readers/a/7"),
        java.nio.file.attribute.FileTime.fromMillis(1000)
      )
      Files.createFile(files.folder.resolve("readers/a/9"))
      leases.expire(olderThanMs = 5000)
      assert(leases.all.map(_.reader) == Seq("a"))
    }
  }

  test("foreign files beside those of the arrangement do no harm") {
    withFiles { files =>
      (0 until 2).foreach(_ => files.add(items))
      files.write("versions/notes.txt", "x")
      files.write("readers/a/notes.txt", "x")
      files.write("readers/stray", "x")
      assert(files.files.versionNumbers == Seq(0L, 1L))
      assert(new Leases(files.files).all.isEmpty)
      assert(files.rows(registry, 1) == files.collections(1))
    }
  }
}
