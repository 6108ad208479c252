package org.apache.spark.sql.streamjoin

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import streamjoin.core._

/** What the core does with a batch. */
trait OracleCore {

  /**
   * @param late
   *   by watermark key, the time below which a row is late
   * @param eviction
   *   by watermark key, the watermark that is applied after the rows
   */
  def onBatch(
      left: Seq[TraceRow],
      right: Seq[TraceRow],
      late: Map[Int, Long],
      eviction: Map[Int, Long]
  ): Seq[Output[TraceRow]]

  def buffered(side: Side): Seq[TraceRow]

  /** How many rows may stay once the watermarks have passed all of them. */
  def mayStay: Int

  /** Whether these watermarks would evict a row. */
  def evicts(eviction: Map[Int, Long]): Boolean
}

/** The core of a query that is changed. */
private[streamjoin] trait ChangedCore extends OracleCore {

  /** Another query continues with what this one has kept. */
  def change(to: Trace): Unit
}

final class IntervalCore(trace: Trace) extends OracleCore {
  private val core = CoreTrace.join(trace)

  override def onBatch(
      left: Seq[TraceRow],
      right: Seq[TraceRow],
      late: Map[Int, Long],
      eviction: Map[Int, Long]
  ): Seq[Output[TraceRow]] =
    core.onBatch(left, right, late.getOrElse(_, Watermark.Undefined), eviction)

  override def buffered(side: Side): Seq[TraceRow] = core.buffered(side)

  override def mayStay: Int = 0

  override def evicts(eviction: Map[Int, Long]): Boolean = {
    val later = CoreTrace.join(trace, core.snapshot)
    later.onBatch(Nil, Nil, _ => Watermark.Undefined, eviction)
    Side.both.exists(side => later.buffered(side) != core.buffered(side))
  }
}

/** Queries that are compared with the core, batch for batch. */
trait OracleTest extends SparkTest { this: AnyFunSuite =>

  protected def compare(random: RandomStory, core: OracleCore): Assertion = {
    val folder = newFolder(s"seed-${random.seed}")
    // With its own settings, as several run at a time.
    val session = spark.newSession()
    // Rows that a filter removes after `withWatermark` still move the watermark.
    session.conf.set("spark.streamjoin.watermarkBeforeFilter", "true")
    val query = new TraceQuery(session, random.trace, folder, random.delay, keyed = false, random.origin)
    val oracle = new Oracle(random, core)
    follow(random, oracle, query) { (rows, _, restarts) =>
      if (restarts) {
        query.stop()
        query.start()
      }
      oracle.check(rows, Map.empty, query.rows(rows))
    }
  }

  /**
   * Runs a query to the end of its story.
   *
   * @param next
   *   runs a batch, given its rows, its number, and whether the query restarts before it
   */
  protected def follow(random: RandomStory, oracle: Oracle, query: TraceQuery)(
      next: (Seq[TraceRow], Int, Boolean) => Unit
  ): Assertion =
    try {
      query.start()
      random.batches.zipWithIndex.foreach { case (batch, at) => next(batch.rows, at, batch.restart) }
      random.trace.keys.foreach { column =>
        oracle.check(Nil, Map(column -> RandomTrace.End), query.watermark(column, RandomTrace.End))
      }
      assert(oracle.rowsInState.values.sum <= oracle.mayStay, s"rows stay forever in ${random.trace.lines}")
    } finally query.stop()
}

/** Follows a query with the core, batch by batch. */
final private[streamjoin] class Oracle(random: RandomStory, core: OracleCore) {
  private var trace = random.trace
  private var delay = random.delay
  private var story = trace.lines
  private var batch = 0

  /** W(N - 1) and W(N) by watermark key, where N is the next batch. */
  private var previous, current = Map.empty[Int, Long]

  def mayStay: Long = core.mayStay.toLong

  def rowsInState: Map[Side, Long] = Side.both.map(side => side -> core.buffered(side).size.toLong).toMap

  /** The next batch is of another query. */
  def change(to: Trace, newDelay: Long, name: String): Unit = {
    trace = to
    delay = newDelay
    story ++= s"change: $name" +: to.lines.map("  " + _) :+ s"  delay $newDelay"
  }

  /**
   * @param rows
   *   the rows of the first batch
   * @param punctuation
   *   the watermarks that came with them
   */
  def check(rows: Seq[TraceRow], punctuation: Map[Column, Long], seen: Seq[BatchSeen]): Unit = {
    agree(seen.head.hasData, "a batch with data first")
    var coming = rows
    seen.foreach { actual =>
      val evicts = core.evicts(current)
      story ++= Seq(s"batch ${actual.id}, late below ${shown(previous)}, evicting below ${shown(current)}")
      story ++= coming.map(row =>
        s"  ${row.side.name} $row ${row.values.map { case (k, v) => s"$k=${v.getOrElse("null")}" }.mkString(" ")}"
      )
      story ++= punctuation.map { case (column, value) => s"  watermark $column $value" }
      agree(actual.id == batch, s"batch $batch")
      val (left, right) = coming.filter(reachesJoin).partition(_.side == Side.Left)
      val outputs = core.onBatch(left, right, previous, current)
      val (late, expected) = outputs.map(CoreTrace.shown(trace)).partition(_.startsWith("late"))
      agree(
        actual.output.sorted == expected.sorted,
        s"${Trace.listed(expected)}; seen ${Trace.listed(actual.output)}"
      )
      agree(actual.late == late.size, s"${late.size} late rows; seen ${actual.late}")
      agree(actual.state == rowsInState, s"$rowsInState in state; seen ${actual.state}")
      if (!actual.hasData)
        agree(evicts, "no batch without data, as there was nothing to evict")
      advance(coming, if (actual.hasData) punctuation else Map.empty)
      coming = Nil
    }
    // If there were more to evict, one more batch without rows should have run.
    agree(!core.evicts(current), "one more batch, to evict")
  }

  /**
   * On a side that is not preserved, Spark filters rows that cannot match before the join sees
   * them: rows with a null in a column of the condition, and rows that fail a condition on their
   * side alone. They are neither counted as late nor buffered.
   */
  private def reachesJoin(row: TraceRow): Boolean =
    trace.closest.isDefined || trace.joinType.pads(row.side) || trace.on.forall { conjunct =>
      val own = conjunct.columns.filter(_.side == row.side)
      own.forall(column => row.values(column.name).isDefined) &&
      (own.size < conjunct.columns.size || conjunct.holds(column => row.values(column.name)))
    }

  /** The sink has skipped the last batch when it ran again: no time of its rows has been seen. */
  def skipped(): Unit = current = previous

  /** `W(N, k) = max(W(N-1, k), max event time seen in batches < N, minus the delay)`. */
  private def advance(rows: Seq[TraceRow], punctuation: Map[Column, Long]): Unit = {
    batch += 1
    previous = current
    current = trace.keys.indices.flatMap { key =>
      val column = trace.keys(key)
      val times = rows.filter(_.side == column.side).flatMap(_.values(column.name)).map(_ - delay)
      (times ++ punctuation.get(column) ++ previous.get(key)).maxOption.map(key -> _)
    }.toMap
  }

  private def shown(watermarks: Map[Int, Long]): String =
    trace.keys.indices.map(watermarks.get(_).fold("none")(_.toString)).mkString("(", ", ", ")")

  private def agree(holds: Boolean, expected: => String): Unit =
    if (!holds) {
      val text = story.mkString("\n", "\n", "\n")
      throw new AssertionError(s"seed ${random.seed}$text--> expected $expected (seed ${random.seed})")
    }
}
