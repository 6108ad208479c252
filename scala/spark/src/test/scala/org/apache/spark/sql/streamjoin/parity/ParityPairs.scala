package org.apache.spark.sql.streamjoin.parity

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.expr

/** The joins that other operators are put above: orders with their deliveries. */
private[streamjoin] object ParityPairs {
  val Bound = "d.t BETWEEN o.t - INTERVAL 5 MINUTES AND o.t + INTERVAL 20 MINUTES"
  val Both: String = s"o.id = d.id AND $Bound"

  def pairs(in: ParityInputs): DataFrame =
    in.o.join(in.d, expr(Both)).selectExpr("o.id", "o.t", "o.v", "d.v AS w").as("p")

  def padded(in: ParityInputs): DataFrame =
    in.o
      .where("t IS NOT NULL")
      .join(in.d, expr(Both), "left_outer")
      .selectExpr("o.id", "o.t", "o.v", "d.v AS w")
      .as("p")

  /** Rows of `o` with a time, and their matches in `d`. */
  def leftOuter(o: DataFrame, d: DataFrame, on: String = Both): DataFrame =
    o.where("t IS NOT NULL").join(d, expr(on), "left_outer").select("o.id", "o.v", "d.v")
}
