package streamjoin

import java.util.{List => JList}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.streamjoin.joins.delta.DeltaJoins
import org.apache.spark.sql.{DataFrame, SparkSession}

/**
 * A join of arrangements, inserts, updates and deletes included, as a stream of changes of the
 * result. What changes in one input looks up the others by their indexes; the query keeps no row.
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
 * The result has the selected columns; `_time`, the latest time of the joined rows, if all inputs
 * were arranged with one; and `_diff`, how many copies of the row came, or went where it is
 * negative.
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
   *   what the condition calls it
   * @param nameOrPath
   *   an arrangement, by its name in `spark.streamjoin.arrangements` or by its path
   */
  def input(alias: String, nameOrPath: String): DeltaJoin = set(inputs :+= alias -> nameOrPath)

  /** The same. */
  def input(alias: String, arrangement: Arrangement): DeltaJoin = input(alias, arrangement.path)

  /** The condition in SQL, with equalities for the columns of a key of each input. */
  def on(condition: String): DeltaJoin = set { this.condition = Some(condition) }

  /** The columns of the result in SQL; without it, all. */
  @varargs def select(columns: String*): DeltaJoin = set { this.columns = columns }

  /** The same, as a list. */
  def select(columns: JList[String]): DeltaJoin = set { this.columns = columns.asScala.toSeq }

  /** `inner`, or of two inputs `left`, `right` or `full`, in any of Spark's spellings. */
  def joinType(joinType: String): DeltaJoin = set { how = joinType }

  /** The largest number of versions of each input in a batch. */
  def maxVersionsPerTrigger(versions: Int): DeltaJoin = option("maxVersionsPerTrigger", versions.toString)

  /** About how many rows of each input are in a batch. */
  def maxRowsPerTrigger(rows: Long): DeltaJoin = option("maxRowsPerTrigger", rows.toString)

  /** Sets an option of all inputs. */
  def option(name: String, value: String): DeltaJoin = set(options += name -> value)

  /** The changes of the join. */
  def toDF(): DataFrame = DeltaJoins.changes(spark, inputs, condition, columns, how, options)

  private def set(change: => Unit): DeltaJoin = {
    change
    this
  }
}
