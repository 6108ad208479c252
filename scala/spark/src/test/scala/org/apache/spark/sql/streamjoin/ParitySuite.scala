package org.apache.spark.sql.streamjoin

import org.scalatest.funsuite.AnyFunSuite

/**
 * A query that plain Spark runs, runs with the extension and gives the same rows, unless its join
 * is one that is refused by name; and then it runs with `spark.streamjoin.unbounded=spark`.
 *
 * Spark has one watermark, these joins have one for each column. So no row of the inputs is later
 * than the delay of its own column: it would be dropped here, and kept by Spark while another
 * stream is slow. Unmatched rows may come in another batch, so they are compared over the whole
 * run, whose last files are past all bounds.
 *
 * Where Spark's own join differs from SQL, its answer is not ours, and no query asks for it:
 *   - it joins null keys with each other where the optimizer has not put a filter on them (full
 *     outer joins, keys that are functions such as `concat`);
 *   - an unmatched row whose event time is null never leaves its state, nor any other where no
 *     bound is seen in the condition as it was optimized (`CAST(b.t AS BIGINT) BETWEEN ...`);
 *   - an equality with `now()` in it is a key of the time at which its row came.
 */
class ParitySuite extends AnyFunSuite with ParityTest {

  test("the extension is in one of the two sessions") {
    assert(PythonApi.installed(extended) && PythonApi.installed(extended.newSession()))
    assert(!PythonApi.installed(plain) && !PythonApi.installed(plain.newSession()))
    assert(plain.sparkContext.getConf.get("spark.sql.extensions").isEmpty)
  }

  private val all = Seq(
    ParityShapes.cases,
    ParityColumns.cases,
    ParityTimes.cases,
    ParityAggregations.cases,
    ParityOperators.cases,
    ParityRuns.cases
  ).flatten

  /** `make test` takes a part of each kind of query, `make test-long` all. */
  private val some =
    if (sys.env.get("STREAMJOIN_PARITY").contains("all")) all
    else all.indices.filter(_ % 10 == 0).map(all)

  testAll[ParityCase](some, _.name)(compare)

  testAll[(String, Seq[(String, String)])](ParityTables.settings, "joins of tables " + _._1) {
    case (_, settings) => compareTables(ParityTables.queries, settings)
  }
}
