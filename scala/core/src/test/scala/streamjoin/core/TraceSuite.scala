package streamjoin.core

import org.scalatest.funsuite.AnyFunSuite

/** Runs every story of `tests/cases` through the core. */
class TraceSuite extends AnyFunSuite {

  private val cases = Trace.all.filter(_.runsOn("core"))

  test("tests/cases has enough cases") {
    assert(cases.size > 30, s"in ${Trace.folder}")
  }

  cases.foreach { trace =>
    test(s"${trace.name}, event by event") {
      CoreTrace.failure(trace).foreach(fail(_))
    }
    test(s"${trace.name}, restarted before every step") {
      CoreTrace.failure(trace, restarting = true).foreach(fail(_))
    }
  }

  // How many rows are in the buffers at once depends on the order within a batch.
  cases.filter(_.cap.isEmpty).foreach { trace =>
    test(s"${trace.name}, rows between watermarks as one batch") {
      CoreTrace.failure(trace, _.merged).foreach(fail(_))
    }
  }
}
