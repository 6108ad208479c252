package org.apache.spark.sql.streamjoin.state

import java.util.UUID

import scala.sys.process.{Process, ProcessLogger}

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.streamjoin.checkpoint.OperatorLog
import org.apache.spark.sql.types._

import streamjoin.core.Side

/** A version that a query has committed can be read by others while the query continues. */
class CommittedVersionSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val rocksDb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  private val stores = Seq(
    "default store" -> classOf[HDFSBackedStateStoreProvider].getName,
    "RocksDB" -> rocksDb
  )

  for ((name, provider) <- stores) test(s"a second query of the application can read it, $name") {
    withConf(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> provider) {
      running(job()) { maintained =>
        maintained.feed(o("a", "10:00", 1), o("b", "10:01", 2), d("x", "10:01", 3))
        val versions = CommittedVersionSuite.version(maintained)
        running(job(_.raw("ask"))) { reader =>
          reader.sink =
            asked => CommittedVersionSuite.lookup(asked, maintained.checkpoint, versions, provider)
          assert(reader.feed("ask" -> row("a", "10:00")) == Seq("left a 1"))
          // The first query continues, and the version stays what it was.
          maintained.feed(o("a", "10:02", 4), d("b", "10:05", 5))
          assert(reader.feed("ask" -> row("a", "10:00")) == Seq("left a 1"))
          assert(reader.feed("ask" -> row("x", "10:00")) == Seq("right x 3"))
          val later = CommittedVersionSuite.version(maintained)
          assert(later > versions)
          reader.sink = asked => CommittedVersionSuite.lookup(asked, maintained.checkpoint, later, provider)
          assert(reader.feed("ask" -> row("a", "10:00")) == Seq("left a 1", "left a 4"))
          assert(maintained.feed(d("a", "10:30", 6)).size == 2)
        }
      }
    }
  }

  for ((name, provider) <- stores) testLong(s"another process can read it, $name") {
    withConf(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> provider) {
      running(job()) { maintained =>
        maintained.feed(o("a", "10:00", 1), o("b", "10:01", 2), d("x", "10:01", 3))
        val version = CommittedVersionSuite.version(maintained)
        val expected = Seq("left a 1", "left b 2", "right x 3")
        assert(CommittedVersionSuite.inProcess(maintained.checkpoint, version, provider) == expected)
        assert(maintained.feed(d("a", "10:30", 6)).size == 1)
        assert(CommittedVersionSuite.inProcess(maintained.checkpoint, version, provider) == expected)
      }
    }
  }
}

object CommittedVersionSuite {
  private val Partitions = 2

  /** Rows of [[JoinTest.Events]]: keyed by id, with one event time. */
  private val schema = StructType.fromDDL(JoinTest.Events)
  private val layouts =
    Side.both.map(_ => new RowLayout(schema.map(_.dataType), Array(0), Array(1), Array(0)))

  /** The version that the last committed batch made. */
  private def version(job: JoinTest.Job): Long = job.seen.last.id + 1

  private def read[T](checkpoint: String, partition: Int, version: Long, provider: String)(
      use: JoinIndex => T
  ): T = {
    val conf = new SQLConf
    conf.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, provider)
    val store = StateStore.getReadOnly(
      StateStoreProviderId(
        StateStoreId(s"$checkpoint/state", OperatorLog.FirstId, partition),
        UUID.randomUUID()
      ),
      SegmentStore.KeySchema,
      SegmentStore.ValueSchema,
      NoPrefixKeyStateEncoderSpec(SegmentStore.KeySchema),
      version,
      None,
      None,
      useColumnFamilies = false,
      StateStoreConf(conf),
      new Configuration
    )
    try use(IndexReading.readOnly(store, layouts, Long.MaxValue))
    finally store.release()
  }

  private def all(index: JoinIndex): Seq[String] = for {
    side <- Seq(Side.Left, Side.Right)
    segment <- index.buffer(side).segments.toSeq
    text <- {
      val row = new UnsafeRow(schema.size)
      val texts = Seq.newBuilder[String]
      segment.foreachLive { (_, place) =>
        segment.point(row, place)
        texts += s"${side.name} ${row.getString(0)} ${row.getInt(2)}"
      }
      texts.result()
    }
  } yield text

  /** Reads in tasks of the second query: the rows whose id is among those asked for. */
  def lookup(asked: DataFrame, checkpoint: String, version: Long, provider: String): Seq[String] = {
    val ids = asked.collect().map(_.getString(0)).toSet
    asked.sparkSession.sparkContext
      .parallelize(0 until Partitions, Partitions)
      .flatMap(partition => read(checkpoint, partition, version, provider)(all))
      .filter(text => ids(text.split(' ')(1)))
      .collect()
      .toSeq
      .sorted
  }

  /** Reads in a process of its own. */
  def inProcess(checkpoint: String, version: Long, provider: String): Seq[String] = {
    val command = Seq(
      s"${sys.props("java.home")}/bin/java",
      "-cp",
      sys.props("java.class.path"),
      "--add-opens=java.base/java.nio=ALL-UNNAMED",
      "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
      "-Xmx512m",
      "org.apache.spark.sql.streamjoin.state.CommittedVersionSuite",
      checkpoint,
      version.toString,
      provider
    )
    val (lines, errors) = (Seq.newBuilder[String], new StringBuilder)
    val status = Process(command).!(ProcessLogger(lines += _, errors ++= _ + "\n"))
    assert(status == 0, errors)
    lines.result().filter(_.startsWith("row ")).map(_.stripPrefix("row ")).sorted
  }

  def main(arguments: Array[String]): Unit = {
    val (checkpoint, version, provider) = (arguments(0), arguments(1).toLong, arguments(2))
    (0 until Partitions)
      .flatMap(read(checkpoint, _, version, provider)(all))
      .foreach(text => println(s"row $text"))
  }
}
