package org.apache.spark.sql.streamjoin.observe.collect

import org.apache.spark.sql.catalyst.expressions.{Attribute, Cast, Expression, GetStructField, IsNotNull}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.datasources.DataSourceStrategy
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeWatermarkExec, StateStoreWriter}
import org.apache.spark.sql.execution.{FileSourceScanExec, FilterExec, SparkPlan}
import org.apache.spark.sql.streamjoin.base.{OwnExec, PredicateParts}
import org.apache.spark.sql.streamjoin.watermark.NewestTimeExec

/**
 * How many rows of an input remain after each step from its source to an operator, in a finished
 * batch. Spark's own metrics count the steps, so this costs the tasks nothing.
 *
 * @param read
 *   rows that the sources returned
 * @param files
 *   number of files read, for sources that read files
 * @param inReader
 *   conditions that a file reader applies itself, so that rows that fail them do not count as read
 * @param steps
 *   the steps that removed rows, from the source up
 * @param isDeferred
 *   whether a Spark operator below buffers rows, so that a missing row may arrive later
 * @param marked
 *   rows that have passed `withWatermark`, and how many of them have a null in that column, by
 *   column
 */
final private[streamjoin] case class RowPath(
    read: Long,
    files: Long,
    inReader: Seq[String],
    steps: Seq[RowPath.Step],
    marked: Seq[RowPath.Marked],
    isDeferred: Boolean
) {
  private def and(other: RowPath): RowPath = RowPath(
    read + other.read,
    files + other.files,
    (inReader ++ other.inReader).distinct,
    steps ++ other.steps,
    marked ++ other.marked,
    isDeferred || other.isDeferred
  )
}

private[streamjoin] object RowPath {

  /** A step that removes rows. */
  sealed trait Remover {
    def words: String
  }

  /** A filter that only checks whether columns are null, as Spark infers from a join. */
  final case class NullFilter(columns: Seq[String]) extends Remover {
    override def words: String = columns.map(column => s"$column IS NOT NULL").mkString(" AND ")
  }

  /** @param words the condition of a filter, in the user's terms */
  final case class Condition(override val words: String) extends Remover

  /** @param words name of Spark's operator */
  final case class Operator(override val words: String) extends Remover

  final case class Step(remover: Remover, rows: Long)

  /** @param nulls rows whose event time is null */
  final case class Marked(column: String, rows: Long, nulls: Long)

  private val Rows = "numOutputRows"
  private val Nothing = RowPath(0, 0, Nil, Nil, Nil, isDeferred = false)

  /** @param input the child of an operator in an executed plan */
  def of(input: SparkPlan): RowPath = walk(input).map(_.path).getOrElse(Nothing)

  /** @param rows that have passed a step, if the step counts them */
  final private case class Walked(rows: Option[Long], path: RowPath)

  /** None for a plan that reads no stream. */
  private def walk(plan: SparkPlan): Option[Walked] = plan match {
    case adaptive: AdaptiveSparkPlanExec => walk(adaptive.executedPlan)
    case stage: QueryStageExec => walk(stage.plan)
    case reused: ReusedExchangeExec => walk(reused.child)
    case below: OwnExec with StateStoreWriter =>
      Some(Walked(count(below), Nothing.copy(read = count(below).getOrElse(0))))
    case leaf if leaf.children.isEmpty => Option.when(isStream(leaf))(scanned(leaf))
    case mark: EventTimeWatermarkExec =>
      walk(mark.child).map { below =>
        below.copy(path = below.path.copy(marked = below.path.marked :+ marked(mark)))
      }
    case other =>
      val below = other.children.flatMap(walk)
      Option.when(below.nonEmpty) {
        val merged = below.map(_.path).reduce(_.and(_))
        val path = merged.copy(isDeferred = merged.isDeferred || other.isInstanceOf[StateStoreWriter])
        val came = Option.when(below.forall(_.rows.isDefined))(below.flatMap(_.rows).sum)
        val left = count(other).orElse(came)
        val lost = (for (in <- came; out <- left) yield in - out).filter(_ > 0)
        Walked(left, path.copy(steps = path.steps ++ lost.map(Step(remover(other), _))))
      }
  }

  private def isStream(leaf: SparkPlan): Boolean =
    leaf.isInstanceOf[MicroBatchScanExec] || leaf.logicalLink.exists(_.isStreaming)

  private def scanned(leaf: SparkPlan): Walked = {
    val rows = count(leaf)
    val (files, inReader) = leaf match {
      case scan: FileSourceScanExec =>
        val applied = scan.dataFilters.filter(
          DataSourceStrategy.translateFilter(_, supportNestedPredicatePushdown = true).isDefined
        )
        (scan.metrics.get("numFiles").fold(0L)(_.value), said(applied).map(text))
      case _ => (0L, Nil)
    }
    Walked(rows, Nothing.copy(read = rows.getOrElse(0), files = files, inReader = inReader))
  }

  /** None if Spark does not count them. */
  private def count(plan: SparkPlan): Option[Long] = plan.metrics.get(Rows).map(_.value)

  private def marked(mark: EventTimeWatermarkExec): Marked = {
    val all = mark.eventTimeStats.value.count
    val nulls = mark.child match {
      case times: NewestTimeExec => all - times.stats.value.count
      case _ => 0
    }
    Marked(mark.eventTime.name, all, nulls)
  }

  private def remover(plan: SparkPlan): Remover = plan match {
    case filter: FilterExec =>
      val conjuncts = PredicateParts.conjuncts(filter.condition)
      val nullChecks = conjuncts.collect { case IsNotNull(value) => name(value) }
      if (nullChecks.size == conjuncts.size) NullFilter(nullChecks)
      else Condition(said(conjuncts).map(text).mkString(" AND "))
    case other => Operator(other.nodeName)
  }

  /** The condition without the null checks that Spark infers from other conjuncts. */
  private def said(conjuncts: Seq[Expression]): Seq[Expression] = {
    val (checks, others) = conjuncts.partition(_.isInstanceOf[IsNotNull])
    others ++ checks.filterNot(check => others.exists(other => check.references.subsetOf(other.references)))
  }

  /** A field that is parsed from a text gets its name in the text. */
  private def name(value: Expression): String = value match {
    case column: Attribute => column.name
    case field: GetStructField => field.extractFieldName
    case cast: Cast => name(cast.child)
    case other => text(other)
  }

  /** The expression as SQL, without Spark's qualifiers and outer parentheses. */
  private def text(condition: Expression): String = {
    val sql = condition
      .transform { case column: Attribute => column.withQualifier(Nil) }
      .sql
      .replace("`", "")
    if (isEnclosed(sql)) sql.substring(1, sql.length - 1) else sql
  }

  private def isEnclosed(sql: String): Boolean = sql.startsWith("(") && sql.endsWith(")") && {
    val depths = sql.dropRight(1).scanLeft(0) { (depth, each) =>
      if (each == '(') depth + 1 else if (each == ')') depth - 1 else depth
    }
    depths.tail.forall(_ > 0)
  }
}

/**
 * What happened to the rows of an input since the last batch in which one of them reached the
 * operator, within one run.
 *
 * @param batches
 *   number of batches in which another input had rows, but no row of this one reached the operator
 * @param path
 *   the sum of their rows
 * @param hadRows
 *   whether a row has reached the operator before
 */
final private[streamjoin] case class Inflow(
    batches: Long = 0,
    read: Long = 0,
    files: Long = 0,
    inReader: Seq[String] = Nil,
    removed: Map[RowPath.Remover, Long] = Map.empty,
    isDeferred: Boolean = false,
    hadRows: Boolean = false
) {

  /**
   * @param reached
   *   rows that reached the operator in a batch
   * @param others
   *   rows of the other inputs that reached the operator
   */
  def after(path: RowPath, reached: Long, others: Long): Inflow =
    if (reached > 0) Inflow(hadRows = true)
    else
      Inflow(
        if (others > 0) batches + 1 else batches,
        read + path.read,
        files + path.files,
        if (path.files > 0) path.inReader else inReader,
        path.steps.foldLeft(removed) { case (all, RowPath.Step(remover, rows)) =>
          all.updated(remover, all.getOrElse(remover, 0L) + rows)
        },
        path.isDeferred || isDeferred,
        hadRows
      )
}
