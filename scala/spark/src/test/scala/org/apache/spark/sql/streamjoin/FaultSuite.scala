package org.apache.spark.sql.streamjoin

import java.io.{FilterOutputStream, IOException, OutputStream}
import java.nio.file.{Path => NioPath}
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.streamjoin.files.NioFiles

/**
 * The file system of the checkpoint fails, at every call that writes in turn: the query fails, and
 * started again it gives the rows that it would have given.
 */
class FaultSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  private def r(id: String, time: String, v: Int): (String, Row) = "r" -> row(id, time, v)

  private val story: Seq[Seq[(String, Row)]] = Seq(
    Seq(o("a", "10:00", 1), o("b", "10:10", 2), d("a", "10:20", 3)),
    Seq(o("c", "10:30", 4), d("c", "10:40", 5), r("a", "10:45", 6), o("e", "12:00", 7), d("e", "12:30", 8)),
    Seq(o("z", "15:00", 10), d("y", "15:00", 11), r("x", "15:00", 12)),
    // Spark starts no batch without data in a new run: this one brings out what such a batch would
    // have, if that has failed.
    Seq(o("z", "15:00", 10), d("y", "15:00", 11), r("x", "15:00", 12))
  )

  private def chain: Job = job { streams =>
    hourly("left_outer")(streams)
      .join(
        streams.marked("r"),
        expr("r.id = d.id AND r.t BETWEEN d.t AND d.t + INTERVAL 30 MINUTES"),
        "left_outer"
      )
      .select(Seq("o.v", "d.v", "r.v").map(col): _*)
  }

  private def facts: Job = job(values(temporal()))

  /**
   * Versions that come, go and wait, and one that comes late for nobody: whether a row is late
   * depends on how its stream is cut.
   */
  private val changes: Seq[Seq[(String, Row)]] = Seq(
    Seq(d("a", "10:00", 1), d("b", "10:00", 2), o("a", "10:05", 3), o("b", "10:10", 4)),
    Seq(d("a", "10:20", -1), d("b", "10:20", 5), o("a", "10:25", 6), o("b", "10:30", 7)),
    Seq(d("c", "09:00", 8), d("a", "11:00", 10)) ++ end("12:00"),
    end("12:00")
  )

  /** All rows, each batch once; every attempt at a batch must have had the same. */
  private def rows(job: Job): Seq[String] =
    job.seen
      .groupBy(_.id)
      .map { case (id, attempts) =>
        assert(
          attempts.map(_.rows.sorted).distinct.size == 1,
          s"batch $id gave other rows when it was done again"
        )
        attempts.head.rows
      }
      .flatten
      .toSeq
      .sorted

  private def withFiles[T](body: => T): T =
    withConf(
      "spark.sql.streaming.checkpointFileManagerClass" -> classOf[FailingFiles].getName,
      // Where the very first offsets cannot be written, what is left of the file keeps Spark from
      // starting there again.
      "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart" -> "false",
      "spark.streamjoin.lateRows" -> "keep"
    )(
      try body
      finally FailingFiles.failAt(-1)
    )

  private var failure: Option[Throwable] = None

  /** A query and what it is fed, batch by batch. */
  final private class Failing(make: () => Job, story: Seq[Seq[(String, Row)]]) {

    lazy val (expected, calls) = withFiles {
      FailingFiles.failAt(-1)
      running(make()) { job =>
        story.foreach(rows => job.feed(rows: _*))
        (rows(job), FailingFiles.calls)
      }
    }

    /** Feeds what is left of the story; whether all went well, and how far it came. */
    private def survives(job: Job, from: Int): (Boolean, Int) = {
      var next = from
      val done = Try {
        while (next < story.size) {
          next += 1
          job.feed(story(next - 1): _*)
        }
        job.settle()
      }
      failure = done.failed.toOption
      (done.isSuccess, next)
    }

    def at(call: Int): Unit = withFiles {
      val job = make()
      try {
        FailingFiles.failAt(call)
        var (fine, next) = Try(job.start()).fold(_ => (false, 0), survives(_, 0))
        // One that is made in the background may come when all else is over.
        var attempts = 0
        while (!fine) {
          attempts += 1
          assert(attempts < 4, s"call $call, ${FailingFiles.failed}: still failing with $failure")
          job.stop()
          val again = survives(job.start(), next)
          fine = again._1
          next = again._2
        }
        assert(rows(job) == expected, s"call $call, ${FailingFiles.failed}")
      } finally job.stop()
    }
  }

  private val joins = new Failing(() => chain, story)

  // Of every four calls for a file, a step of eleven meets all kinds.
  private val step = if (SparkTest.isLong) 1 else 11

  for (
    (name, failing, groups) <- Seq(
      ("joins", joins, if (SparkTest.isLong) 12 else 4),
      ("a temporal join", new Failing(() => facts, changes), if (SparkTest.isLong) 6 else 2)
    );
    group <- 0 until groups
  )
    test(s"create, write, rename and close fail in turn, $name, part ${group + 1} of $groups") {
      import failing.{calls, expected}
      assert(expected.size >= 4 && calls > 100, s"$calls calls to let fail")
      val some = group * step until calls by groups * step
      info(s"${some.size} of $calls calls")
      some.foreach(failing.at)
    }

  test("slow files change nothing") {
    withFiles {
      FailingFiles.delay(millis = 15)
      try
        running(chain) { job =>
          story.foreach(rows => job.feed(rows: _*))
          assert(rows(job) == joins.expected)
        }
      finally FailingFiles.delay(millis = 0)
    }
  }
}

/** Files of a checkpoint; one of the calls that write them fails. */
class FailingFiles(root: Path, hadoopConf: Configuration) extends NioFiles(root, hadoopConf) {
  import FailingFiles.call

  override private[streamjoin] def create(file: NioPath): OutputStream = {
    call("create", file)
    new FailingOutput(super.create(file), file)
  }

  override private[streamjoin] def publish(temporary: NioPath, file: NioPath, overwrite: Boolean): Unit = {
    call("rename", file)
    super.publish(temporary, file, overwrite)
  }
}

final private class FailingOutput(out: OutputStream, path: NioPath) extends FilterOutputStream(out) {
  private var written = false
  private var closed = false

  override def write(bytes: Array[Byte], from: Int, length: Int): Unit = {
    if (!written) {
      written = true
      FailingFiles.call("write", path)
    }
    out.write(bytes, from, length)
  }

  override def close(): Unit = if (!closed) {
    closed = true
    out.close()
    FailingFiles.call("close", path)
  }
}

object FailingFiles {
  private val made = new AtomicInteger
  @volatile private var failing = -1
  @volatile private var pause = 0L

  /** What has failed. */
  @volatile var failed: String = "nothing"

  def calls: Int = made.get

  def failAt(call: Int): Unit = {
    made.set(0)
    failed = "nothing"
    failing = call
  }

  def delay(millis: Long): Unit = pause = millis

  private[streamjoin] def call(what: String, path: NioPath): Unit = {
    if (pause > 0) Thread.sleep(pause)
    if (made.getAndIncrement() == failing) {
      failed = s"$what ${path.getFileName}"
      throw new IOException(s"injected: $failed")
    }
  }
}
