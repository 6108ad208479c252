package org.apache.spark.sql.streamjoin

import java.time.LocalDate

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import streamjoin.core._

/**
 * The operator against the core, batch for batch: output, late rows, rows in state, and whether a
 * batch without data ran. The core is told the watermarks that the definition in the design gives
 * for each batch.
 */
class CoreOracleSuite extends AnyFunSuite with SparkTest {

  /** Rows that a filter removes after `withWatermark` say how far a watermark is. */
  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark.conf.set("spark.streamjoin.watermarkBeforeFilter", "true")
  }

  private val seeds = SparkTest.seeds(default = 4)

  // The year 2024, the beginning of 1970 in the midst of the rows, and the first and the last days
  // that Spark's dates have.
  private val origins =
    Seq("2024-06-01", "1970-01-01", "0001-01-03", "9999-12-30").map(LocalDate.parse(_))

  private val cases = for {
    equality <- Seq(true, false)
    seed <- 1 to seeds
    joinType = JoinType.all(seed % JoinType.all.size)
  } yield new RandomTrace(seed, joinType, equality, origins(seed / 2 % origins.size))

  testAll[RandomTrace](cases, _.toString)(compare)

  private def compare(random: RandomTrace): Assertion = {
    val folder = newFolder(s"seed-${random.seed}")
    val query = new TraceQuery(spark, random.trace, folder, random.delay, keyed = false, random.origin)
    val oracle = new Oracle(random)
    try {
      query.start()
      random.batches.foreach { batch =>
        if (batch.restart) {
          query.stop()
          query.start()
        }
        oracle.check(batch.rows, Map.empty, query.rows(batch.rows))
      }
      random.trace.keys.foreach { column =>
        oracle.check(Nil, Map(column -> RandomTrace.End), query.watermark(column, RandomTrace.End))
      }
      assert(oracle.rowsInState.values.sum == 0, s"rows stay for ever in ${random.trace.lines}")
    } finally query.stop()
  }
}

/** Follows a query with the core. */
final private class Oracle(random: RandomTrace) {
  private val trace = random.trace
  private val core = CoreTrace.join(trace)
  private var story = trace.lines
  private var batch = 0

  /** W(N - 1) and W(N), where N is the batch that comes next, by watermark key. */
  private var previous, current = Map.empty[Int, Long]

  def rowsInState: Map[Side, Long] = Side.both.map(side => side -> core.buffered(side).size.toLong).toMap

  /**
   * @param rows
   *   what came, in the first of the batches
   * @param punctuation
   *   watermarks that came besides
   */
  def check(rows: Seq[TraceRow], punctuation: Map[Column, Long], seen: Seq[BatchSeen]): Unit = {
    agree(seen.head.hasData, "a batch with data first")
    var coming = rows
    seen.foreach { actual =>
      val before = rowsInState
      story ++= Seq(s"batch ${actual.id}, late below ${shown(previous)}, evicting below ${shown(current)}")
      story ++= coming.map(row =>
        s"  ${row.side.name} $row ${row.values.map { case (k, v) => s"$k=${v.getOrElse("null")}" }.mkString(" ")}"
      )
      story ++= punctuation.map { case (column, value) => s"  watermark $column $value" }
      agree(actual.id == batch, s"batch $batch")
      val (left, right) = coming.filter(reachesJoin).partition(_.side == Side.Left)
      val outputs = core.onBatch(left, right, previous.getOrElse(_, Watermark.Undefined), current)
      val (late, expected) = outputs.map(CoreTrace.shown(trace)).partition(_.startsWith("late"))
      agree(
        actual.output.sorted == expected.sorted,
        s"${Trace.listed(expected)}; seen ${Trace.listed(actual.output)}"
      )
      agree(actual.late == late.size, s"${late.size} late rows; seen ${actual.late}")
      agree(actual.state == rowsInState, s"$rowsInState in state; seen ${actual.state}")
      if (!actual.hasData)
        agree(rowsInState != before, "no batch without data, as there was nothing to evict")
      advance(coming, if (actual.hasData) punctuation else Map.empty)
      coming = Nil
    }
    // What the next batch would evict without any rows, had it been run.
    val later = CoreTrace.join(trace, core.snapshot)
    later.onBatch(Nil, Nil, _ => Watermark.Undefined, current)
    agree(Side.both.forall(side => later.buffered(side) == core.buffered(side)), "one more batch, to evict")
  }

  /**
   * On a side that is not preserved Spark filters rows that can meet nobody before the join sees
   * them: those with a null in a column of the condition and those that fail a condition of their
   * own. They are not counted as late, nor kept.
   */
  private def reachesJoin(row: TraceRow): Boolean =
    trace.joinType.pads(row.side) || trace.on.forall { conjunct =>
      val own = conjunct.columns.filter(_.side == row.side)
      own.forall(column => row.values(column.name).isDefined) &&
      (own.size < conjunct.columns.size || conjunct.holds(column => row.values(column.name)))
    }

  /** `W(N, k) = max(W(N-1, k), max event time seen in batches < N, minus the delay)`. */
  private def advance(rows: Seq[TraceRow], punctuation: Map[Column, Long]): Unit = {
    batch += 1
    previous = current
    current = trace.keys.indices.flatMap { key =>
      val column = trace.keys(key)
      val times = rows.filter(_.side == column.side).flatMap(_.values(column.name)).map(_ - random.delay)
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
