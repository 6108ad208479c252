package org.apache.spark.sql.streamjoin.observe.read

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.base.{EventTimeText, Figures}
import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.observe.collect.TaskReport
import org.apache.spark.sql.types._

/**
 * The result of `sj.explain_analyze`: the stateful operators of a query as an indented plan, with a
 * row for each operator and each of its inputs, and the figures after the last batch.
 */
private[streamjoin] object ExplainAnalyze {
  private val Watermarks = ArrayType(
    new StructType()
      .add("column", StringType, nullable = false)
      .add("watermark", StringType)
      .add("lag_ms", LongType)
      .add("held_by", StringType),
    containsNull = false
  )

  private val HotKeys = ArrayType(
    new StructType().add("key", StringType, nullable = false).add("share", DoubleType, nullable = false),
    containsNull = false
  )

  val Schema: StructType = new StructType()
    .add("plan", StringType, nullable = false)
    .add("operator", IntegerType)
    .add("side", StringType)
    .add("task", IntegerType)
    .add("rows_in", LongType)
    .add("rows_out", LongType)
    .add("late", LongType)
    .add("padded", LongType)
    .add("rows_kept", LongType)
    .add("bytes_kept", LongType)
    .add("memory", LongType)
    .add("ms", MapType(StringType, LongType, valueContainsNull = false))
    .add("watermarks", Watermarks)
    .add("oldest", StringType)
    .add("leaves_by", StringType)
    .add("leaves_after", StringType)
    .add("rows_ratio", DoubleType)
    .add("bytes_ratio", DoubleType)
    .add("ms_ratio", DoubleType)
    .add("hot_keys", HotKeys)
    .add("hints", ArrayType(StringType, containsNull = false))

  /** @param skew whether to add a row for each task */
  def rows(figures: QueryFigures, skew: Boolean, now: Long): Seq[Row] = {
    val rows = new ExplainAnalyze(figures, skew, now)
    figures.roots.flatMap(rows.operator(_, 0))
  }

  /** The row of an arrangement that the query maintains. */
  def arrangement(name: String, rows: Long, bytes: Long, hints: Seq[String]): Row = {
    val figures = Map[String, Any](
      "plan" -> s"arrangement $name",
      "rows_kept" -> rows,
      "bytes_kept" -> bytes,
      "hints" -> hints
    )
    Row.fromSeq(Schema.fieldNames.toSeq.map(figures.getOrElse(_, null)))
  }
}

final private class ExplainAnalyze(query: QueryFigures, skew: Boolean, now: Long) {
  private val hints = new Hints(query, now, query.showsKeys)

  def operator(of: OperatorFigures, depth: Int): Seq[Row] = {
    val outline = of.outline
    val whole = row(
      s"${"  " * depth}${outline.ordinal + 1} ${outline.title}",
      of,
      rowsIn = outline.inputs.map(input => of.rowsIn(query.ofMinute, input)).sum,
      rowsOut = Some(of.sum(query.ofMinute, "rowsOut")),
      late = Some(of.late(query.ofMinute)),
      padded = Some(of.sum(query.ofMinute, "paddedRows")),
      rowsKept = of.sum(_.rows.sum),
      bytesKept = of.sum(_.bytes.sum),
      memory = Some(of.sum(_.indexBytes)),
      phases = Some(of.phases.toMap),
      hints = hints.ofOperator(of)
    )
    val tasks = if (skew) of.reports.toSeq.sortBy(_._1).map { case (task, _) => ofTask(of, task, depth + 1) }
    else Nil
    val inputs = outline.inputs.zipWithIndex.flatMap { case (input, at) =>
      this.input(of, input, at, depth + 1) +: of.below.lift(at).toSeq.flatten.flatMap(operator(_, depth + 2))
    }
    (whole +: tasks) ++ inputs
  }

  private def input(of: OperatorFigures, input: InputOutline, at: Int, depth: Int): Row = {
    val awaited = of.awaited(input)
    row(
      s"${"  " * depth}${input.side.fold("")(_ + ": ")}${input.name}",
      of,
      side = input.side,
      rowsIn = of.rowsIn(query.ofMinute, input),
      late = input.side.map(side => of.sum(query.ofMinute, Figures.ofSide(Some(side), "lateRows"))),
      rowsKept = of.sum(_.rows(at)),
      bytesKept = of.sum(_.bytes(at)),
      watermarks = Some(of.columns(input).map { key =>
        val watermark = of.watermark(key)
        val lag =
          for (value <- watermark; newest <- of.newest(key) if newest >= value) yield (newest - value) / 1000
        Row(
          of.outline.columns(key),
          watermark.map(EventTimeText.of(_: Long)).orNull,
          lag.map(Long.box).orNull,
          of.heldBy(key).orNull
        )
      }),
      oldest = of.oldest(input),
      leavesBy = awaited.map(_.column),
      leavesAfter = awaited.map(_.after),
      hotKeys = Option.when(skew)(of.observed.hotKeys(at)),
      hints = hints.ofInput(of, input, at)
    )
  }

  private def ofTask(of: OperatorFigures, task: Int, depth: Int): Row = {
    val own = of.reports(task)
    def ratio(figure: TaskReport => Long): Double = {
      val all = of.sum(figure)
      if (all == 0) 1.0 else figure(own).toDouble * of.reports.size / all
    }
    row(
      s"${"  " * depth}task $task",
      of,
      task = Some(task),
      rowsIn = own.in.sum,
      rowsOut = Some(own.out),
      rowsKept = own.rows.sum,
      bytesKept = own.bytes.sum,
      memory = Some(own.indexBytes),
      phases = Some(Map("task" -> own.millis)),
      ratios = Seq(ratio(_.rows.sum), ratio(_.bytes.sum), ratio(_.millis))
    )
  }

  private def row(
      plan: String,
      of: OperatorFigures,
      rowsIn: Long,
      rowsKept: Long,
      bytesKept: Long,
      side: Option[String] = None,
      task: Option[Int] = None,
      rowsOut: Option[Long] = None,
      late: Option[Long] = None,
      padded: Option[Long] = None,
      memory: Option[Long] = None,
      phases: Option[Map[String, Long]] = None,
      watermarks: Option[Seq[Row]] = None,
      oldest: Option[Long] = None,
      leavesBy: Option[String] = None,
      leavesAfter: Option[Long] = None,
      ratios: Seq[Double] = Nil,
      hotKeys: Option[Seq[(String, Double)]] = None,
      hints: Seq[String] = Nil
  ): Row = Row(
    plan,
    of.outline.ordinal + 1,
    side.orNull,
    task.map(Int.box).orNull,
    rowsIn,
    rowsOut.map(Long.box).orNull,
    late.map(Long.box).orNull,
    padded.map(Long.box).orNull,
    rowsKept,
    bytesKept,
    memory.map(Long.box).orNull,
    phases.orNull,
    watermarks.orNull,
    oldest.map(EventTimeText.of(_: Long)).orNull,
    leavesBy.orNull,
    leavesAfter.map(EventTimeText.of(_: Long)).orNull,
    ratios.lift(0).map(Double.box).orNull,
    ratios.lift(1).map(Double.box).orNull,
    ratios.lift(2).map(Double.box).orNull,
    hotKeys.map(_.map { case (key, share) => Row(key, share) }).orNull,
    hints
  )
}
