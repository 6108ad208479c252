package org.apache.spark.sql.streamjoin.files

import java.nio.file.{Files, Path => NioPath}

import scala.jdk.CollectionConverters._
import scala.util.Using

import jdk.jfr.Recording
import jdk.jfr.consumer.RecordingFile
import org.apache.hadoop.fs.LocalFileSystem
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing.{
  FileContextBasedCheckpointFileManager,
  FileSystemBasedCheckpointFileManager
}
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

/** Which file manager a query uses, and that a checkpoint can switch from one to another. */
class CheckpointFilesSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val setting = AtomicCheckpointFileManager.Setting
  private val ours = classOf[AtomicCheckpointFileManager].getName
  private val context = classOf[FileContextBasedCheckpointFileManager].getName
  private val system = classOf[FileSystemBasedCheckpointFileManager].getName
  private val rocksDb =
    "spark.sql.streaming.stateStore.providerClass" -> classOf[RocksDBStateStoreProvider].getName
  private val defaultStore = "spark.sql.streaming.stateStore.providerClass" ->
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

  /** The file system of users, which starts processes. */
  override protected def settings: Map[String, String] = Map(
    "spark.hadoop.fs.file.impl" -> classOf[LocalFileSystem].getName,
    "spark.hadoop.fs.file.impl.disable.cache" -> "true",
    "spark.sql.shuffle.partitions" -> "1"
  )

  private def withoutChoice[T](body: => T): T = {
    spark.conf.unset(setting)
    try body
    finally spark.conf.unset(setting)
  }

  /** Hadoop's checksums in a checkpoint; our file manager writes none. */
  private def checksums(job: Job): Seq[String] =
    Using.resource(Files.walk(NioPath.of(job.checkpoint)))(
      _.iterator.asScala.map(_.getFileName.toString).filter(_.matches("\\..*\\.crc")).toSeq
    )

  private def started(body: => Unit): Seq[String] = Using.resource(new Recording) { recording =>
    recording.enable("jdk.ProcessStart")
    recording.start()
    body
    recording.stop()
    val file = Files.createTempFile("streamjoin-", ".jfr")
    try {
      recording.dump(file)
      RecordingFile.readAllEvents(file).asScala.map(_.getString("command")).toSeq
    } finally Files.delete(file)
  }

  private val story = Seq(
    Seq(o("a", "10:00", 1), o("b", "10:10", 2), d("a", "10:20", 3)),
    Seq(o("c", "10:30", 4), d("b", "10:40", 5)),
    // W(d) = 12:30 evicts orders before 11:30.
    Seq(o("e", "12:00", 6), d("e", "12:30", 7)),
    // W(d) = 15:00 evicts orders before 14:00.
    Seq(o("z", "15:00", 8), d("y", "15:00", 9)),
    Seq(o("z", "15:00", 10), d("y", "15:00", 11)),
    // W(d) = 18:00 evicts orders before 17:00.
    Seq(o("x", "18:00", 12), d("x", "18:00", 13))
  )

  private def rows(job: Job): Seq[String] = job.seen.toSeq.flatMap(_.rows).sorted

  private lazy val expected = running(job(picked())) { job =>
    story.foreach(rows => job.feed(rows: _*))
    rows(job)
  }

  test("with the extension alone, a query starts no process for its checkpoint") {
    withoutChoice {
      // A first run, so that processes of starting Spark and loading classes are not counted.
      assert(expected.size >= 5)
      var done: Seq[String] = Nil
      val processes = started {
        done = running(job(picked())) { job =>
          story.foreach(rows => job.feed(rows: _*))
          assert(spark.conf.get(setting) == ours)
          assert(checksums(job).isEmpty)
          rows(job)
        }
      }
      // Spark may meanwhile remove the folder of a session that was garbage-collected.
      assert(processes.filterNot(_.contains("artifacts-")).isEmpty)
      assert(done == expected)
      // A process would be seen.
      assert(started(new ProcessBuilder("true").start().waitFor(): Unit).nonEmpty)
    }
  }

  testLong("a file manager that the user has chosen stays") {
    for (choice <- Seq(context, system)) withConf(setting -> choice)(running(job(picked())) { job =>
      job.feed(story.head: _*)
      assert(spark.conf.get(setting) == choice)
      assert(checksums(job).nonEmpty)
    })
  }

  testLong("with streamjoin disabled, Spark chooses the file manager, also after a query that used ours") {
    withoutChoice {
      withConf("spark.streamjoin.enabled" -> "false") {
        running(job(picked()))(_.feed(story.head: _*))
        assert(spark.conf.getOption(setting).isEmpty)
      }
      running(job(picked()))(_.feed(story.head: _*))
      assert(spark.conf.get(setting) == ours)
      withConf("spark.streamjoin.enabled" -> "false")(running(job(picked())) { job =>
        job.feed(story.head: _*)
        assert(checksums(job).nonEmpty)
      })
    }
  }

  test("a new session does not inherit the file manager") {
    withoutChoice {
      running(job(picked()))(_.feed(story.head: _*))
      assert(spark.newSession().conf.getOption(setting).isEmpty)
    }
  }

  /**
   * `make test` switches from one of Spark's two to ours with the default store; `make test-long`
   * from both with each store and format.
   */
  for {
    (store, provider, format) <- SparkTest.part(
      Seq(
        ("default store", defaultStore, "1"),
        ("RocksDB", rocksDb, "1"),
        // With Spark's own checksums.
        ("RocksDB, checkpoint format 2", rocksDb, "2")
      ),
      every = 3
    )
    (others, theirs) <- SparkTest.part(Seq("FileContext" -> context, "FileSystem" -> system), every = 2)
  } test(s"a checkpoint can switch from $others to our file manager and back, $store") {
    withConf(
      provider,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format,
      "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "2",
      "spark.sql.streaming.minBatchesToRetain" -> "2",
      "spark.sql.streaming.stateStore.maintenanceInterval" -> "100ms"
    ) {
      val job = this.job(picked())
      try
        for ((rows, at) <- story.zipWithIndex)
          withConf(setting -> (if (at % 2 == 0) theirs else ours)) {
            job.restart()
            job.feed(rows: _*)
          }
      finally job.stop()
      assert(rows(job) == expected)
    }
  }
}
