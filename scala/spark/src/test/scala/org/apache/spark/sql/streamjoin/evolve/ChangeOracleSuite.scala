package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.{Oracle, OracleTest, SparkTest, TraceQuery}

import streamjoin.core._

/**
 * Random changes of random queries, compared with the core batch for batch: output, late rows, rows
 * in state, batches without data. The cores of both queries run by the law: what the first one has
 * kept is handed to the second.
 */
class ChangeOracleSuite extends AnyFunSuite with OracleTest {

  private val seeds = SparkTest.seeds(default = 2)

  private val intervals = (1 to seeds).map(new ChangedInterval(_))
  private val matches = (1 to seeds).map(new ChangedMatch(_))

  testAll[ChangedStory](intervals ++ matches, _.toString)(story => new ChangeRun(story).run())

  /** One story, from its first batch to its last. */
  final private class ChangeRun(story: ChangedStory) {
    private val folder = newFolder("change")
    private val session = spark.newSession().asInstanceOf[SparkSession]
    session.conf.set("spark.streamjoin.watermarkBeforeFilter", "true")
    // No list of files becomes one: each batch has its own.
    session.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "100")

    private val random = story.random
    private val (core, oracle) = (story.core, new Oracle(random, story.core))
    private val query = new TraceQuery(
      session,
      random.trace,
      folder,
      random.delay,
      keyed = false,
      random.origin,
      files = Option.when(story.usesFiles)(newFolder("sink")),
      keepsLabels = story.keepsLabels,
      firstColumns = story.before.columns
    )

    def run(): Assertion = {
      use(story.before, "reject")
      follow(random, oracle, query)(next)
    }

    /** The next run is of this query. */
    private def use(settings: Setting, evolve: String): Unit = {
      (settings.conf + (StreamJoinConf.Evolve.key -> evolve)).foreach { case (key, value) =>
        session.conf.set(key, value)
      }
      query.change(settings.trace, settings.delay, settings.columns)
    }

    private def next(rows: Seq[TraceRow], at: Int, restarts: Boolean): Unit =
      if (at == story.at && story.attempt == Abandoned) abandoned(rows)
      else if (at == story.at || at == story.at + 1 && story.attempt == Abandoned) changed(rows)
      else {
        if (restarts) {
          query.stop()
          query.start()
        }
        oracle.check(rows, Map.empty, query.rows(rows))
      }

    private def changed(rows: Seq[TraceRow]): Unit = {
      query.stop()
      use(story.after, "allow")
      core.change(story.after.trace)
      oracle.change(story.after.trace, story.after.delay, story.toString)
      if (story.attempt == Repeated && !story.usesFiles) {
        query.failing(rows)
        query.start()
        oracle.check(rows, Map.empty, query.more())
      } else {
        query.start()
        val seen = query.rows(rows)
        oracle.check(rows, Map.empty, seen)
        if (story.attempt == Repeated && seen.size == 1 && story.isFormat1) repeat()
      }
    }

    /**
     * The sink has the batch and skips it. With checkpoint format 2, Spark asserts that every task
     * has reported a state. Those of a skipped batch do not run, so it cannot be repeated.
     */
    private def repeat(): Unit = {
      query.stop()
      SparkTest.forgetCommit(folder)
      query.start()
      assert(query.more().isEmpty)
      oracle.skipped()
    }

    /** The changed query fails, and the old one continues as if nothing had happened. */
    private def abandoned(rows: Seq[TraceRow]): Unit = {
      query.stop()
      use(story.after, "allow")
      query.failing(rows)
      use(story.before, "reject")
      query.start()
      oracle.check(rows, Map.empty, query.more())
    }
  }
}
