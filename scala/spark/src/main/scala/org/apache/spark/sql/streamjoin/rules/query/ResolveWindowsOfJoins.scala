package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Attribute,
  Equality,
  Expression,
  SessionWindow,
  TimeWindow,
  WindowTime
}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{TIME_WINDOW, WINDOW_TIME}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.time.{EventTime, LastInstant, TumblingStart}
import org.apache.spark.sql.types.TimestampType

/**
 * Resolves `window(a.t, '10 minutes') = window(b.t, '10 minutes')` in the condition of a join, in
 * which Spark resolves no windows (`ResolveTimeWindows`). Windows of one length are equal if their
 * starts are equal. A time may be in several sliding windows, so these are rejected. Also resolves
 * `window_time(a.window)` there, which Spark resolves in operators with one input
 * (`ResolveWindowTime`).
 */
private[streamjoin] object ResolveWindowsOfJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.resolveOperatorsUpWithPruning(_.containsAnyPattern(TIME_WINDOW, WINDOW_TIME)) {
      case join: Join
          if join.childrenResolved &&
            join.condition.exists(_.containsAnyPattern(TIME_WINDOW, WINDOW_TIME)) =>
        val condition = join.condition.map(_.transform {
          case WindowTime(window: Attribute) if isWindow(window) => LastInstant(window)
          case equality @ Equality(Tumbling(left), Tumbling(right)) if isSame(left, right) =>
            equality.withNewChildren(Seq(left, right))
          // A comparison of Columns, which Spark resolves after its operands.
          case equality: UnresolvedFunction if Equalities(equality.nameParts) =>
            equality.arguments match {
              case Seq(Tumbling(left), Tumbling(right)) if isSame(left, right) =>
                equality.copy(arguments = Seq(left, right))
              case _ => equality
            }
        })
        condition.filter(_ => join.left.isStreaming && join.right.isStreaming).foreach(check)
        join.copy(condition = condition)
    }

  /** Spark accepts the same columns. */
  private def isWindow(column: Attribute): Boolean = EventTime.isWindow(column) &&
    Seq(TimeWindow.marker, SessionWindow.marker).exists(column.metadata.contains)

  /** Spark would fail with an internal error. */
  private def check(condition: Expression): Unit = condition.foreach {
    case window: TimeWindow if window.childrenResolved =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_INPUT.WINDOWS",
        "call" -> "window(...) in the condition of a join"
      )
    case _ =>
  }

  private val Equalities: Set[Seq[String]] = Set("=", "==", "<=>").map(Seq(_))

  private def isSame(left: TumblingStart, right: TumblingStart): Boolean =
    left.length == right.length && left.offset == right.offset

  private object Tumbling {
    def unapply(expression: Expression): Option[TumblingStart] = expression match {
      case Alias(child, _) => unapply(child)
      case window: TimeWindow
          if window.windowDuration == window.slideDuration && window.timeColumn.resolved &&
            window.timeColumn.dataType == TimestampType && window.checkInputDataTypes().isSuccess =>
        Some(TumblingStart(window.timeColumn, window.windowDuration, window.startTime))
      case _ => None
    }
  }
}
