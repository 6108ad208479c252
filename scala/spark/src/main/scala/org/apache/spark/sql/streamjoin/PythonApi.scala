package org.apache.spark.sql.streamjoin

import java.util.{List => JList, Map => JMap, Properties}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.plans.logical.{Join, Project}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.analysis.WindowJoin
import org.apache.spark.sql.streamjoin.rules.{BoundsOfQuery, LateRowsOfQuery, RecognizeJoins}
import org.apache.spark.sql.{Column, DataFrame, Dataset, Row, SparkSession}

import streamjoin.core.{JoinWindow, JoinWindows, Side}

/** Everything that the Python package calls. */
object PythonApi {

  private lazy val versions: Properties = {
    val properties = new Properties
    val in = getClass.getResourceAsStream("/streamjoin/version.properties")
    assert(in != null, "streamjoin/version.properties is missing from the jar")
    try properties.load(in)
    finally in.close()
    properties
  }

  /** The version of streamjoin in this jar. */
  def version: String = versions.getProperty("version")

  /** The version of Spark that this jar was built for. */
  def sparkVersion: String = versions.getProperty("spark")

  /** Whether the extension is enabled in this session. */
  def installed(session: SparkSession): Boolean = session match {
    case classic: ClassicSession =>
      classic.sessionState.optimizer.preCBORules.exists(_.isInstanceOf[RecognizeJoins])
    case _ => false
  }

  /**
   * The rows that the joins of a query have dropped as late, as a table or as a stream. See
   * [[operators.LateRows.Schema]].
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if the query does not keep them
   */
  def lateRows(session: SparkSession, query: StreamingQuery, streaming: Boolean): DataFrame =
    LateRowsOfQuery.of(session, query, streaming)

  /**
   * A join with a window over one input, in rowtime order.
   *
   * @param joined
   *   the join without the window
   * @param side
   *   input with the window, `left` or `right`
   * @param micros
   *   length of the window, in microseconds
   * @param following
   *   whether the window begins at the other side's row; otherwise it ends there
   */
  def windowJoin(joined: DataFrame, side: String, micros: Long, following: Boolean): DataFrame = {
    val over = Side.both.find(_.name == side).get
    windowJoin(joined, JoinWindows(Map(over -> JoinWindow(micros, following))))
  }

  private[streamjoin] def windowJoin(joined: DataFrame, windows: JoinWindows): DataFrame = {
    val classic = joined.asInstanceOf[ClassicDataset[Row]]
    val plan = classic.queryExecution.analyzed match {
      case names @ Project(_, join: Join) => WindowJoin.of(join, Some(names), windows)
      case join: Join => WindowJoin.of(join, None, windows)
      case other => throw new IllegalArgumentException(s"no join: $other")
    }
    ClassicDataset.ofRows(classic.sparkSession, plan)
  }

  /** The rows of a stream in ascending order of an event-time column. */
  def ordered(df: DataFrame, column: String): DataFrame = StreamInputs.ordered(df, column)

  /** [[StreamInputs.imposeOrder]] */
  def imposeOrder(df: Dataset[Row], time: String, lag: String): DataFrame =
    StreamInputs.imposeOrder(df, time, lag)

  /** [[StreamInputs.withBounds]], with null for omitted arguments */
  def withBounds(df: Dataset[Row], time: String, isBound: String, lag: String, per: String): DataFrame =
    StreamInputs.withBounds(df, time, isBound, Option(lag), Option(per))

  /** [[StreamInputs.idleAfter]] */
  def idleAfter(df: Dataset[Row], timeout: String): DataFrame = StreamInputs.idleAfter(df, timeout)

  /** [[TemporalJoins.temporal]], with null for omitted arguments */
  def temporalJoin(
      joined: Dataset[Row],
      key: JList[String],
      time: String,
      op: String,
      order: String,
      asOf: String,
      history: String,
      ordered: Boolean
  ): DataFrame = TemporalJoins.temporal(
    joined,
    key.asScala.toSeq,
    time,
    Option(op),
    asOf,
    Option(history),
    Option(order),
    ordered
  )

  /** [[TemporalJoins.asof]], with null for omitted arguments */
  def asofJoin(joined: Dataset[Row], condition: Column, tolerance: String, ordered: Boolean): DataFrame =
    TemporalJoins.asof(joined, condition, Option(tolerance), ordered)

  /** [[TemporalJoins.asof]], with null for omitted arguments */
  def asofJoin(joined: Dataset[Row], condition: String, tolerance: String, ordered: Boolean): DataFrame =
    TemporalJoins.asof(joined, condition, Option(tolerance), ordered)

  /** [[TemporalJoins.asof]], with null for omitted arguments */
  def asofJoin(
      joined: Dataset[Row],
      leftTime: String,
      rightTime: String,
      direction: String,
      allowsExact: Boolean,
      tolerance: String,
      ordered: Boolean
  ): DataFrame =
    TemporalJoins.asof(joined, leftTime, rightTime, direction, allowsExact, Option(tolerance), ordered)

  /** [[Arrangements.arrange]], with null for omitted arguments */
  def arrange(
      df: Dataset[Row],
      nameOrPath: String,
      keys: JList[JList[String]],
      op: String,
      diff: String,
      time: String,
      order: String
  ): DataFrame = {
    val columns = keys.asScala.map(_.asScala.toSeq).toSeq
    Arrangements.arrange(df, nameOrPath, columns, Option(op), Option(diff), Option(time), Option(order))
  }

  /**
   * [[DeltaJoins.of]]
   *
   * @param aliases
   *   name of each input in the condition
   * @param names
   *   name or path of each input's arrangement
   * @param outer
   *   numbers of the inputs whose unmatched rows are in the result too
   */
  def deltaJoin(
      session: SparkSession,
      aliases: JList[String],
      names: JList[String],
      on: String,
      select: JList[String],
      outer: JList[Integer],
      options: JMap[String, String]
  ): DataFrame = {
    val inputs = aliases.asScala.zip(names.asScala).toSeq
    DeltaJoins.of(
      session,
      inputs,
      on,
      select.asScala.toSeq,
      outer.asScala.map(_.intValue).toSet,
      options.asScala.toMap
    )
  }

  /** [[DeltaJoins.ofTables]], or null */
  def joinOfTables(joined: Dataset[Row]): DataFrame = DeltaJoins.ofTables(joined).orNull

  /**
   * The time bounds of all stream-stream joins in a DataFrame, one per row: number of the join,
   * from the inputs up; side whose rows the bound keeps; the user's name for that input; its
   * event-time column; the bound; what it keeps; the conjunct it comes from, and where that is. An
   * event-time column without a bound has a row that says where its watermark comes from.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   for a join that `start()` would reject
   */
  def bounds(df: Dataset[Row]): DataFrame = {
    val analyzed = df.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed
    df.sparkSession.createDataFrame(
      BoundsOfQuery.rows(analyzed, df.sparkSession).asJava,
      BoundsOfQuery.Schema
    )
  }
}
