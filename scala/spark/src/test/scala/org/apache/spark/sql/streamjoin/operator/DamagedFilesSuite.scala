package org.apache.spark.sql.streamjoin.operator

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.{CheckpointTest, JoinTest, SparkTest}

/** Damaged or missing checkpoint files are rejected with an error class, and nothing is written. */
class DamagedFilesSuite extends AnyFunSuite with CheckpointTest {
  import JoinTest._

  /** The failure of a query that continues a checkpoint, with the rows of its batches. */
  private def failureOf(next: Job)(batches: Seq[(String, Row)]*): Exception = intercept[Exception] {
    try {
      next.start()
      batches.foreach(rows => next.feed(rows: _*))
    } finally next.stop()
  }

  for (
    (file, rows) <- Seq(
      ("keyed-watermarks/0", false),
      ("keyed-watermarks/1", true),
      ("stream-joins/0", true)
    );
    content <- SparkTest.part(Seq("", "no JSON", "{}", "[]", """{"version":99}"""), every = 2) ++
      // The format before the first release.
      Seq("""{"version":1,"the join type":"inner"}""").filter(_ => file.startsWith("stream-joins"))
  ) test(s"$file with ${if (content.isEmpty) "nothing" else content} in it is rejected") {
    val old = begun()
    // It was written before the batch, so the rows of the batch depend on it.
    val path = Path.of(old.checkpoint, file)
    assert(Files.exists(path), s"no $path")
    SparkTest.overwrite(path, content)
    val next = old.successor(picked())
    val before = listing(old)
    val batch = Seq(d("a", "10:30", 4))
    val error = if (rows) failureOf(next)(batch) else failureOf(next)(Nil, batch)
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_CHECKPOINT_UNREADABLE"), error)
    assert(SparkTest.messages(error).mkString.contains(file.takeWhile(_ != '/')))
    val changed = (listing(old).toSet -- before.toSet).map(_._1)
    assert(changed.forall(path => path.startsWith("offsets") || path.startsWith("sources")), s"$changed")
  }

  for (file <- Seq("keyed-watermarks/0", "stream-joins/0")) test(s"a missing $file is rejected") {
    val old = begun()
    val path = Path.of(old.checkpoint, file)
    SparkTest.remove(path)
    val next = old.successor(picked())
    val error = failureOf(next)(Seq(d("a", "10:30", 4)))
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_CHECKPOINT_UNREADABLE"), error)
    assert(
      SparkTest.messages(error).exists(message => message.contains(file) && message.contains("it is missing"))
    )
    assert(!Files.exists(path))
    assert(next.seen.isEmpty)
  }
}
