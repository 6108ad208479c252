package org.apache.spark.sql.streamjoin.arrangement

import java.io.File
import java.nio.file.Files
import java.nio.file.attribute.FileTime
import java.time.{Duration, Instant}
import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.security.AccessControlException
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementState
import org.apache.spark.sql.streamjoin.arrangement.storage.LeaseFiles
import org.apache.spark.sql.streamjoin.joins.table.TableTest
import org.apache.spark.sql.streamjoin.{ArrangementTest, LocalFilesWithoutProcesses, SparkTest}

/** Readers that have nothing to read, and readers that may not write. */
class LeasesSuite extends AnyFunSuite with TableTest {
  import ArrangementTest._

  private def changes(it: Maintainer) = new Reader(newFolder())(
    spark.readStream.format("streamjoin").load(it.root).drop("_version")
  )

  private def keepingOneVersion(body: Maintainer => Any): Unit =
    withConf("spark.streamjoin.arrangements.minVersionsToRetain" -> "1") {
      val it = customers
      during(it)(body(it)): Unit
    }

  private def lookUp(it: Maintainer, options: Map[String, String] = Map.empty) = new Stream(orders =>
    timed(orders).join(table(it.root, options), expr("id = customer_id"), "left_outer").select("name", "item")
  )

  /** Adds a customer in a version of its own, for each id. */
  private def add(it: Maintainer, ids: Range): Unit = ids.foreach(id => it.feed(Row(id, "Ann", "insert")))

  testLong("running readers keep their leases while nothing changes, whatever a store makes of times") {
    withConf(
      "spark.streamjoin.arrangements.leaseAge" -> "2s",
      "spark.streamjoin.arrangements.minVersionsToRetain" -> "1",
      "fs.file.impl" -> classOf[TimelessFileSystem].getName,
      "fs.file.impl.disable.cache" -> "true"
    ) {
      val it = customers
      val streams = Seq(lookUp(it), lookUp(it, Map("rematch" -> "1 hour")))
      val reader = changes(it)
      during(it) {
        loaded(it)
        during((reader +: streams): _*) {
          reader.settle()
          streams.foreach(stream => assert(stream.add(Row(1, 1, "Desk"), Row(2, 3, "Lamp")).next.size == 2))
          val names = ArrangementState.of(it.folder).readers.map(_.id).toSet
          assert(names.size == 3)
          Thread.sleep(4000)
          // Its maintainer ends those that have not been renewed.
          add(it, 3 to 6)
          assert(ArrangementState.of(it.folder).readers.map(_.id).toSet == names)
          reader.settle()
          assert(reader.sum().size == 6)
          assert(streams.map(_.next) == Seq(Nil, Seq("Ann Lamp")))
        }
        Thread.sleep(2500)
        it.feed(Row(7, "Ann", "insert"))
        assert(ArrangementState.of(it.folder).readers.isEmpty, "they have stopped")
      }
    }
  }

  /** As if no lease had been renewed for longer than it lasts. */
  private def age(it: Maintainer): Unit = {
    val before = FileTime.from(Instant.now().minus(Duration.ofDays(8)))
    ArrangementTest.files(s"${it.root}/readers").foreach(Files.setLastModifiedTime(_, before))
  }

  test("a run keeps the lease of its reader, even if it finds nothing to read or repeats a batch") {
    keepingOneVersion { it =>
      add(it, 1 to 3)
      val reader = changes(it)
      def run() = during(reader)(reader.settle())
      run()
      age(it)
      run()
      add(it, 4 to 6)
      assert(it.folder.manifest(5).since == 2)
      run()
      age(it)
      SparkTest.forgetCommit(reader.checkpoint)
      run()
      add(it, 7 to 9)
      assert(it.folder.manifest(8).since == 2)
      run()
      assert(reader.sum().size == 9)
      val stream = lookUp(it)
      during(stream) {
        stream.add(Row(1, 1, "Desk")).settle()
        age(it)
        stream.replay()
        val renewed = new LeaseFiles(it.folder).all.filter(_.sinceMs > System.currentTimeMillis() - 60000)
        assert(renewed.map(_.version) == Seq(7), "that of the version before, for looking it up as well")
      }
    }
  }

  test("a lease of a version that was restored away keeps nothing") {
    keepingOneVersion { it =>
      add(it, 1 to 3)
      val leases = new LeaseFiles(it.folder)
      leases.renew("one of another line", 1, Some(UUID.randomUUID()))
      leases.renew("one of before there were ids", 2)
      add(it, 4 to 8)
      assert(it.folder.manifest(7).since == 2)
      leases.release("one of before there were ids")
      it.feed(Row(9, "Ann", "insert"))
      assert(it.folder.manifest(8).since == 7)
    }
  }

  test("a reader that comes to the version of its lease once more keeps it") {
    keepingOneVersion { it =>
      add(it, 1 to 2)
      val leases = new LeaseFiles(it.folder)
      leases.renew("holder", 1, Some(it.folder.manifest(1).id))
      add(it, 3 to 4)
      // It had read beyond, and then this number, before the arrangement was restored.
      leases.renew("reader", 9, Some(UUID.randomUUID()))
      leases.renew("reader", 3, Some(UUID.randomUUID()))
      assert(leases.all.filter(_.reader == "reader").map(_.version) == Seq(3))
      add(it, 5 to 7)
      assert(leases.isOfOther(leases.all.find(_.reader == "reader").get))
      leases.renew("reader", 3, Some(it.folder.manifest(3).id))
      assert(!leases.isOfOther(leases.all.find(_.reader == "reader").get))
      leases.release("holder")
      it.feed(Row(8, "Ann", "insert"))
      assert(it.folder.manifest(7).since == 3)
    }
  }

  testLong("the lease of a look-up has the id of its version, and keeps nothing of another one") {
    withConf("spark.streamjoin.arrangements.minVersionsToRetain" -> "1") {
      val it = customers
      val kinds = Seq(Map.empty[String, String], Map("rematch" -> "1 hour"), Map("asOf" -> "previous"))
      val streams = kinds.map(lookUp(it, _))
      def files =
        ArrangementTest.files(s"${it.root}/readers").filter(!_.getFileName.toString.startsWith("alive"))
      def ids = files.map(file => file.getFileName.toString.toLong -> Files.readString(file))
      during(it) {
        loaded(it)
        during(streams: _*)((3 to 5).foreach { id =>
          // The first batch sees a new version, the second one a table that has not changed.
          for (order <- Seq(id, id + 10)) {
            streams.foreach(_.add(Row(order, 1, "Desk")).settle())
            assert(files.size == kinds.size)
            assert(
              ids.forall { case (version, text) => text == it.folder.manifest(version).id.toString },
              ids
            )
          }
          it.feed(Row(id, "Ann", "insert"))
        })
        assert(ids.map(_._1).distinct == Seq(1))
        add(it, 6 to 7)
        assert(it.folder.manifest(5).since == 1)
        // As if they had read those versions before the arrangement was restored.
        files.foreach(SparkTest.overwrite(_, UUID.randomUUID().toString))
        it.restart()
        it.feed(Row(8, "Ann", "insert"))
        assert(it.folder.manifest(6).since == 5)
      }
    }
  }

  for (file <- Seq(classOf[DeniedFileSystem], classOf[ReadOnlyFileSystem]))
    test(s"readers that may not write say so, or read without a lease: ${file.getSimpleName}") {
      val it = customers
      during(it)(loaded(it))
      withConf("fs.file.impl" -> file.getName, "fs.file.impl.disable.cache" -> "true") {
        for (job <- Seq(changes(it), lookUp(it).add(Row(1, 1, "Desk")))) {
          val said = rejected("STREAMJOIN_ARRANGEMENT_LEASE")(during(job)(job.settle()))
          assert(said.contains("spark.streamjoin.arrangements.lease"))
        }
        assert(rowsOf(it.root) == Seq("1 John", "2 Frank"), "a batch needs no lease")
        withConf("spark.streamjoin.arrangements.lease" -> "optional") {
          val (reader, stream) = (changes(it), lookUp(it))
          during(reader, stream) {
            reader.settle()
            assert(reader.sum() == Map("1 John" -> 1L, "2 Frank" -> 1L))
            assert(stream.add(Row(1, 1, "Desk")).next == Seq("John Desk"))
          }
          assert(ArrangementState.of(it.folder).readers.isEmpty)
        }
      }
    }

  for (file <- Seq(classOf[DeniedFileSystem], classOf[ReadOnlyFileSystem]))
    test(s"what a user may not remove is named, and removed once he may: ${file.getSimpleName}") {
      val it = customers
      val reader = changes(it)
      during(it)(loaded(it))
      during(reader)(reader.settle())
      val name = ArrangementState.of(it.folder).readers.map(_.id).head
      def released() = spark.sql(s"SELECT * FROM sj_release_reader('${it.root}', '$name')").collect()
      def dropped() = spark.sql(s"SELECT * FROM sj_drop_arrangement('${it.root}', true)").collect()
      withConf("fs.file.impl" -> file.getName, "fs.file.impl.disable.cache" -> "true") {
        assert(rejected("STREAMJOIN_ARRANGEMENT_NOT_REMOVED")(released()).contains("readers"))
        assert(ArrangementState.of(it.folder).readers.map(_.id) == Seq(name))
        assert(rejected("STREAMJOIN_ARRANGEMENT_NOT_REMOVED")(dropped()).contains("readers"))
      }
      dropped()
      assert(!new File(it.root).exists())
    }
}

/** Ignores a time that is set, as an object store may. */
class TimelessFileSystem extends LocalFilesWithoutProcesses {
  override def setTimes(path: Path, modified: Long, accessed: Long): Unit = ()
}

/** Lets nobody write where leases are. */
class DeniedFileSystem extends HookedFileSystem {
  protected def isOfReaders(path: Path): Boolean = path.toString.contains("/readers")

  override protected def before(call: String, path: Path): Unit =
    if ((call == "make" || call == "create") && isOfReaders(path))
      throw new AccessControlException(s"Permission denied: $path")

  override def mkdirs(path: Path, permission: FsPermission): Boolean = {
    before("make", path)
    super.mkdirs(path, permission)
  }

  override def delete(path: Path, recursive: Boolean): Boolean =
    if (isOfReaders(path)) throw new AccessControlException(s"Permission denied: $path")
    else super.delete(path, recursive)
}

/** As a mount that cannot be written: the local file system only says that it made no folder. */
class ReadOnlyFileSystem extends DeniedFileSystem {
  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    !isOfReaders(path) && super.mkdirs(path, permission)

  override def mkdirs(path: Path): Boolean = !isOfReaders(path) && super.mkdirs(path)

  override def delete(path: Path, recursive: Boolean): Boolean =
    !isOfReaders(path) && super.delete(path, recursive)
}
