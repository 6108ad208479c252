package org.apache.spark.sql.streamjoin

import java.nio.file.{Files, Path}
import java.security.MessageDigest

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** Queries that have left something in their checkpoint. */
private[streamjoin] trait CheckpointTest extends JoinTest { this: AnyFunSuite =>
  import JoinTest._

  /** Every file and folder of the checkpoint, with a hash of its content. */
  protected def listing(job: Job): Map[String, String] = {
    val root = Path.of(job.checkpoint)
    val all = Files.walk(root).iterator().asScala.toSeq
    all.map { path =>
      val content =
        if (Files.isDirectory(path)) "folder"
        else
          MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(path)).map("%02x".format(_)).mkString
      root.relativize(path).toString -> content
    }.toMap
  }

  /** `start()` rejects a successor and leaves the checkpoint unchanged; returns the error. */
  protected def startError(old: Job, query: Streams => DataFrame): AnalysisException = {
    val before = listing(old)
    val next = old.successor(query)
    val error = intercept[AnalysisException] {
      try next.start()
      finally next.stop()
    }
    assert(listing(old) == before)
    error
  }

  /** The rows of the first batch. */
  protected val begin: Seq[(String, Row)] = Seq(o("a", "10:00", 1), o("b", "10:00", 2), d("c", "10:10", 3))

  /** A stopped query with rows in its state. */
  protected def begun(query: Streams => DataFrame = picked()): Job = {
    val old = job(query)
    try {
      old.start()
      old.feed(begin: _*)
    } finally old.stop()
    old
  }
}
