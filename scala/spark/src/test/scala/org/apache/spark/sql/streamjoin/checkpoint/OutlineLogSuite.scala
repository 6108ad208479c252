package org.apache.spark.sql.streamjoin.checkpoint

import java.nio.file.{Files, Path}

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.types.StructType

/** Which rows an operator has kept after each batch, in the checkpoint. */
class OutlineLogSuite extends AnyFunSuite with SparkTest {

  private def outline(input: String, columns: String): OperatorOutline = {
    val stored = StructType.fromDDL(columns)
    val kept = InputOutline(Some("left"), input, stored, stored.size, Nil, Nil, Nil, Nil, Nil, false, false)
    OperatorOutline(0, "interval_join", "inner interval join", Seq("t"), Seq(kept))
  }

  test("an outline is known for as long as the state of its batches can be read") {
    val folder = Path.of(newFolder())
    val commits = Files.createDirectories(folder.resolve("commits"))
    val log = new OutlineLog(spark, new HadoopPath(folder.toString))
    def run(batches: Range, of: OperatorOutline): Unit = {
      log.record(of, batches.head.toLong)
      batches.foreach(batch => Files.createFile(commits.resolve(batch.toString)))
    }
    val (two, one, other) = (outline("o", "id INT, v INT"), outline("o", "id INT"), outline("o", "id STRING"))
    val renamed = outline("orders", "id INT")
    run(0 until 4, two)
    run(4 until 6, one)
    run(6 until 8, renamed)
    run(8 until 10, other)
    def known(batches: Int*) = batches.map(batch => log.after(batch.toLong).head)
    assert(known(3, 5, 7, 8) == Seq(two, renamed, renamed, other), "the latest name of the same rows")
    // A change that was abandoned.
    log.record(two, 10)
    log.record(other, 10)
    assert(known(3, 7, 10) == Seq(two, renamed, other))
    (0 until 5).foreach(batch => Files.delete(commits.resolve(batch.toString)))
    log.record(two, 10)
    assert(known(7, 9, 10) == Seq(renamed, other, two))
    assert(known(3) == Seq(renamed), "batch 3 is no longer kept")
  }
}
