package org.apache.spark.sql.streamjoin.joins.interval

import java.time.LocalDate

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.{IntervalCore, OracleTest, RandomCarried, RandomTrace, SparkTest}

import streamjoin.core.JoinType

/**
 * Compares the operator with the core, batch for batch: output, late rows, rows in state, and
 * whether a batch without data ran. The core gets the watermarks that the definition in the design
 * gives for each batch.
 */
class CoreOracleSuite extends AnyFunSuite with OracleTest {

  private val seeds = SparkTest.seeds(default = 1)

  // The year 2024, the beginning of 1970 amid the rows, and the first and last days of Spark's
  // dates.
  private val origins =
    Seq("2024-06-01", "1970-01-01", "0001-01-03", "9999-12-30").map(LocalDate.parse(_))

  private val cases = for {
    equality <- Seq(true, false)
    seed <- 1 to seeds
    joinType = JoinType.all(seed % JoinType.all.size)
  } yield new RandomTrace(seed, joinType, equality, origins(seed / 2 % origins.size))

  testAll[RandomTrace](cases, _.toString)(random => compare(random, new IntervalCore(random.trace)))

  private val carried = for {
    seed <- 1 to 2 * seeds
    joinType = JoinType.all(seed % JoinType.all.size)
  } yield new RandomCarried(seed.toLong, joinType, equality = seed % 4 > 0, origins(seed / 2 % origins.size))

  testAll[RandomCarried](carried, _.toString)(random => compare(random, new IntervalCore(random.trace)))
}
