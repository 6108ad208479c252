package org.apache.spark.sql.streamjoin

import org.scalatest.funsuite.AnyFunSuite

import streamjoin.core.{Restart, RowComes, Side, Step, Trace, WatermarkComes}

/**
 * Runs every story of `tests/cases` as a streaming query, in several ways that must not make a
 * difference. `make test` takes every other story, a third of them in the first way and the rest
 * in the second, and one in each of the others; `make test-line` takes every sixth.
 */
class TraceSuite extends AnyFunSuite with SparkTest {

  private case class Mode(
      name: String,
      groups: Trace => Seq[Seq[Step]] = _.single,
      stopping: Boolean = false,
      runs: Trace => Boolean = _ => true,
      conf: Map[String, String] = Map.empty,
      keyed: Boolean = true
  )

  private val rocksDb = Map(
    "spark.sql.streaming.stateStore.providerClass" ->
      "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  )
  private val changelog = Map(
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"
  )
  private val formatTwo = Map("spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2")
  private val noMemory = Map("spark.streamjoin.indexMemory" -> "1")

  // All join types, and everything that a restart could lose.
  private val temporal = Set("temporal-newest-stays", "asof-nearest")
  private val lasting = (trace: Trace) =>
    trace.name.startsWith("type-") || trace.name.contains("restart") || temporal(trace.name)
  // The cap is per task, and rows without a key are in every task.
  private val keyless = (trace: Trace) => !TraceQuery.hasEquality(trace) && trace.cap.isEmpty
  private val few = Set("type-full-outer", "type-left-semi", "matched-flag-survives-restart")

  private val modes = Seq(
    Mode("one batch per step"),
    // How many rows a task has at once depends on the order within a batch.
    Mode("rows between watermarks as one batch", groups = _.merged, runs = _.cap.isEmpty),
    Mode("stopped and started at every step", stopping = true),
    Mode("RocksDB", conf = rocksDb, runs = lasting),
    Mode("RocksDB, stopped and started at every step", stopping = true, conf = rocksDb, runs = lasting),
    Mode(
      "RocksDB with changelog and checkpoint format 2, stopped and started at every step",
      stopping = true,
      conf = rocksDb ++ changelog ++ formatTwo,
      runs = trace => few(trace.name)
    ),
    Mode("without an equality", keyed = false, runs = keyless),
    Mode(
      "without an equality, stopped and started at every step",
      stopping = true,
      keyed = false,
      runs = keyless
    ),
    Mode("without an equality, RocksDB", conf = rocksDb, keyed = false, runs = t => keyless(t) && lasting(t)),
    Mode("no memory for the index", groups = _.merged, conf = noMemory, runs = _.cap.isEmpty),
    Mode("no memory for the index, RocksDB", conf = rocksDb ++ noMemory, runs = lasting)
  )

  private val cases = Trace.all.filter(_.runsOn("spark"))

  private val all = {
    val (single, merged) = (modes.head, modes(1))
    val every = if (SparkTest.isOtherLine) 6 else 2
    val once =
      if (SparkTest.isLong)
        for (mode <- Seq(single, merged); trace <- cases if mode.runs(trace)) yield (trace, mode)
      else
        SparkTest.part(cases, every).zipWithIndex.map { case (trace, number) =>
          trace -> (if (number % 3 > 0 && merged.runs(trace)) merged else single)
        }
    val more = for {
      (mode, number) <- modes.drop(2).zipWithIndex
      trace <- SparkTest.part(cases.filter(mode.runs), every = 200, from = number)
    } yield (trace, mode)
    once ++ more
  }

  testAll[(Trace, Mode)](all, { case (trace, mode) => s"${trace.name}, ${mode.name}" }) {
    case (trace, mode) =>
      run(trace, mode).fold(succeed)(fail(_))
  }

  private def run(trace: Trace, mode: Mode): Option[String] = {
    // With its own settings, as several cases run at a time.
    val session = spark.newSession()
    // Punctuation rows, which a filter after `withWatermark` removes, have to move the watermark.
    session.conf.set("spark.streamjoin.watermarkBeforeFilter", "true")
    val cap = trace.cap.map("spark.streamjoin.maxAccumulatedRecords" -> _.toString)
    (mode.conf ++ cap).foreach { case (key, value) => session.conf.set(key, value) }
    val query = new TraceQuery(session, trace, newFolder(trace.name), keyed = mode.keyed)
    try
      trace.failure(mode.groups(trace), () => query.start(), SparkTest.errorClass) { group =>
        if (mode.stopping || group.head.action == Restart) {
          query.stop()
          query.start()
        }
        val seen = group.head.action match {
          case WatermarkComes(column, value) => query.watermark(column, value)
          case RowComes(_) => query.rows(group.map(_.action).collect { case RowComes(row) => row })
          case Restart => Nil
        }
        difference(trace, group, seen)
      }
    finally query.stop()
  }

  private def difference(trace: Trace, group: Seq[Step], seen: Seq[BatchSeen]): Option[String] = {
    val (line, expected) = (group.head.line, group.flatMap(_.expected).groupBy(_.kind).withDefaultValue(Nil))
    lazy val late = Option.when(expected("late").size != seen.map(_.late).sum) {
      trace.at(line, s"expected ${expected("late").size} late rows; seen ${seen.map(_.late).sum}")
    }
    lazy val state = for {
      buffers <- group.last.state
      last <- seen.lastOption
      wanted = buffers.labels.transform((_, labels) => labels.size.toLong)
      if wanted != last.state
      shown = (counts: Map[Side, Long]) => Side.both.map(counts).mkString(" | ")
    } yield trace.at(buffers.line, s"expected rows in state ${shown(wanted)}; seen ${shown(last.state)}")
    trace.difference(line, expected("expect"), seen.flatMap(_.output)).orElse(late).orElse(state)
  }
}
