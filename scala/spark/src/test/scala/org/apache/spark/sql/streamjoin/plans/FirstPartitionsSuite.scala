package org.apache.spark.sql.streamjoin.plans

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkConf

class FirstPartitionsSuite extends AnyFunSuite {
  private val cluster = new SparkConf(false).setMaster("spark://driver:7077")
  private val dynamic = cluster.clone.set("spark.dynamicAllocation.enabled", "true")

  private def number(conf: SparkConf): Int =
    FirstPartitions.AtOnce.number(200, FirstPartitions.atOnce(conf, now = 2))

  test("as many tasks as can run at once") {
    assert(number(cluster) == 2)
    assert(FirstPartitions.AtOnce.number(200, FirstPartitions.atOnce(cluster, now = 300)) == 200)
  }

  test("with dynamic allocation, as many as can run on all executors that there may be") {
    assert(number(dynamic) == 200)
    val limited = dynamic.clone.set("spark.dynamicAllocation.maxExecutors", "8")
    assert(number(limited) == 8)
    assert(number(limited.clone.set("spark.executor.cores", "4").set("spark.task.cpus", "2")) == 16)
    assert(number(limited.clone.set("spark.dynamicAllocation.maxExecutors", "1")) == 2)
  }
}
