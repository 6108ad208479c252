package org.apache.spark.sql.streamjoin.observe.read

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.GetStructField
import org.apache.spark.sql.classic.ExpressionUtils.{column, expression}
import org.apache.spark.sql.functions.{column => _, _}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.base.{EventTimeText, FunctionTable, JsonValues, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, OperatorOutline}
import org.apache.spark.sql.streamjoin.registry.OperatorKinds
import org.apache.spark.sql.types.StructType
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

  /** Batches before a change of the query have other rows, and Spark's own join has other state. */
  private val looked: Seq[Long] = {
    val last = at.batches.last
    val first = at.operators.map(at.firstBatch).max
    at.batches
      .takeRight(batches)
      .filter(batch => batch == last || batch >= first && at.operators(batch) == at.operators)
  }
  private val last = looked.last

  /** @throws org.apache.spark.sql.AnalysisException if no input has the columns of the condition */
  def answer: DataFrame = {
    val asked = for (operator <- at.operators; input <- operator.inputs) yield {
      val (errors, views) = viewsOf(input).partitionMap(view => problem(input, view).toLeft(view))
      (operator, input, views, errors)
    }
    val answers = asked.collect {
      case (operator, input, views, _) if views.nonEmpty =>
        kept(operator, input, views).union(late(operator, input, views))
    }
    if (answers.isEmpty) throw asked.flatMap(_._4).find(!isOfColumns(_)).getOrElse(unknownColumns)
    val found = answers.reduce(_ union _)
    found.union(nothing.join(found.agg(count(lit(1)).as("found")).where("found = 0"), lit(true), "left_semi"))
  }

  /**
   * The columns of an input that the condition sees, by their positions. If several have one name,
   * as in the output of another join, it sees each in turn, and a row that satisfies it once is
   * found.
   */
  private def viewsOf(input: InputOutline): Seq[Seq[Int]] = {
    def name(position: Int) = {
      val exact = input.columns(position).name
      if (SQLConf.get.caseSensitiveAnalysis) exact else exact.toLowerCase(Locale.ROOT)
    }
    val byName = input.columns.indices.groupBy(name).values.toSeq
    (0 until byName.map(_.size).maxOption.getOrElse(1)).map { turn =>
      byName.map(same => same(math.min(turn, same.size - 1))).sorted
    }
  }

  /** Why Spark cannot analyze the condition on these columns of an input, if it cannot. */
  private def problem(input: InputOutline, view: Seq[Int]): Option[AnalysisException] =
    try {
      at.session
        .createDataFrame(
          java.util.Collections.emptyList[org.apache.spark.sql.Row](),
          StructType(view.map(input.columns(_)))
        )
        .as(input.name)
        .where(condition): Unit
      None
    } catch { case error: AnalysisException => Some(error) }

  private def isOfColumns(error: AnalysisException): Boolean =
    Option(error.getCondition).exists(_.startsWith("UNRESOLVED_COLUMN"))

  /** Those of some rows of an input, and the data kept with them, that satisfy the condition. */
  private def satisfying(rows: DataFrame, input: InputOutline, views: Seq[Seq[Int]]): DataFrame = {
    def field(position: Int) =
      column(GetStructField(expression(col(Row)), position)).as(input.columns(position).name)
    val found = views.map { view =>
      rows.select(view.map(field) :+ col(Row) :+ col(Kept): _*).as(input.name).where(condition)
    }
    found.map(_.select(Row, Kept)).reduce(_ union _)
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

  /** The state of an input after a batch: its rows, and the data that is kept with them. */
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
        col(row).as(Row),
        struct(lit(batch).as("batch"), col("matched"), col("leaves_by"), col("leaves_after"), col("kept_as"))
          .as(Kept)
      )
  }

  private def kept(operator: OperatorOutline, input: InputOutline, views: Seq[Seq[Int]]): DataFrame = {
    def of(field: String): Column = col(s"$Kept.$field")
    val rows = looked
      .map(batch => satisfying(stateAfter(batch, operator, input), input, views))
      .reduce(_ union _)
      .groupBy(to_json(column(JsonValues.of(expression(col(Row)), StateRow.columns(input))), Json).as("row"))
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

  private def late(operator: OperatorOutline, input: InputOutline, views: Seq[Seq[Int]]): DataFrame =
    QueryLateRows.kept(at.session, at.root) match {
      case None => none
      case Some(rows) =>
        val ofInput = rows
          .where(col("join") === operator.ordinal + 1)
          .where(input.side.fold(lit(true))(side => col("side") === side))
          .select(
            from_json(col("row"), JsonValues.typeOf(StateRow.columns(input)), Json).as(Row),
            struct(col("batch"), col("column"), col("watermark"), col("row")).as(Kept)
          )
        val found = satisfying(ofInput, input, views)
        // A row may satisfy the condition in several views.
        (if (views.size > 1) found.dropDuplicates(Kept) else found)
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
