package org.apache.spark.sql.streamjoin

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.{DataFrame, Encoders, Row}

/** Facts meet the versions that were valid at their times. */
class TemporalJoinSuite extends AnyFunSuite with SparkTest {
  private def at(second: Int) = new Timestamp(second * 1000L)

  final private class Story(isLeftOuter: Boolean) {
    val facts: MemoryStream[(Int, Int, Timestamp)] =
      MemoryStream[(Int, Int, Timestamp)](Encoders.product[(Int, Int, Timestamp)], spark)
    val changes: MemoryStream[(Int, String, Timestamp, String)] =
      MemoryStream[(Int, String, Timestamp, String)](
        Encoders.product[(Int, String, Timestamp, String)],
        spark
      )
    private val checkpoint = newFolder()
    private var seen = Seq.empty[Row]

    private def joined: DataFrame = {
      val left = facts.toDF().toDF("id", "k", "t").withWatermark("t", "0 seconds")
      val right = changes.toDF().toDF("key", "v", "since", "op").withWatermark("since", "0 seconds")
      val joined = left.join(right, expr("k = key"), if (isLeftOuter) "left" else "inner")
      TemporalJoins.temporal(joined, Seq("key"), "since", Some("op"), "t").select("id", "v")
    }

    private def start(): StreamingQuery = joined.writeStream
      .foreachBatch((batch: DataFrame, _: Long) => seen ++= batch.collect())
      .option("checkpointLocation", checkpoint)
      .start()
    private var query = start()

    def restart(): Unit = {
      query.stop()
      query = start()
    }

    def step(): Seq[String] = {
      query.processAllAvailable()
      val rows = seen.map(row => s"${row.get(0)} ${row.get(1)}")
      seen = Nil
      rows
    }
    def stop(): Unit = query.stop()
  }

  for (restarting <- Seq(false, true))
    test(s"the example of the document${if (restarting) ", restarted before every step" else ""}") {
      val story = new Story(isLeftOuter = true)
      def step() = {
        if (restarting) story.restart()
        story.step()
      }
      try {
        story.facts.addData((5, 1, at(5)), (7, 1, at(7)), (-1, 9, at(10)))
        assert(step() == Nil)
        story.changes.addData(
          (1, "two", at(2), "insert"),
          (1, null, at(6), "delete"),
          (9, "other", at(8), "insert")
        )
        assert(step() == Seq("5 two", "7 null"))
      } finally story.stop()
    }
}
