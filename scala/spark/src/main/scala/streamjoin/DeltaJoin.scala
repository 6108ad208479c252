package streamjoin

import java.util.{List => JList}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streamjoin.ScalaApi.invoke
import org.apache.spark.sql.streamjoin.joins.delta.DeltaJoins
import org.apache.spark.sql.{DataFrame, SparkSession}

/**
 * Joins arrangements and returns the changes of the result as a stream, including updates and
 * deletes. A change in one input looks up the others by their indexes, so the query keeps no rows.
 *
 * {{{
 * StreamJoin
 *   .delta(spark)
 *   .input("c", "customers")
 *   .input("o", "orders")
 *   .on("c.customer_id = o.customer_id")
 *   .select("c.name", "o.total")
 *   .toDF()
 * }}}
 *
 * The result has the selected columns, then `_time` and `_diff`. `_time` is the latest time of the
 * joined rows; it exists only if all inputs were arranged with a time. `_diff` is the number of
 * copies of the row that are added, or removed if it is negative.
 */
final class DeltaJoin private[streamjoin] (spark: SparkSession) {
  private var inputs = Seq.empty[(String, String)]
  private var condition = Option.empty[String]
  private var columns = Seq.empty[String]
  private var how = "inner"
  private var options = Map.empty[String, String]

  /**
   * Adds an input.
   *
   * @param alias
   *   the name of the input in the condition
   * @param nameOrPath
   *   an arrangement, by its name in `spark.streamjoin.arrangements` or by its path
   */
  def input(alias: String, nameOrPath: String): DeltaJoin = set(inputs :+= alias -> nameOrPath)

  /** Adds an arrangement as an input, with its name in the condition. */
  def input(alias: String, arrangement: Arrangement): DeltaJoin = input(alias, arrangement.path)

  /** Sets the condition, as SQL text. It needs equalities on the columns of a key of each input. */
  def on(condition: String): DeltaJoin = set { this.condition = Some(condition) }

  /** Sets the columns of the result, as SQL text. Default: all columns. */
  @varargs def select(columns: String*): DeltaJoin = set { this.columns = columns }

  /** Sets the columns of the result, as SQL text. */
  def select(columns: JList[String]): DeltaJoin = set { this.columns = columns.asScala.toSeq }

  /**
   * Sets the join type: `inner`, or for two inputs also `left`, `right` or `full`, in any of
   * Spark's spellings. Default: `inner`.
   */
  def joinType(joinType: String): DeltaJoin = set { how = joinType }

  /** Sets the maximum number of versions of each input in a batch. */
  def maxVersionsPerTrigger(versions: Int): DeltaJoin = option("maxVersionsPerTrigger", versions.toString)

  /** Sets the approximate number of rows of each input in a batch. */
  def maxRowsPerTrigger(rows: Long): DeltaJoin = option("maxRowsPerTrigger", rows.toString)

  /** Sets an option of all inputs. */
  def option(name: String, value: String): DeltaJoin = set(options += name -> value)

  /** Returns the changes of the join as a stream. */
  def toDF(): DataFrame = {
    val joined = DeltaJoins.written(spark, inputs, condition, columns, options)
    invoke(joined, "sj_delta_join")("names" -> inputs.map(_._1), "how" -> how)
  }

  private def set(change: => Unit): DeltaJoin = {
    change
    this
  }
}
