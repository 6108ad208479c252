package org.apache.spark.sql.streamjoin.watermark

import java.nio.file.{Files, Path}

import scala.collection.mutable

import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.{DataFrame, Row}

/** Folders of files as sources with names, by which another query finds them again. */
private[streamjoin] trait NamedSources { this: SparkTest =>
  final protected class Inputs {
    private val root = Path.of(newFolder("inputs"))
    private var files = 0

    def write(name: String, rows: String*): Unit = {
      files += 1
      Files.createDirectories(root.resolve(name))
      Files.writeString(root.resolve(name).resolve(s"$files.csv"), rows.mkString("\n")): Unit
    }

    def stream(name: String): DataFrame = {
      Files.createDirectories(root.resolve(name))
      spark.readStream
        .schema("id STRING, t TIMESTAMP, v INT")
        .name(name)
        .csv(root.resolve(name).toString)
        .withWatermark("t", "0 seconds")
        .as(name)
    }
  }

  /** Runs to the end of all files; returns the output. */
  protected def run(query: DataFrame, checkpoint: String): Seq[Row] = {
    val seen = mutable.ArrayBuffer.empty[Row]
    val running = query.writeStream
      .option("checkpointLocation", checkpoint)
      .foreachBatch((batch: DataFrame, _: Long) => seen ++= batch.collect(): Unit)
      .start()
    try running.processAllAvailable()
    finally running.stop()
    seen.toSeq
  }
}
