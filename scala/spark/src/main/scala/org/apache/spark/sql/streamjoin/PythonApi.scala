package org.apache.spark.sql.streamjoin

import java.util.Properties

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.analysis.{InputName, JoinNames}
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.sql.{DataFrame, Dataset, Row, SparkSession}

/** What the Python package calls, all of it. */
object PythonApi {

  private lazy val versions: Properties = {
    val properties = new Properties
    val in = getClass.getResourceAsStream("/streamjoin/version.properties")
    assert(in != null, "streamjoin/version.properties is missing from the jar")
    try properties.load(in)
    finally in.close()
    properties
  }

  /** The version of streamjoin that this jar has. */
  def version: String = versions.getProperty("version")

  /** The version of Spark that this jar was built for. */
  def sparkVersion: String = versions.getProperty("spark")

  /** The extension is switched on in this session. */
  def installed(session: SparkSession): Boolean = session match {
    case classic: ClassicSession => classic.sessionState.optimizer.preCBORules.contains(RecognizeJoins)
    case _ => false
  }

  private val BoundsSchema: StructType =
    Seq("side", "column", "bound", "keeps", "conjunct").foldLeft(new StructType)(
      _.add(_, StringType, nullable = false)
    )

  /**
   * The time bounds of every join of two streams in a DataFrame, a row each: the input whose rows it keeps, its event-time
   * column, the bound, what it keeps, and the conjunct that it came from.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   for a join that `start()` would refuse
   */
  def bounds(df: Dataset[Row]): DataFrame = {
    val plan = PrepareStreamingQuery.visible(df.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed)
    val inputs = InputName.of(plan)
    val rows = for {
      join <- StreamJoins.of(plan, df.sparkSession)
      names = JoinNames.of(join.plan, join.left.output, join.right.output, inputs)
      words <- join.plan.found.map(names.bound)
    } yield Row(words.side, words.column, words.bound, words.keeps, words.conjunct)
    df.sparkSession.createDataFrame(rows.asJava, BoundsSchema)
  }
}
