package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.watermark.NamedSources
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** Joins with a new source that are added to a running query and removed. */
class AddedSourcesSuite extends AnyFunSuite with SparkTest with NamedSources {
  private val Evolve = "spark.streamjoin.evolve"

  override protected def settings: Map[String, String] =
    Map(
      "spark.sql.streaming.queryEvolution.enableSourceEvolution" -> "true",
      // By default, Spark finds even sources with names by their positions.
      "spark.sql.streaming.offsetLog.formatVersion" -> "2"
    )

  private def lower(inputs: Inputs): DataFrame = inputs
    .stream("o")
    .join(inputs.stream("d"), expr("o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"))
    .selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b")
    .as("f")

  private def upper(inputs: Inputs): DataFrame = lower(inputs)
    .join(inputs.stream("e"), expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"), "left_outer")
    .selectExpr("a", "b", "e.v AS c")

  /** The third stream comes first in the plan. */
  private def mirrored(inputs: Inputs): DataFrame = inputs
    .stream("e")
    .join(lower(inputs), expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"), "right_outer")
    .selectExpr("a", "b", "e.v AS c")

  private def shown(rows: Seq[Row]): Seq[String] =
    rows.map(_.toSeq.map(cell => if (cell == null) "-" else cell.toString).mkString(" ")).sorted

  private def begin(inputs: Inputs): Unit = {
    inputs.write("o", "a,2024-06-01T10:00:00Z,1", "b,2024-06-01T10:30:00Z,2")
    inputs.write("d", "a,2024-06-01T10:10:00Z,3")
    // Read from its beginning once it is there.
    inputs.write("e", "a,2024-06-01T10:20:00Z,4", "b,2024-06-01T10:40:00Z,5")
  }

  private def more(inputs: Inputs): Unit = {
    inputs.write("d", "b,2024-06-01T10:50:00Z,6")
    inputs.write("o", "c,2024-06-01T12:00:00Z,7")
    inputs.write("d", "c,2024-06-01T12:00:00Z,8")
  }

  private def end(inputs: Inputs): Unit =
    for (name <- Seq("o", "d", "e")) inputs.write(name, s"$name,2024-06-01T23:00:00Z,999")

  private val places = Seq[(String, Inputs => DataFrame)]("last" -> upper, "first" -> mirrored)

  for ((name, joined) <- SparkTest.part(places, every = 2, from = 1))
    test(s"a join with a new source is added, which comes $name in the plan, and removed") {
      val (inputs, checkpoint) = (new Inputs, newFolder())
      begin(inputs)
      assert(shown(run(lower(inputs).select("a", "b"), checkpoint)) == Seq("1 3"))
      val change = streamjoin.StreamJoin.evolution(joined(inputs), checkpoint).collect().map(_.toSeq).toSeq
      // All rows of the new source are there, but those of 10:30 have passed.
      assert(
        change.map(_.slice(1, 6)) == Seq(
          Seq(
            "join 2",
            "none",
            s"${if (name == "last") "left" else "right"} outer interval join",
            "empty",
            "complete from 2024-06-01T11:30:00.001Z"
          )
        )
      )
      more(inputs)
      withConf(Evolve -> "allow") {
        assert(shown(run(joined(inputs), checkpoint)) == Seq("2 6 5"))
        end(inputs)
        assert(shown(run(joined(inputs), checkpoint)) == Seq("7 8 -"))
      }
      withConf(Evolve -> "exact") {
        inputs.write("o", "z,2024-06-01T23:10:00Z,9")
        inputs.write("d", "z,2024-06-01T23:10:00Z,10")
        assert(shown(run(lower(inputs).select("a", "b"), checkpoint)) == Seq("9 10"))
      }
    }

  test("a whole branch is added, with results from its beginning") {
    val (inputs, checkpoint) = (new Inputs, newFolder())
    begin(inputs)
    assert(shown(run(lower(inputs).select("a", "b"), checkpoint)) == Seq("1 3"))
    inputs.write("p", "x,2024-06-01T09:00:00Z,11")
    inputs.write("q", "x,2024-06-01T09:10:00Z,12")
    val within = "p.id = q.id AND q.t BETWEEN p.t AND p.t + INTERVAL 1 HOUR"
    val branch = inputs.stream("p").join(inputs.stream("q"), expr(within)).selectExpr("p.v AS a", "q.v AS b")
    more(inputs)
    withConf(Evolve -> "exact") {
      assert(
        shown(run(branch.union(lower(inputs).select("a", "b")), checkpoint)) == Seq("11 12", "2 6", "7 8")
      )
    }
    end(inputs)
    assert(run(branch.union(lower(inputs).select("a", "b")), checkpoint).isEmpty)
  }

  test("a join over other sources does not continue with the state of one") {
    val (inputs, checkpoint) = (new Inputs, newFolder())
    begin(inputs)
    run(lower(inputs).select("a", "b"), checkpoint): Unit
    val other = inputs
      .stream("o")
      .join(inputs.stream("e").as("d"), expr("o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"))
      .selectExpr("o.v AS a", "d.v AS b")
    withConf(Evolve -> "allow") {
      val error = intercept[AnalysisException](run(other, checkpoint))
      assert(error.getMessageParameters.get("what") == "inputs")
    }
  }
}
