package org.apache.spark.sql.streamjoin.parity

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.SparkTest

import streamjoin.StreamJoin

/**
 * A query that plain Spark runs must run with the extension too, and give the same rows, unless its
 * join is rejected with an error. A rejected query must run with
 * `spark.streamjoin.unbounded=spark`.
 *
 * Spark has one watermark per query, these joins have one per column. So no input row is later than
 * the delay of its own column: the extension would drop it, while Spark keeps it as long as another
 * stream is slow. Unmatched rows may be emitted in another batch, so they are compared over the
 * whole run, whose last files are past all bounds.
 *
 * Where Spark's own join differs from SQL, the extension follows SQL, and no query here tests it:
 *   - Spark joins null keys with each other unless the optimizer has put a filter on them (full
 *     outer joins, keys that are functions such as `concat`);
 *   - an unmatched row with a null event time never leaves Spark's state; nor does any other if the
 *     optimized condition shows no bound (`CAST(b.t AS BIGINT) BETWEEN ...`);
 *   - an equality with `now()` is a key computed at the time its row came.
 */
class ParitySuite extends AnyFunSuite with ParityTest {

  test("only one of the two sessions has the extension") {
    assert(StreamJoin.isEnabled(extended))
    assert(StreamJoin.isEnabled(extended.newSession()))
    assert(!StreamJoin.isEnabled(plain))
    assert(!StreamJoin.isEnabled(plain.newSession()))
    assert(plain.sparkContext.getConf.get("spark.sql.extensions").isEmpty)
  }

  private val all = Seq(
    ParityShapes.cases,
    ParityColumns.cases,
    ParityTimes.cases,
    ParityAggregations.cases,
    ParityOperators.cases,
    ParityRuns.cases
  ).flatten.filter(_.mode == "append" || areUpdatesSparks)

  /** Spark 4.1 runs no join of two streams in update mode. */
  private def areUpdatesSparks = !SparkTest.isSpark41

  /** `make test` takes every 40th query, `make test-long` all; or those with a text in it. */
  private val some = sys.env.get("STREAMJOIN_PARITY") match {
    case None => all.indices.filter(_ % 40 == 0).map(all)
    case Some("all") => all
    case Some(text) => all.filter(_.name.contains(text))
  }

  testAll[ParityCase](some, _.name)(compare)

  /** `make test` has each query with one of the settings. */
  private val tables = ParityTables.settings.zipWithIndex.map { case ((name, settings), number) =>
    (name, settings, SparkTest.part(ParityTables.queries, every = 9, from = number))
  }

  testAll[(String, Seq[(String, String)], Seq[String])](tables, "joins of static tables " + _._1) {
    case (_, settings, queries) => compareTables(queries, settings)
  }
}
