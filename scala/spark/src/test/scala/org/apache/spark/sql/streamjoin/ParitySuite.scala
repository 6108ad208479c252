package org.apache.spark.sql.streamjoin

import org.scalatest.funsuite.AnyFunSuite

/**
 * A query that plain Spark runs, runs with the extension and gives the same rows, unless its join is one that is refused
 * by name; and then it runs with `spark.streamjoin.unbounded=spark`.
 */
class ParitySuite extends AnyFunSuite with ParityTest {

  test("the extension is in one of the two sessions") {
    assert(PythonApi.installed(extended) && PythonApi.installed(extended.newSession()))
    assert(!PythonApi.installed(plain) && !PythonApi.installed(plain.newSession()))
    assert(!plain.sparkContext.getConf.contains("spark.streamjoin.enabled"))
  }

  private val all =
    ParityShapes.cases ++ ParityColumns.cases ++ ParityTimes.cases ++ ParityOperators.cases ++ ParityRuns.cases

  private val only = sys.props.get("PARITY")

  testAll[ParityCase](all.filter(each => only.forall(each.name.matches)), _.name)(compare)

  for ((name, settings) <- ParityTables.settings)
    test(s"joins of tables $name")(compareTables(ParityTables.queries, settings))
}
