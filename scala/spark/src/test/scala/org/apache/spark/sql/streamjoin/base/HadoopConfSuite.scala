package org.apache.spark.sql.streamjoin.base

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.streamjoin.SparkTest

/** The current settings of a session, broadcast again only if they have changed. */
class HadoopConfSuite extends AnyFunSuite with SparkTest {
  private val Token = "fs.test.token"

  private def token: String = HadoopConf.of(spark).value.value.get(Token)

  test("a new token is in the next settings, and unchanged settings are broadcast once") {
    withConf(Token -> "one") {
      val first = HadoopConf.of(spark)
      assert(token == "one" && (HadoopConf.of(spark) eq first))
      spark.conf.set(Token, "two")
      assert(token == "two" && first.value.value.get(Token) == "one")
      val shared = spark.sparkContext.hadoopConfiguration
      shared.set("fs.test.shared", "three")
      try assert(HadoopConf.of(spark).value.value.get("fs.test.shared") == "three")
      finally shared.unset("fs.test.shared")
    }
  }

  test("settings do not change within a batch") {
    def during(batch: String)(body: => Unit): Unit = {
      val names = Seq(StreamExecution.QUERY_ID_KEY -> "query", MicroBatchExecution.BATCH_ID_KEY -> batch)
      names.foreach { case (name, value) => spark.sparkContext.setLocalProperty(name, value) }
      try body
      finally names.foreach { case (name, _) => spark.sparkContext.setLocalProperty(name, null) }
    }
    withConf(Token -> "one") {
      during("1") {
        assert(token == "one")
        spark.conf.set(Token, "two")
        assert(token == "one")
      }
      during("2")(assert(token == "two"))
    }
  }
}
