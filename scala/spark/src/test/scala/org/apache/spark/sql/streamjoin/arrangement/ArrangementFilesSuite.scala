package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.Path

import scala.util.{Random, Try}

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.operator.FailingFiles
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}

/** The file system fails under the maintaining query of an arrangement and its reader. */
class ArrangementFilesSuite extends AnyFunSuite with ArrangementTest {
  import ArrangementTest._

  private val keys = Seq(Seq("id"), Seq("k"))
  private val random = new Random(3)

  /** Enough bytes for the next batch to write a base. */
  private def large(from: Int): Seq[Row] =
    Seq.tabulate(60)(i => Row(from + i, 50, ArrangementTest.randomText(random, 30000), "i"))

  private val story = Seq(
    Seq(Row(1, 1, "x", "i"), Row(2, 1, "x", "i")) ++ large(100),
    Seq(Row(1, 2, "x", "u"), Row(3, 2, "x", "i")),
    large(200),
    Seq(Row(2, 1, "x", "d")),
    Seq(Row(4, 9, "x", "i"))
  )

  /** The only call that fails in `make test`. */
  private val Middle = 200

  test("maintainer and reader recover from a file system failure at any call") {
    withConf(
      "fs.file.impl" -> classOf[FailingFileSystem].getName,
      "fs.file.impl.disable.cache" -> "true",
      "spark.sql.streaming.checkpointFileManagerClass" -> classOf[FailingFiles].getName,
      "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart" -> "false",
      "spark.streamjoin.arrangements.minVersionsToRetain" -> "1"
    ) {
      val expected = Map("1 2 1" -> 1L, "3 2 1" -> 1L)
      def run(call: Int): Int = {
        val it =
          maintainer("id INT, k INT, text STRING, op STRING", keys, op = Some("op"), root = newFolder("a"))
        val reader =
          deltaJoin(Seq("a" -> it, "b" -> it), "a.k = b.k AND b.id = 1", Seq("a.id", "a.k", "b.id AS o"))
        val jobs = Seq(it, reader)
        try {
          FailingFiles.failAt(call)
          def attempt(job: Job)(body: => Unit): Unit = {
            var failure = Try(body).failed.toOption
            var attempts = 0
            while (failure.nonEmpty) {
              attempts += 1
              assert(attempts < 5, s"call $call, ${FailingFiles.failed}: still failing with $failure")
              job.stop()
              failure = Try(job.start().settle()).failed.toOption
            }
          }
          attempt(it)(it.start(): Unit)
          story.zipWithIndex.foreach { case (rows, at) =>
            it.stream.addData(rows)
            attempt(it)(it.settle())
            // The reader needs a first version.
            if (at == 0) attempt(reader)(reader.start(): Unit)
            attempt(reader)(reader.settle())
          }
          val calls = FailingFiles.calls
          FailingFiles.failAt(-1)
          attempt(reader)(reader.settle())
          val small = rowsOf(it.root).filter(_.length < 100)
          assert(small == Seq("1 2 x", "3 2 x", "4 9 x"), s"call $call, ${FailingFiles.failed}")
          if (call < 0) {
            assert(numbers(it.root, "versions").head > 0, "the story removes no version")
            assert(numbers(it.root, "bases").nonEmpty, "the story writes no base")
          }
          assert(reader.sum() == expected, s"call $call, ${FailingFiles.failed}")
          calls
        } finally {
          FailingFiles.failAt(-1)
          jobs.foreach(_.stop())
        }
      }
      if (SparkTest.isLong) {
        val calls = run(-1)
        assert(calls > 60, s"only $calls calls can fail")
        val failing = 0 until calls by math.max(1, calls / 100)
        info(s"${failing.size} of $calls calls")
        failing.foreach(run)
      } else assert(run(Middle) > Middle, "no call has failed"): Unit
    }
  }
}

/** The local file system; [[FailingFiles]] counts its calls and fails one of them. */
class FailingFileSystem extends HookedFileSystem {
  override protected def before(call: String, path: HadoopPath): Unit = {
    // A reader polls for the next version an unknown number of times.
    val isPolling = call == "look at" && path.getParent.getName == "versions"
    if (call != "rename" && !isPolling && path.toString.contains("/a-"))
      FailingFiles.call(call, Path.of(path.toUri.getPath))
  }
}
