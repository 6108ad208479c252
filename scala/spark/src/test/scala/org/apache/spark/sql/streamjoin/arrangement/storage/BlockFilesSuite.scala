package org.apache.spark.sql.streamjoin.arrangement.storage

import java.nio.file.{Files, Path => NioPath}
import java.util.UUID

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.index.IndexRegistry
import org.apache.spark.sql.streamjoin.arrangement.{ArrangementFiles, Item}
import org.apache.spark.sql.streamjoin.state.ExecutorMemory

/**
 * The files of an arrangement: what is written can be read, and a damaged or missing file is
 * reported.
 */
class BlockFilesSuite extends AnyFunSuite {
  private def withFiles[T](body: ArrangementFiles => T): T = {
    val files = new ArrangementFiles
    try body(files)
    finally files.delete()
  }

  private def registry = new IndexRegistry(ExecutorMemory.Limit(new ExecutorMemory, Long.MaxValue))

  private def rejected(body: => Any): Unit = {
    val error = intercept[Exception](body: Unit)
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_ARRANGEMENT_UNREADABLE"), error)
  }

  private val items = (0 until 200).map(n => Item(Some(n % 7), "name" * (n % 5), n.toLong) -> (n % 3 - 1))

  private def blockFile(files: ArrangementFiles): NioPath = {
    files.add(items)
    files.folder.resolve(files.files.manifest(0).changes.head.path)
  }

  test("the rows of a file are read back with their copies, block by block") {
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

  test("large rows close a block and start another of the same partition") {
    withFiles { files =>
      val writer = new BlockFileWriter(files.root, "changes/0", 0, UUID.randomUUID(), files.conf)
      val random = new Random(1)
      val names = Seq(10, BlockFiles.LargestBlock / 2, BlockFiles.LargestBlock + 5000, 10, 100).map { size =>
        random.alphanumeric.take(50).mkString.padTo(size, 'x')
      }
      names.foreach(name => writer.add(0, 1, Item.row(Item(None, name, 1)), 1))
      val file = writer.commit().get
      assert(file.blocks.size == 2)
      assert(file.blocks.map(_.rows) == Seq(3, 2))
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

  test("a task without rows writes no file, and an aborted task leaves none") {
    withFiles { files =>
      def count = Option(files.folder.resolve("changes/0").toFile.listFiles).fold(0)(_.length)
      val empty = new BlockFileWriter(files.root, "changes/0", 0, UUID.randomUUID(), files.conf)
      assert(empty.commit().isEmpty)
      assert(count == 0)
      empty.abort()
      val large = new BlockFileWriter(files.root, "changes/0", 1, UUID.randomUUID(), files.conf)
      large.add(0, 0, Item.row(Item(None, "x" * (BlockFiles.LargestBlock + 1), 1)), 1)
      assert(count > 0)
      large.abort()
      assert(count == 0)
    }
  }

  test("a damaged byte is found anywhere in a block") {
    withFiles { files =>
      val path = blockFile(files)
      val bytes = Files.readAllBytes(path)
      for (at <- bytes.indices by math.max(1, bytes.length / 40)) {
        SparkTest.overwrite(path, bytes.updated(at, (bytes(at) ^ 0x10).toByte))
        rejected((0 to 1).foreach(index => files.rows(registry, 0, index)))
      }
      SparkTest.overwrite(path, bytes)
      assert(files.rows(registry, 0) == files.collections(0))
    }
  }

  test("a truncated, empty or missing file is rejected") {
    withFiles { files =>
      val path = blockFile(files)
      val bytes = Files.readAllBytes(path)
      for (length <- Seq(bytes.length - 1, bytes.length / 2, 1, 0)) {
        SparkTest.overwrite(path, bytes.take(length))
        rejected((0 to 1).foreach(index => files.rows(registry, 0, index)))
      }
      Files.delete(path)
      rejected(files.rows(registry, 0))
    }
  }

  test("a damaged byte that the file system's own checksum finds is reported the same way") {
    withFiles { files =>
      val path = blockFile(files)
      val bytes = Files.readAllBytes(path)
      Files.write(path, bytes.updated(bytes.length / 2, (bytes(bytes.length / 2) ^ 1).toByte))
      rejected((0 to 1).foreach(index => files.rows(registry, 0, index)))
    }
  }

  // Manifests.

  for (
    (name, text) <- Seq(
      "no text" -> "",
      "text that is not JSON" -> "garbage",
      "truncated JSON" -> """{"version":1,"number":0,"query""",
      "an array" -> "[]",
      "an empty object" -> "{}",
      "another format" -> """{"version":99}""",
      "only a version" -> """{"version":1}""",
      "an invalid query id" ->
        """{"version":1,"number":0,"query":"x","time":0,"since":0,"bases":[],"changes":[],"base_files":[],"counts":{}}""",
      "an invalid block" ->
        ("""{"version":1,"number":0,"query":"00000000-0000-0000-0000-000000000000","time":0,"since":0,"bases":[],""" +
          """"changes":[{"path":"changes/0/x","blocks":[[0,0]]}],"base_files":[],"counts":{}}""")
    )
  ) test(s"a manifest with $name in it is rejected") {
    withFiles { files =>
      files.add(items)
      files.write("versions/0", text)
      rejected(files.rows(registry, 0))
      rejected(files.files.manifest(0))
    }
  }

  test("a missing manifest is rejected") {
    withFiles { files =>
      (0 until 3).foreach(_ => files.add(items))
      Files.delete(files.folder.resolve("versions/1"))
      rejected(files.rows(registry, 2))
      assert(files.files.manifestOf(1).isEmpty)
      assert(files.files.newest == 2)
    }
  }

  // meta.json.

  for (
    (name, text) <- Seq(
      "no text" -> "",
      "text that is not JSON" -> "garbage",
      "an array" -> "[]",
      "an empty object" -> "{}",
      "another format" -> """{"version":2}""",
      "only a version" -> """{"version":1}""",
      "an invalid id" -> """{"version":1,"id":"x","schema":{},"keys":[],"partitions":1,"input":"append"}""",
      "an unknown kind of input" ->
        ("""{"version":1,"id":"00000000-0000-0000-0000-000000000000","schema":{"type":"struct","fields":[]},""" +
          """"keys":[],"partitions":1,"input":"tables"}"""),
      "a schema that is not a struct" ->
        """{"version":1,"id":"00000000-0000-0000-0000-000000000000","schema":"int","keys":[],"partitions":1,"input":"append"}"""
    )
  ) test(s"a meta.json with $name in it is rejected") {
    withFiles { files =>
      files.write("meta.json", text)
      rejected(files.files.meta)
    }
  }

  test("meta.json has all properties, and the first one that is written stays") {
    withFiles { files =>
      assert(files.files.meta == files.meta)
      val other = files.meta.copy(time = Some("value"), input = InputKind.Changelog, keys = Seq(Seq("key")))
      assert(ArrangementMeta.fromJson(other.toJson, "x") == other)
      // A second query finds what the first one wrote.
      files.files.create(other)
      assert(files.files.meta == files.meta)
    }
  }

  test("an arrangement is found by a name in the folder or by its path") {
    assert(ArrangementFolder.path("orders", Some("/data")).toString == "/data/orders")
    assert(ArrangementFolder.path("/a/orders", None).toString == "/a/orders")
    val error = intercept[Exception](ArrangementFolder.path("orders", None))
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_NO_ARRANGEMENTS_FOLDER"))
  }

  // Leases.

  test("a reader has one lease, at its newest version, and releases only its own") {
    withFiles { files =>
      val leases = new LeaseFiles(files.files)
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

  test("while a lease is renewed, its older version counts") {
    withFiles { files =>
      val leases = new LeaseFiles(files.files)
      leases.renew("a", 7)
      // As if the reader had died between the two steps.
      Files.createFile(files.folder.resolve("readers/a/9"))
      assert(leases.all.map(_.version) == Seq(7L))
      leases.renew("a", 9)
      assert(leases.all.map(_.version) == Seq(9L))
    }
  }

  test("a lease that is renewed at the same version does not expire") {
    withFiles { files =>
      val leases = new LeaseFiles(files.files)
      def age(): Unit = Files
        .list(files.folder.resolve("readers/a"))
        .forEach(Files.setLastModifiedTime(_, java.nio.file.attribute.FileTime.fromMillis(1000)): Unit)
      leases.renew("a", 7)
      age()
      leases.renew("a", 7)
      assert(leases.expire(olderThanMs = 5000).map(_.version) == Seq(7L))
      age()
      assert(leases.expire(olderThanMs = 5000).isEmpty)
      assert(leases.all.isEmpty)
    }
  }

  test("a lease that is renewed just before it expires stays") {
    withFiles { files =>
      val leases = new LeaseFiles(files.files)
      leases.renew("a", 7)
      Files.setLastModifiedTime(
        files.folder.resolve("readers/a/7"),
        java.nio.file.attribute.FileTime.fromMillis(1000)
      )
      Files.createFile(files.folder.resolve("readers/a/9"))
      assert(leases.expire(olderThanMs = 5000).map(_.reader) == Seq("a"))
    }
  }

  test("foreign files in the folder of an arrangement are ignored") {
    withFiles { files =>
      (0 until 2).foreach(_ => files.add(items))
      files.write("versions/notes.txt", "x")
      files.write("readers/a/notes.txt", "x")
      files.write("readers/stray", "x")
      assert(files.files.versionNumbers == Seq(0L, 1L))
      assert(new LeaseFiles(files.files).all.isEmpty)
      assert(files.rows(registry, 1) == files.collections(1))
    }
  }
}
