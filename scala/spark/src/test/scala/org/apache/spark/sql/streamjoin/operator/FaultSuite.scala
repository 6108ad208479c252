package org.apache.spark.sql.streamjoin.operator

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
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalTest
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

/**
 * The file system of the checkpoint fails at every writing call in turn: the query fails, and after
 * a restart it emits the rows that it would have emitted.
 */
class FaultSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  private def r(id: String, time: String, v: Int): (String, Row) = "r" -> row(id, time, v)

  private val story: Seq[Seq[(String, Row)]] = Seq(
    Seq(o("a", "10:00", 1), o("b", "10:10", 2), d("a", "10:20", 3)),
    Seq(o("c", "10:30", 4), d("c", "10:40", 5), r("a", "10:45", 6), o("e", "12:00", 7), d("e", "12:30", 8)),
    // W(d) = 15:00 evicts orders before 14:00, W(r) = 15:00 their deliveries before 14:30.
    Seq(o("z", "15:00", 10), d("y", "15:00", 11), r("x", "15:00", 12)),
    // A new run does not start with a batch without data: if such a batch failed, this one emits
    // its rows.
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
   * Versions that come, go and wait, and an old one that no row needs: whether a row is late
   * depends on how its stream is cut into batches.
   */
  private val changes: Seq[Seq[(String, Row)]] = Seq(
    Seq(d("a", "10:00", 1), d("b", "10:00", 2), o("a", "10:05", 3), o("b", "10:10", 4)),
    Seq(d("a", "10:20", -1), d("b", "10:20", 5), o("a", "10:25", 6), o("b", "10:30", 7)),
    Seq(d("c", "09:00", 8), d("a", "11:00", 10)) ++ end("12:00"),
    end("12:00")
  )

  /** All rows, each batch once; every attempt at a batch must have the same rows. */
  private def rows(job: Job): Seq[String] =
    job.seen
      .groupBy(_.id)
      .map { case (id, attempts) =>
        assert(
          attempts.map(_.rows.sorted).distinct.size == 1,
          s"batch $id gave other rows when it ran again"
        )
        attempts.head.rows
      }
      .flatten
      .toSeq
      .sorted

  private def withFiles[T](body: => T): T =
    withConf(
      "spark.sql.streaming.checkpointFileManagerClass" -> classOf[FailingFiles].getName,
      // If the very first offsets cannot be written, the leftover file keeps Spark from restarting
      // there.
      "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart" -> "false",
      "spark.streamjoin.lateRows" -> "keep"
    )(
      try body
      finally FailingFiles.failAt(-1)
    )

  private var failure: Option[Throwable] = None

  /** A query and its input, batch by batch. */
  final private class Failing(make: () => Job, story: Seq[Seq[(String, Row)]]) {

    lazy val (expected, calls) = withFiles {
      FailingFiles.failAt(-1)
      running(make()) { job =>
        story.foreach(rows => job.feed(rows: _*))
        (rows(job), FailingFiles.calls)
      }
    }

    /** Feeds the rest of the story; returns whether all went well and how far it got. */
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
        // A call from the background may fail when all else is done.
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

  // A file takes four calls, so an odd step reaches every kind.
  private val step = if (SparkTest.isLong) 3 else 67

  for (
    (name, failing, groups) <- Seq(
      ("a chain of joins", joins, if (SparkTest.isLong) 12 else 4),
      ("a temporal join", new Failing(() => facts, changes), if (SparkTest.isLong) 6 else 2)
    );
    group <- 0 until groups
  )
    test(s"$name survives failing file calls, part ${group + 1} of $groups") {
      import failing.{calls, expected}
      assert(expected.size >= 4)
      assert(calls > 100, s"only $calls calls can fail")
      val some = group * step until calls by groups * step
      info(s"${some.size} of $calls calls")
      some.foreach(failing.at)
    }

  testLong("slow files do not change the output") {
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

/** Checkpoint files; one of the writing calls fails. */
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

  /** The call that failed. */
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
