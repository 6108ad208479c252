package org.apache.spark.sql.streamjoin.operator

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.streamjoin.JoinTest

class InstanceMetricsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val rows = Seq(o("a", "10:00", 1), o("b", "10:00", 2), d("a", "10:30", 3))

  test("the progress has the metrics of single state stores") {
    val store = "spark.sql.streaming.stateStore"
    // Without changelogs, RocksDB uploads a snapshot with each commit.
    withConf(
      s"$store.providerClass" -> classOf[RocksDBStateStoreProvider].getName,
      s"$store.rocksdb.changelogCheckpointing.enabled" -> "false"
    ) {
      running(job(hourly())) { job =>
        job.feed(rows: _*)
        val found = job.operator.customMetrics.asScala.filter(_._1.startsWith("SnapshotLastUploaded"))
        val uploaded = job.progress.batchId + 1
        assert(
          found == Seq(0, 1).map(at => s"SnapshotLastUploaded.partition_${at}_default" -> uploaded).toMap
        )
      }
    }
  }

  test("a task does not receive the metrics of the stores of other tasks") {
    def bytes(partitions: Int): Int = withConf("spark.streamjoin.partitions" -> partitions.toString) {
      running(job(hourly())) { job =>
        job.feed(rows: _*)
        val serializer = new JavaSerializer(spark.sparkContext.getConf).newInstance()
        serializer.serialize(new InstanceMetrics(job.joins.head)).remaining()
      }
    }
    // The number of partitions itself may take some bytes.
    assert(bytes(40) <= bytes(2) + 40)
  }
}
