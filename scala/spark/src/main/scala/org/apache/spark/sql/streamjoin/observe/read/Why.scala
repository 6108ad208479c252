package org.apache.spark.sql.streamjoin.observe.read

import org.apache.spark.sql.classic.ExpressionUtils.{column, expression}
import org.apache.spark.sql.functions.{column => _, _}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.base.{EventTimeText, FunctionTable, JsonValues, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, OperatorOutline}
import org.apache.spark.sql.streamjoin.registry.OperatorKinds
import org.apache.spark.sql.{AnalysisException, Column, DataFrame}

/**
 * What happened to the rows that satisfy a condition: they wait in an input's state, have left it,
 * or were dropped as late. It reads the state after each of the last batches, and the late rows.
 *
 * @param condition
 *   as SQL text, on the columns of an input
 * @param batches
 *   how many batches to look back
 * @param running
 *   the query, if it is running
 */
final private[streamjoin] class Why(
    at: CheckpointInspector,
    condition: String,
    batches: Int,
    running: Option[StreamingQuery]
) {
  import Why._

  /** Batches before a change of the query have other rows. */
  private val looked: Seq[Long] =
    at.batches.takeRight(batches).filter(batch => at.operators(batch) == at.operators)
  private val last = looked.last

  /** @throws org.apache.spark.sql.AnalysisException if no input has the columns of the condition */
  def answer: DataFrame = {
    val inputs = for {
      operator <- at.operators
      input <- operator.inputs if has(input)
    } yield operator -> input
    if (inputs.isEmpty) throw unknownColumns
    val found = inputs
      .map { case (operator, input) => kept(operator, input).union(late(operator, input)) }
      .reduce(_ union _)
    found.union(nothing.join(found.agg(count(lit(1)).as("found")).where("found = 0"), lit(true), "left_semi"))
  }

  private def rowsOf(of: InputOutline): DataFrame =
    at.session
      .createDataFrame(java.util.Collections.emptyList[org.apache.spark.sql.Row](), of.columns)
      .as(of.name)

  private def has(input: InputOutline): Boolean =
    try {
      rowsOf(input).where(condition): Unit
      true
    } catch {
      case missing: AnalysisException if missing.getCondition.startsWith("UNRESOLVED_COLUMN") => false
    }

  private def unknownColumns = StreamJoinErrors.analysis(
    "STREAMJOIN_TABLE_FUNCTION.CONDITION",
    "call" -> Call.name,
    "condition" -> condition,
    "example" -> Call.example,
    "inputs" -> at.operators
      .flatMap(operator =>
        operator.inputs.map(input => s"${operator.ordinal + 1} ${input.name}(${input.columns.toDDL})")
      )
      .mkString("; ")
  )

  /**
   * The state of an input after a batch: the columns of its rows, and the data that is kept with
   * them.
   */
  private def stateAfter(batch: Long, operator: OperatorOutline, input: InputOutline): DataFrame = {
    val options = Map(
      StateOptions.Checkpoint -> at.root.toString,
      StateOptions.Operator -> (operator.ordinal + 1).toString,
      StateOptions.Batch -> batch.toString
    ) ++ input.side.map(StateOptions.Side -> _)
    val row = input.side.getOrElse("row")
    at.session.read
      .format("streamjoin")
      .options(options)
      .load()
      .select(
        col(s"$row.*"),
        col(row).as(Row),
        struct(lit(batch).as("batch"), col("matched"), col("leaves_by"), col("leaves_after"), col("kept_as"))
          .as(Kept)
      )
      .as(input.name)
  }

  private def kept(operator: OperatorOutline, input: InputOutline): DataFrame = {
    def of(field: String): Column = col(s"$Kept.$field")
    val rows = looked
      .map(stateAfter(_, operator, input).where(condition).select(Row, Kept))
      .reduce(_ union _)
      .groupBy(to_json(column(JsonValues.of(expression(col(Row)), input.columns)), Json).as("row"))
      .agg(
        max(of("batch")).as("seen"),
        min(of("batch")).as("first"),
        min(when(of("matched"), of("batch"))).as("matched_in"),
        max_by(of("leaves_by"), of("batch")).as("leaves_by"),
        max_by(of("leaves_after"), of("batch")).as("leaves_after"),
        max_by(of("kept_as"), of("batch")).as("kept_as")
      )
    val isThere = col("seen") === last
    val isByKey = col("leaves_by").isNull
    rows.select(
      lit(operator.ordinal + 1).as("operator"),
      lit(input.side.orNull).cast("string").as("side"),
      lit(input.name).as("input"),
      col("row"),
      when(isThere, lit(if (input.recordsMatches) "waiting" else "kept")).otherwise("left").as("outcome"),
      when(isThere, lit(last)).otherwise(col("seen") + 1).as("batch"),
      when(
        isThere && isByKey,
        concat(lit("It is the "), col("kept_as"), lit(", which stays until a newer row of its key arrives."))
      ).when(
        isThere,
        concat(lit(s"It is in state after batch $last. "), matches(input), awaited(operator))
      ).otherwise(
        concat(
          lit("It was in state until batch "),
          col("seen"),
          lit(" and left in the next batch: "),
          leaving(operator, input)
        )
      ).as("why")
    )
  }

  private def matches(input: InputOutline): Column =
    if (!input.recordsMatches) lit("")
    else
      when(col("matched_in").isNull, lit("It has not matched. "))
        .when(
          col("matched_in") === looked.head,
          concat(lit("It matched in batch "), col("matched_in"), lit(" or earlier. "))
        )
        .otherwise(concat(lit("It first matched in batch "), col("matched_in"), lit(". ")))

  /** Which watermark has to reach which time, where it is now, and which input holds it back. */
  private def awaited(operator: OperatorOutline): Column = {
    val now = operator.columns.zip(at.watermarks(operator, last)).map { case (column, watermark) =>
      val held = heldBy(operator, column).fold("")(input => s", held back by $input")
      s"$column" -> watermark.fold(s"undefined$held")(micros => s"${EventTimeText.of(micros)}$held")
    }
    val byColumn = map(
      now.distinctBy(_._1).flatMap { case (column, text) => Seq(lit(column), lit(text)) }: _*
    )
    concat(
      lit("It leaves once the watermark of "),
      col("leaves_by"),
      lit(" is later than "),
      EventTimeText.of(col("leaves_after")),
      lit(" (now "),
      element_at(byColumn, col("leaves_by")),
      lit(").")
    )
  }

  private lazy val figures: Seq[OperatorFigures] = running.flatMap(QueryFigures.of).toSeq.flatMap(_.all)

  private def heldBy(operator: OperatorOutline, column: String): Option[String] = for {
    now <- figures.find(_.outline.ordinal == operator.ordinal)
    key <- Some(operator.columns.indexOf(column)).filter(_ >= 0)
    input <- now.heldBy(key)
  } yield input

  private def leaving(operator: OperatorOutline, input: InputOutline): Column =
    OperatorKinds
      .named(operator.kind)
      .fold(lit("it was emitted, or it expired."))(_.whyLeft(input, col("matched_in")))

  private def late(operator: OperatorOutline, input: InputOutline): DataFrame =
    QueryLateRows.kept(at.session, at.root) match {
      case None => none
      case Some(rows) =>
        rows
          .where(col("join") === operator.ordinal + 1)
          .where(input.side.fold(lit(true))(side => col("side") === side))
          .select(
            from_json(col("row"), JsonValues.typeOf(input.columns), Json).as(Row),
            struct(col("batch"), col("column"), col("watermark"), col("row")).as(Kept)
          )
          .select(col(s"$Row.*"), col(Kept))
          .as(input.name)
          .where(condition)
          .select(
            lit(operator.ordinal + 1),
            lit(input.side.orNull).cast("string"),
            lit(input.name),
            col(s"$Kept.row"),
            lit("late"),
            col(s"$Kept.batch"),
            concat(
              lit("It arrived too late: in batch "),
              col(s"$Kept.batch"),
              lit(", the watermark of "),
              col(s"$Kept.column"),
              lit(" was "),
              EventTimeText.of(col(s"$Kept.watermark")),
              when(
                col(s"$Kept.watermark") > current_timestamp() + expr("INTERVAL 1 HOUR"),
                lit(
                  ", which is in the future. A row has moved it there: sj.explain_analyze(query) shows what to write."
                )
              ).otherwise(lit(". A longer delay in withWatermark keeps such rows."))
            )
          )
    }

  private def none: DataFrame = nothing.where(lit(false))

  private def nothing: DataFrame = {
    val keptLate = QueryLateRows.kept(at.session, at.root).isDefined
    val lateWords =
      if (keptLate) "nor among the late rows"
      else "and late rows are not kept (spark.streamjoin.lateRows=keep keeps them)"
    at.session
      .range(1)
      .select(
        lit(null).cast("int").as("operator"),
        lit(null).cast("string").as("side"),
        lit(null).cast("string").as("input"),
        lit(null).cast("string").as("row"),
        lit("not seen").as("outcome"),
        lit(last).as("batch"),
        lit(
          s"It is not in the state after the batches ${looked.head} to $last, $lateWords. Possible reasons: it has not " +
            "arrived, a filter below the join removed it, it could not match (a null in a key or a time), or it was " +
            "emitted without being kept, or left the state earlier."
        ).as("why")
      )
  }
}

private[streamjoin] object Why {
  private val Call = FunctionTable.byId("why").calls.head

  private val Row = "__row"
  private val Kept = "__kept"

  private val Json = {
    val options = new java.util.HashMap[String, String]
    options.put("ignoreNullFields", "false")
    options
  }
}
