package org.apache.spark.sql.streamjoin.arrangement

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.util.{Map => JMap}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SPARK_VERSION
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.Row
import org.apache.spark.sql.connector.read.streaming.ReadLimit
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.source.{ArrangementOptions, ArrangementStream, RunVersions}
import org.apache.spark.sql.streamjoin.arrangement.storage.Snapshot
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Queries over files that are damaged, missing, in another format or of another arrangement. */
class DamagedArrangementsSuite extends AnyFunSuite with ArrangementTest {
  import ArrangementTest._

  private val random = new Random(7)

  private def orders(root: String = newFolder("a")) =
    maintainer("id INT, k INT, op STRING", Seq(Seq("id"), Seq("k")), op = Some("op"), root = root)

  private def selfJoin(it: Maintainer, options: Map[String, String] = Map.empty) =
    deltaJoin(Seq("x" -> it, "y" -> it), "x.k = y.k", Seq("x.id", "y.id AS other"), options)

  private def rewrite(path: Path)(change: String => String): Unit = {
    val text = new String(Files.readAllBytes(path), UTF_8)
    val changed = change(text)
    assert(changed != text, s"nothing to change in $text")
    SparkTest.overwrite(path, changed)
  }

  private def otherFormat(text: String) = text.replaceFirst(""""version"\s*:\s*1""", "\"version\":99")

  private def changesOf(it: Maintainer, version: Int): Path =
    Path.of(it.root, it.folder.manifest(version.toLong).changes.head.path)

  private val damages = Seq[(String, Maintainer => Path, Path => Unit)](
    ("meta.json in another format", it => Path.of(it.root, "meta.json"), rewrite(_)(otherFormat)),
    ("a truncated meta.json", it => Path.of(it.root, "meta.json"), rewrite(_)(text => text.take(40))),
    ("a manifest in another format", it => Path.of(it.root, "versions", "1"), rewrite(_)(otherFormat)),
    ("a truncated manifest", it => Path.of(it.root, "versions", "1"), rewrite(_)(text => text.take(40))),
    ("a missing file of changes", changesOf(_, 1), Files.delete(_)),
    (
      "a truncated file of changes",
      changesOf(_, 1),
      path => SparkTest.overwrite(path, Files.readAllBytes(path).take(3))
    )
  )

  for ((name, file, damage) <- SparkTest.part(damages, every = 4))
    test(s"$name: maintainer, reader and new reader name the file, and nothing is written") {
      val it = orders()
      val reader = selfJoin(it)
      during(it) {
        it.feed(Row(1, 1, "i"))
        during(reader)(reader.settle())
        it.feed(Row(2, 1, "i"), Row(3, 1, "i"))
      }
      forgetIndexes()
      val path = file(it)
      val bytes = Files.readAllBytes(path)
      damage(path)
      def fails(body: => Any): Unit = {
        val said = rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE")(body)
        assert(said.contains(path.getFileName.toString), said)
      }
      it.stream.addData(Row(1, 2, "u"), Row(2, 2, "u"), Row(3, 2, "u"))
      fails(during(it)(it.settle()))
      reader.batches.clear()
      fails(during(reader)(reader.settle()))
      fails {
        val anew = selfJoin(it)
        during(anew)(anew.settle())
      }
      fails(rowsOf(it.root))
      assert(numbers(it.root, "versions") == Seq(0, 1))
      assert(reader.batches.isEmpty)

      // With the file restored, all of them resume.
      SparkTest.overwrite(path, bytes)
      during(it, reader) {
        it.settle()
        reader.settle()
        assert(rowsOf(it.root) == Seq("1 2", "2 2", "3 2"))
      }
    }

  test("a read that needs a missing base names the file") {
    val wide = maintainer("id INT, name STRING", Seq(Seq("id")))
    during(wide) {
      def large(from: Int) =
        wide.feed(Seq.tabulate(60)(i => Row(from + i, ArrangementTest.randomText(random, 30000))): _*)
      large(0)
      large(100)
      wide.feed(Row(1000, "x"))
      val bases = files(s"${wide.root}/bases")
      assert(bases.nonEmpty)
      bases.foreach(Files.delete)
      forgetIndexes()
      val said = rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE")(rowsOf(wide.root))
      assert(bases.exists(base => said.contains(base.getFileName.toString)))
    }
  }

  test("a description that is missing is not written again, and the rest can be dropped") {
    val it = orders()
    during(it)(it.feed(Row(1, 1, "i")))
    // As if drop had failed.
    SparkTest.remove(Path.of(it.root, "meta.json"))
    assert(rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE")(orders(it.root).start()).contains("meta.json"))
    assert(!it.folder.exists)
    spark.sql(s"SELECT * FROM sj_drop_arrangement('${it.root}', false)").collect()
    val again = orders(it.root)
    during(again)(again.feed(Row(2, 1, "i")))
    assert(rowsOf(it.root) == Seq("2 1"))
  }

  test("deleting an arrangement fails its running reader with its own error") {
    val it = orders()
    val reader = selfJoin(it)
    during(it, reader) {
      it.feed(Row(1, 1, "i"))
      it.feed(Row(2, 1, "i"))
      reader.settle()
      it.stop()
      JavaUtils.deleteRecursively(Path.of(it.root).toFile)
      rejected("STREAMJOIN_NO_ARRANGEMENT")(reader.settle())
      assert(reader.sum() == Map("1 1" -> 1L, "1 2" -> 1L, "2 1" -> 1L, "2 2" -> 1L))
    }
  }

  for (versions <- Seq(1, 4))
    test(s"a running reader notices that another arrangement took its place, with $versions versions") {
      val it = orders()
      val options = ArrangementOptions(new CaseInsensitiveStringMap(JMap.of("path", it.root)))
      def feed(job: Maintainer, versions: Int): Unit =
        during(job)((0 until versions).foreach(id => job.feed(Row(id, 1, "i"))))
      feed(it, 2)
      val ref = ArrangementRef(it.root, it.folder.meta)
      val stream = new ArrangementStream(ref, options, newFolder(), () => null)(RunVersions.of(ref, _))
      val seen = stream.latestOffset(stream.initialOffset, ReadLimit.allAvailable())
      assert(Snapshot.of(seen).version == 1)
      JavaUtils.deleteRecursively(Path.of(it.root).toFile)
      feed(orders(it.root), versions)
      rejected("STREAMJOIN_ARRANGEMENT_REPLACED")(stream.latestOffset(seen, ReadLimit.allAvailable()))
    }

  test("an arrangement that another version of Spark began can be continued") {
    val it = orders()
    during(it)(it.feed(Row(1, 1, "i")))
    rewrite(Path.of(it.root, "meta.json"))(_.replace(SPARK_VERSION, "9.9.9"))
    during(it) {
      it.feed(Row(2, 1, "i"))
      assert(rowsOf(it.root) == Seq("1 1", "2 1"))
    }
  }
}
