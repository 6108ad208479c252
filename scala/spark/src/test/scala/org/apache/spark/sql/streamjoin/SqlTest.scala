package org.apache.spark.sql.streamjoin

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{AnalysisException, DataFrame}

/** Queries in SQL over the views `o` and `d`, two streams of events. */
private[streamjoin] trait SqlTest extends JoinTest { this: AnyFunSuite =>
  import JoinTest._

  /** Recreates the views at each start of a job. */
  protected def sql(text: String, inputs: String*): Streams => DataFrame = streams => {
    (inputs ++ Seq("o", "d")).foreach(name => streams.marked(name).createOrReplaceTempView(name))
    spark.sql(text)
  }

  protected lazy val views: Unit = {
    val streams = newStreams()
    Seq("o", "d", "r").foreach(name => streams.marked(name).createOrReplaceTempView(name))
    streams.raw("raw").createOrReplaceTempView("raw")
    spark
      .sql("SELECT '' AS id, TIMESTAMP '2024-06-01 10:00:00' AS t, 0 AS v")
      .createOrReplaceTempView("batch")
  }

  /** The rejection of a text, and the words that its arrows point at. */
  protected def rejected(text: String): (AnalysisException, String) = {
    views
    val error = intercept[AnalysisException](spark.sql(text))
    (error, pointedAt(error.getMessage))
  }

  private def pointedAt(message: String): String = {
    val lines = message.linesIterator.toSeq
    lines
      .zip(lines.drop(1))
      .collectFirst {
        case (text, arrows) if arrows.contains("^") && arrows.trim.forall(_ == '^') =>
          text.slice(arrows.indexOf('^'), arrows.lastIndexOf('^') + 1)
      }
      .getOrElse("")
  }
}
